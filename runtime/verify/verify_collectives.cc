// Checks each collective by itself: operands, root or peer, reduction, counts, overlap. Communicators may rely on all
// of these, and need not check sizes on the hot path. For example
//
//     rank 0 #4 comm.dp.gather all_gather h.0 binds 6656 elements as its slice, which has 6624 of 13248
//
// collective_matching.cc checks what has to agree between ranks. Cost: linear in the bindings.

#include <algorithm>
#include <numeric>
#include <span>

#include "program/collective_operands.h"
#include "verify/verify_rank.h"

namespace tessera::host {
namespace {

bool is_float(tsr_dtype dtype) {
  return dtype == TSR_F16 || dtype == TSR_F32 || dtype == TSR_F64 || dtype == TSR_BF16;
}

/// For each member; 0 for a kind that takes none.
size_t counts_per_member(uint32_t kind) {
  if (kind == TSR_ACTION_ALL_TO_ALL) return 2;
  return kind == TSR_ACTION_REDUCE_SCATTER || kind == TSR_ACTION_ALL_GATHER ? 1 : 0;
}

class CollectiveChecker {
 public:
  CollectiveChecker(const Program& program, size_t index, DiagnosticList& diagnostics)
      : program_(program),
        index_(index),
        action_(program.actions[index]),
        form_(program, action_),
        diagnostics_(diagnostics) {}

  void run() {
    check_slots();
    check_fields();
    if (num_reports_ > 0 || action_.kind == TSR_ACTION_BARRIER) return;
    if (action_.kind == TSR_ACTION_EXCHANGE) return check_exchange();
    if (!check_operands()) return;
    check_dtypes();
    check_sizes();
    check_overlap();
  }

 private:
  void report(const std::string& what) {
    ++num_reports_;
    diagnostics_.add(action_text(program_, index_) + " " + what);
  }

  /// Only SOURCE, DESTINATION and WORKSPACE, each once; one of the first two unless it is an exchange.
  void check_slots() {
    for (const Binding& binding : action_.bindings) {
      const uint32_t role = TSR_SLOT_ROLE(binding.slot), index = TSR_SLOT_INDEX(binding.slot);
      const auto name = [&] { return slot_text(program_, action_, binding.slot); };
      if (action_.find(binding.slot) != &binding) report("binds " + name() + " twice");
      if (role == TSR_ROLE_WORKSPACE) {
        if (index > 0 || binding.mode != TSR_MODE_WRITE)
          report("binds " + name() + "; its workspace is w0, which it writes");
        continue;
      }
      const bool is_source = role == TSR_ROLE_SOURCE;
      if (!is_source && role != TSR_ROLE_DESTINATION) report("binds " + name() + "; a collective has src, dst and w");
      if (index > 0 && action_.kind != TSR_ACTION_EXCHANGE)
        report("binds " + name() + "; only exchange has more than one");
      if (is_source != (binding.mode == TSR_MODE_READ))
        report("binds " + name() + " with a mode that does not fit: src is read, dst written or added to");
    }
  }

  void check_fields() {
    const uint32_t kind = action_.kind;
    const bool one_peer = has_root(kind) || kind == TSR_ACTION_SEND || kind == TSR_ACTION_RECV;
    if (one_peer && (action_.peer < 0 || action_.peer >= form_.num_ranks))
      report("names " + std::string(has_root(kind) ? "root " : "peer ") + std::to_string(action_.peer) +
             "; its group has " + std::to_string(form_.num_ranks) + " ranks");
    if (one_peer && !has_root(kind) && action_.peer == form_.position) report("is a message to itself");
    if (!one_peer && action_.peer != -1) report("names a peer; its kind has none");
    if (reduces(kind) != (action_.reduce != 0) || action_.reduce > TSR_REDUCE_MAX)
      report("has the reduction " + std::to_string(action_.reduce) +
             (reduces(kind) ? "; 1 to 4 are sum, avg, min, max" : "; it reduces nothing"));
    const size_t per_member = counts_per_member(kind), num_counts = per_member * static_cast<size_t>(form_.num_ranks);
    if (!action_.counts.empty() && action_.counts.size() != num_counts)
      report("has " + std::to_string(action_.counts.size()) + " counts; " +
             (per_member == 0 ? "it takes none"
                              : "it takes " + std::to_string(num_counts) +
                                    (per_member == 1 ? ", one per member" : ": what is sent, then what is received")));
    if (!action_.peers.empty() && kind != TSR_ACTION_EXCHANGE) report("lists peers; only exchange does");
    if (kind == TSR_ACTION_BARRIER && !action_.bindings.empty()) report("binds buffers; a barrier has none");
  }

