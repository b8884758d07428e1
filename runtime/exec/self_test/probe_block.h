// How a probe's block is made: ranges of numbers between edges.
//
//     edge | send | edge | recv | edge
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exec/self_test/probe.h"

namespace tessera::host {

/// The elements of a range, each as its bits.
using ProbeElements = std::vector<uint64_t>;

/// The bits of a number in that dtype; for integers a whole one.
uint64_t element_bits(tsr_dtype dtype, double value);

/// The element `index` that a rank sends where nothing is reduced: multiples of 8 and the index in float32, so that
/// messages can be read; in other dtypes any bits but those of denormals, infinities and NaNs.
uint64_t moved_element(tsr_dtype dtype, int rank, uint64_t index);
ProbeElements moved_elements(tsr_dtype dtype, int rank, uint64_t first, uint64_t count);
/// What a range that is to be received holds before.
ProbeElements unset_elements(tsr_dtype dtype, uint64_t count);

/// Bits that differ by rank and index, as if drawn.
uint64_t mixed_bits(int rank, uint64_t index);
/// A whole number with so few bits that its float32 sum over 16,000 members is exact.
double summed_number(int rank, uint64_t index);

/// A probe without ranges, over `num_elements` of float32.
Probe make_probe(uint32_t kind, std::string name, uint64_t num_elements, tsr_dtype dtype = TSR_F32);
/// Adds a range and an edge after it to the block; returns where the range begins.
int64_t add_range(Probe& probe, const ProbeElements& before, const ProbeElements& after);
/// The same for a range that must stay as it is.
int64_t add_range(Probe& probe, const ProbeElements& unchanged);
/// A collective may leave anything in those bytes.
void leave_undefined(Probe& probe, int64_t begin, uint64_t num_bytes);

}  // namespace tessera::host
