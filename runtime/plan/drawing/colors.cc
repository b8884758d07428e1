// Hues are easy to tell apart, also with most kinds of color blindness: compute is blue, orange and yellow, the update
// is green, what moves data is gray, and communication has the purples, cyan and pink.
// The class is what a rectangle of the drawing carries, one or two letters in place of a color: a step may have tens
// of thousands of them. Traces have the names of kinds, as text, and so the second look-up.

#include "plan/drawing/colors.h"

#include "program/program.h"

namespace tessera::host {
namespace {

constexpr Color kForward = {"forward", "f", "#4c78a8"}, kBackward = {"backward", "b", "#f08a3c"},
                kLoss = {"loss", "l", "#8c2d04"}, kRecompute = {"recompute", "r", "#e8cf4a"},
                kNorm = {"norm, clip", "n", "#a1d99b"}, kOptimizer = {"optimizer", "o", "#2f8f3f"},
                kCopy = {"copy", "y", "#7f7f7f"}, kElementwise = {"cast, add, zero", "e", "#c4c4c4"},
                kCall = {"call of a strategy", "x", "#333333"}, kAllReduce = {"all_reduce", "ar", "#b0208c"},
                kReduceScatter = {"reduce_scatter", "rs", "#6a3d9a"}, kAllGather = {"all_gather", "ag", "#17a2b8"},
                kBroadcast = {"broadcast", "bc", "#00596b"}, kReduce = {"reduce", "rd", "#bc80bd"},
                kAllToAll = {"all_to_all", "aa", "#5b5bd6"}, kMessage = {"send, recv", "s", "#f25fa0"},
                kBarrier = {"barrier", "ba", "#000000"};

}  // namespace

const Color& color_of(uint32_t kind) {
  switch (kind) {
    case TSR_ACTION_FORWARD:
      return kForward;
    case TSR_ACTION_LOSS:
      return kLoss;
    case TSR_ACTION_RECOMPUTE:
      return kRecompute;
    case TSR_ACTION_OPTIMIZER:
      return kOptimizer;
    case TSR_ACTION_COPY:
      return kCopy;
    case TSR_ACTION_CALL:
      return kCall;
    case TSR_ACTION_ALL_REDUCE:
      return kAllReduce;
    case TSR_ACTION_REDUCE_SCATTER:
      return kReduceScatter;
    case TSR_ACTION_ALL_GATHER:
      return kAllGather;
    case TSR_ACTION_BROADCAST:
      return kBroadcast;
    case TSR_ACTION_REDUCE:
      return kReduce;
    case TSR_ACTION_ALL_TO_ALL:
      return kAllToAll;
    case TSR_ACTION_SEND:
    case TSR_ACTION_RECV:
    case TSR_ACTION_EXCHANGE:
      return kMessage;
    case TSR_ACTION_BARRIER:
      return kBarrier;
    default:
      break;
  }
  if (is_backward(kind)) return kBackward;
  return kind >= TSR_ACTION_SUM_SQUARES && kind <= TSR_ACTION_OPTIMIZER ? kNorm : kElementwise;
}

const Color* color_of(std::string_view kind) {
  // The highest kind of the ABI, TSR_ACTION_CALL; numbers between kinds are left out.
  constexpr uint32_t kMaxKind = 64;
  for (uint32_t known = 0; known <= kMaxKind; ++known) {
    const bool is_kind = is_compute(known) || is_collective(known) || is_elementwise(known) ||
                         known == TSR_ACTION_CALL || (known >= TSR_ACTION_SUM_SQUARES && known <= TSR_ACTION_OPTIMIZER);
    if (is_kind && action_name(known) == kind) return &color_of(known);
  }
  return nullptr;
}

}  // namespace tessera::host