  /// Whether source and destination are those of the kind on this rank; if not, nothing more is checked.
  bool check_operands() {
    const bool is_root = form_.position == action_.peer;
    const bool both = form_.source && form_.destination && form_.destination->mode == TSR_MODE_WRITE;
    const bool only_source = form_.source && !form_.destination;
    const bool only_destination = !form_.source && form_.destination;
    switch (action_.kind) {
      case TSR_ACTION_SEND:
        return require(only_source, "a src and nothing else");
      case TSR_ACTION_RECV:
        return require(only_destination && form_.destination->mode == TSR_MODE_WRITE,
                       "a dst to write and nothing else");
      case TSR_ACTION_BROADCAST:
        return is_root ? require(both || form_.in_place, "on the root src and dst, or in place dst with mode add")
                       : require(only_destination, "off the root a dst and nothing else");
      case TSR_ACTION_REDUCE:
        return is_root ? require(both || form_.in_place, "on the root src and dst, or in place dst with mode add")
                       : require(only_source, "off the root a src and nothing else");
      case TSR_ACTION_ALL_TO_ALL:
        return require(both, "src and a dst to write; it is never in place");
      default:
        return require(both || form_.in_place, "src and a dst to write, or in place dst with mode add");
    }
  }
  bool require(bool holds, const char* what) {
    if (!holds) report(std::string("needs ") + what);
    return holds;
  }

  void check_dtypes() {
    const Binding* any = form_.source ? form_.source : form_.destination;
    const tsr_dtype dtype = program_.buffer(any->buffer).dtype;
    if (form_.destination && program_.buffer(form_.destination->buffer).dtype != dtype)
      report("reads " + std::string(dtype_name(dtype)) + " and writes " +
             std::string(dtype_name(program_.buffer(form_.destination->buffer).dtype)));
    if (action_.reduce == TSR_REDUCE_AVG && !is_float(dtype))
      report("averages " + std::string(dtype_name(dtype)) + "; only floating-point types can be averaged");
  }

  void check_sizes() {
    const uint64_t from = form_.source ? form_.source->num_elements : 0;
    const uint64_t to = form_.destination ? form_.destination->num_elements : 0;
    switch (action_.kind) {
      case TSR_ACTION_REDUCE_SCATTER:
        return check_slices(form_.in_place ? to : from, form_.in_place ? nullptr : &to);
      case TSR_ACTION_ALL_GATHER:
        return check_slices(to, form_.in_place ? nullptr : &from);
      case TSR_ACTION_ALL_TO_ALL:
        check_slices(from, nullptr);
        return check_received(from, to);
      default:
        if (form_.source && form_.destination && from != to) report_sizes(from, to);
    }
  }

  void check_received(uint64_t from, uint64_t to) {
    if (action_.counts.empty()) {
      if (from != to) report_sizes(from, to);
      return;
    }
    const std::span received_counts = std::span(action_.counts).subspan(static_cast<size_t>(form_.num_ranks));
    if (!check_each(received_counts, to)) return;
    const uint64_t received = std::accumulate(received_counts.begin(), received_counts.end(), uint64_t{0});
    if (received != to)
      report("receives " + std::to_string(received) + " elements by its counts, and writes " + std::to_string(to));
  }

  void report_sizes(uint64_t from, uint64_t to) {
    report("reads " + std::to_string(from) + " elements and writes " + std::to_string(to));
  }

  /// None is larger than all of the elements: then their sum cannot wrap unseen, as one that is below zero makes it.
  bool check_each(std::span<const uint64_t> counts, uint64_t num_elements) {
    const auto too_large = std::ranges::find_if(counts, [&](uint64_t count) { return count > num_elements; });
    if (too_large == counts.end()) return true;
    report("has a count of " + std::to_string(*too_large) + ", and binds " + std::to_string(num_elements) +
           " elements");
    return false;
  }

