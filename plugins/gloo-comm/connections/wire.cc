// Headers are compared field by field, not as bytes, so that the error can name the difference. Uneven counts are sent
// as a hash: they are n numbers, and a header must fit into one message.
#include "gloo-comm/connections/wire.h"

namespace tessera::gloo_comm {
namespace {

bool has_root(uint32_t kind) {
  return kind == TSR_COLL_BROADCAST || kind == TSR_COLL_REDUCE;
}

uint64_t elements_between(const std::vector<uint64_t>& offsets, int rank) {
  return offsets[static_cast<size_t>(rank) + 1] - offsets[static_cast<size_t>(rank)];
}

}  // namespace

Header make_header(const Collective& collective, int peer, bool outgoing) {
  Header header{};
  header.kind = collective.kind;
  header.ticket = collective.ticket;
  header.sequence = collective.sequence;
  if (collective.kind == TSR_COLL_BARRIER) return header;
  header.reduce = is_reduction(collective.kind) ? collective.reduce : 0;
  header.dtype = collective.dtype;
  header.root = has_root(collective.kind) ? collective.peer : -1;
  if (collective.kind == TSR_COLL_ALL_TO_ALL) {  // both ways, so that both ranks see a difference
    header.num_elements = elements_between(outgoing ? collective.offsets : collective.recv_offsets, peer);
    header.counts_hash = elements_between(outgoing ? collective.recv_offsets : collective.offsets, peer);
    return header;
  }
  header.num_elements = collective.total_elements();
  for (const uint64_t offset : collective.offsets)
    header.counts_hash = mix(header.counts_hash, offset);
  return header;
}

Header make_header(const Collective& collective, const Transfer& transfer) {
  Header header{};
  header.kind = TSR_COLL_SEND;
  header.dtype = transfer.dtype;
  header.root = -1;
  header.ticket = transfer.index;
  header.num_elements = transfer.num_elements;
  header.sequence = collective.sequence;
  return header;
}

// The most likely cause first; the later differences may be its consequences.
const char* difference(const Header& expected, const Header& received) {
  if (expected.kind != received.kind) return "kind";
  if (expected.ticket != received.ticket) return "order";
  if (expected.dtype != received.dtype) return "dtype";
  if (expected.reduce != received.reduce) return "reduction";
  if (expected.root != received.root) return "root";
  if (expected.num_elements != received.num_elements) return "number of elements";
  if (expected.counts_hash != received.counts_hash)
    return expected.kind == TSR_COLL_ALL_TO_ALL ? "number of elements the other way" : "counts";
  return expected.num_inline_bytes == received.num_inline_bytes ? nullptr : "version of gloo-comm";
}

std::string header_text(const Header& header) {
  std::string text = std::string(collective_name(header.kind)) + " #" + std::to_string(header.sequence);
  if (header.kind == TSR_COLL_BARRIER) return text;
  text += " (";
  if (header.reduce) text += std::string(reduce_name(header.reduce)) + ", ";
  text += std::to_string(header.num_elements) + " elements " + dtype_name(header.dtype);
  if (header.kind == TSR_COLL_ALL_TO_ALL) text += ", " + std::to_string(header.counts_hash) + " the other way";
  if (header.root >= 0) text += ", root " + std::to_string(header.root);
  return text + ")";
}

}  // namespace tessera::gloo_comm
