#include "exec/self_test/probe_block.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "tessera/half.hpp"
#include "tessera/ranges.hpp"

namespace tessera::host {
namespace {

static_assert(std::endian::native == std::endian::little, "the first bytes of a uint64_t are its low bits");

constexpr float kEdge = -7, kUnset = -9;  // ranks give numbers above 0

/// Edges are as wide as an element, and ranges are aligned to it.
uint64_t alignment_of(const Probe& probe) {
  return std::max<uint64_t>(sizeof kEdge, TSR_NUM_BYTES(probe.collective.dtype, 1));
}

void add_edge_to(Probe& probe, uint64_t num_bytes) {
  const auto edge = std::bit_cast<std::array<std::byte, sizeof kEdge>>(kEdge);
  while (probe.before.size() < num_bytes)
    probe.before.push_back(edge[probe.before.size() % edge.size()]);
  probe.after.insert(probe.after.end(), probe.before.begin() + static_cast<ptrdiff_t>(probe.after.size()),
                     probe.before.end());
  probe.is_defined.resize(num_bytes, true);
}

std::vector<std::byte> bytes_of(const ProbeElements& elements, uint64_t element_bytes) {
  std::vector<std::byte> bytes(elements.size() * element_bytes);
  for (size_t i = 0; i < elements.size(); ++i)
    std::memcpy(&bytes[i * element_bytes], &elements[i], element_bytes);
  return bytes;
}

}  // namespace

uint64_t element_bits(tsr_dtype dtype, double value) {
  switch (dtype) {
    case TSR_F32:
      return std::bit_cast<uint32_t>(static_cast<float>(value));
    case TSR_F64:
      return std::bit_cast<uint64_t>(value);
    case TSR_BF16:
      return float_to_bf16(static_cast<float>(value));
    case TSR_F16:
      return float_to_f16(static_cast<float>(value));
    default:
      return static_cast<uint64_t>(static_cast<int64_t>(value));
  }
}

uint64_t mixed_bits(int rank, uint64_t index) {
  uint64_t bits = ((static_cast<uint64_t>(rank) << 32) | index) + 1;  // splitmix64 (Steele et al. 2014)
  for (const uint64_t factor : {0xbf58476d1ce4e5b9u, 0x94d049bb133111ebu})
    bits = (bits ^ (bits >> 30)) * factor;
  return bits;
}

// Even elements differ between any two of 1,021 ranks that follow one another, odd ones as if drawn: so other ranks
// whose numbers have the same sum in one element have another in the next.
double summed_number(int rank, uint64_t index) {
  const uint64_t by_rank = index % 2 == 0 ? static_cast<uint64_t>(rank) : mixed_bits(rank, index);
  return static_cast<double>(by_rank % 1021 + 1 + index % 8);
}

uint64_t moved_element(tsr_dtype dtype, int rank, uint64_t index) {
  switch (dtype) {
    case TSR_F32:
    case TSR_F64:
      return element_bits(dtype, 8.0 * (rank + 1) + static_cast<double>(index % 8));
    case TSR_BF16:
    case TSR_F16:  // in both an exponent that is neither 0 nor the largest
      return (mixed_bits(rank, index) & 0x9fff) | 0x2000;
    default:
      return mixed_bits(rank, index);
  }
}

ProbeElements moved_elements(tsr_dtype dtype, int rank, uint64_t first, uint64_t count) {
  ProbeElements elements(count);
  for (uint64_t i = 0; i < count; ++i)
    elements[i] = moved_element(dtype, rank, first + i);
  return elements;
}

ProbeElements unset_elements(tsr_dtype dtype, uint64_t count) {
  return ProbeElements(count, element_bits(dtype, kUnset));
}

Probe make_probe(uint32_t kind, std::string name, uint64_t num_elements, tsr_dtype dtype) {
  Probe probe;
  probe.name = std::move(name);
  tsr_collective& c = probe.collective;
  c.struct_size = sizeof c;
  c.kind = kind;
  c.dtype = dtype;
  c.peer = -1;
  c.num_elements = num_elements;
  add_edge_to(probe, alignment_of(probe));
  return probe;
}

int64_t add_range(Probe& probe, const ProbeElements& before, const ProbeElements& after) {
  const uint64_t element_bytes = TSR_NUM_BYTES(probe.collective.dtype, 1), begin = probe.before.size();
  const std::vector<std::byte> first = bytes_of(before, element_bytes), last = bytes_of(after, element_bytes);
  probe.before.insert(probe.before.end(), first.begin(), first.end());
  probe.after.insert(probe.after.end(), last.begin(), last.end());
  probe.ranges.push_back({begin, probe.before.size()});
  const uint64_t alignment = alignment_of(probe);
  add_edge_to(probe, round_up<uint64_t>(probe.before.size(), alignment) + alignment);
  return static_cast<int64_t>(begin);
}

int64_t add_range(Probe& probe, const ProbeElements& unchanged) {
  return add_range(probe, unchanged, unchanged);
}

void leave_undefined(Probe& probe, int64_t begin, uint64_t num_bytes) {
  std::fill_n(probe.is_defined.begin() + begin, num_bytes, false);
}

}  // namespace tessera::host