  /// `whole` elements are cut into one slice per member; this rank's has `*own`.
  void check_slices(uint64_t whole, const uint64_t* own) {
    const uint64_t n = static_cast<uint64_t>(form_.num_ranks);
    if (action_.counts.empty() && whole % n != 0)
      return report("cuts " + std::to_string(whole) + " elements into " + std::to_string(n) + " equal slices");
    if (!action_.counts.empty() && !check_each(std::span(action_.counts).first(n), whole)) return;
    const auto offsets = slice_offsets(action_, whole, form_.num_ranks);
    if (offsets.back() != whole)
      report("has counts that add up to " + std::to_string(offsets.back()) + ", and binds " + std::to_string(whole) +
             " elements");
    const uint64_t slice = offsets[form_.position + 1] - offsets[form_.position];
    if (own && *own != slice)
      report("binds " + std::to_string(*own) + " elements as its slice, which has " + std::to_string(slice) + " of " +
             std::to_string(whole));
  }

  /// Source and destination in one buffer may overlap only where the ABI defines in place: the same range, or the own
  /// slice.
  void check_overlap() {
    const Binding *source = form_.source, *destination = form_.destination;
    if (!source || !destination || source->buffer != destination->buffer) return;
    if (source->offset >= destination->offset + destination->num_elements ||
        destination->offset >= source->offset + source->num_elements)
      return;
    const bool scatters = action_.kind == TSR_ACTION_REDUCE_SCATTER, gathers = action_.kind == TSR_ACTION_ALL_GATHER;
    const Binding* whole = gathers ? destination : source;
    const Binding* slice = gathers ? source : destination;
    uint64_t offset = whole->offset;
    if (gathers || scatters) offset += slice_offsets(action_, whole->num_elements, form_.num_ranks)[form_.position];
    if (slice->offset != offset || action_.kind == TSR_ACTION_ALL_TO_ALL)
      report("has src and dst that overlap in " + buffer_text(program_.buffer(source->buffer)) +
             " without being in place");
  }

  /// Messages are on their way at once, so none may write what another sends or receives.
  void check_received_apart() {
    for (const Binding& received : action_.bindings) {
      if (TSR_SLOT_ROLE(received.slot) != TSR_ROLE_DESTINATION) continue;
      if (received.mode != TSR_MODE_WRITE)
        return report("binds " + slot_text(program_, action_, received.slot) + " with mode add; a message is written");
      for (const Binding& other : action_.bindings)
        if (&other != &received && overlap(received, other))
          return report("binds " + slot_text(program_, action_, received.slot) + " to " +
                        range_text(program_, received) + ", and " + slot_text(program_, action_, other.slot) +
                        " too; what is received has a range of its own");
    }
  }

  void check_exchange() {
    check_received_apart();
    const size_t num_workspaces = std::ranges::count_if(
        action_.bindings, [](const Binding& b) { return TSR_SLOT_ROLE(b.slot) == TSR_ROLE_WORKSPACE; });
    const size_t num_messages = action_.bindings.size() - num_workspaces;
    if (action_.peers.size() != num_messages)
      return report("lists " + std::to_string(action_.peers.size()) + " peers for " + std::to_string(num_messages) +
                    " messages");
    if (messages_of(action_).size() != num_messages) return report("binds src and dst with gaps in their numbers");
    check_dtype_of_messages();
    for (const int peer : action_.peers)
      if (peer < 0 || peer >= form_.num_ranks || peer == form_.position)
        report("names peer " + std::to_string(peer) + "; its group has " + std::to_string(form_.num_ranks) +
               " ranks, and it is " + std::to_string(form_.position));
  }

  /// A communicator gets one dtype for all of them.
  void check_dtype_of_messages() {
    tsr_dtype first = 0;
    for (const Message& message : messages_of(action_)) {
      const tsr_dtype dtype = program_.buffer(message.binding->buffer).dtype;
      if (first == 0) first = dtype;
      if (dtype != first)
        return report("has messages of " + std::string(dtype_name(first)) + " and of " +
                      std::string(dtype_name(dtype)) + "; those of an exchange have one dtype");
    }
  }

  const Program& program_;
  const size_t index_;
  const Action& action_;
  const CollectiveOperands form_;
  DiagnosticList& diagnostics_;
  size_t num_reports_ = 0;
};

}  // namespace

void verify_collectives(const Program& program, DiagnosticList& diagnostics) {
  for (size_t i = 0; i < program.actions.size(); ++i)
    if (is_collective(program.actions[i].kind)) CollectiveChecker(program, i, diagnostics).run();
}

}  // namespace tessera::host
