// The bytes that a rank sends in a program, and how often parameters are gathered.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "program/program.h"

namespace tessera::host {

/// Bytes that this rank sends to others in one collective action if, as in a canonical sum, each operand goes directly
/// to the rank that needs it. In a group of n ranks, for a buffer of B bytes:
///   reduce_scatter, all_to_all  B without the own slice: (n-1)/n B with equal slices
///   all_gather                  n-1 times the own slice: (n-1)/n B with equal slices
///   all_reduce                  2 (n-1)/n B
///   broadcast                   (n-1) B on the root, else 0
///   reduce                      0 on the root, else B
///   send, exchange              the bytes of the messages
uint64_t sent_bytes(const Program& program, const Action& action);

struct Traffic {
  std::string stream;
  uint32_t kind = 0;  ///< TSR_ACTION_*
  uint64_t num_actions = 0;
  uint64_t sent_bytes = 0;
};
/// By stream, then kind, in the order of their first action.
std::vector<Traffic> traffic_of(const Program& program);

/// How often the parameters of a unit are gathered. A repeated gather is correct, so no check reports it, but it is a
/// waste.
struct UnitGathers {
  std::string unit;
  uint64_t num_times = 0;        ///< buffers of kind `gathered` with parameters of the unit that collectives fill
  uint64_t num_collectives = 0;  ///< all_gathers and broadcasts that fill them
};
/// The units that are gathered, in the model's order.
std::vector<UnitGathers> gathers_of(const Program& program);

}  // namespace tessera::host
