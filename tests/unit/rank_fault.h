// Programs of one rank with one fault each: what verify_rank reports.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <string>

#include "support/gpt2_ddp.h"
#include "support/program_builder.h"

namespace tessera::testing {

struct Fault {
  const char* name;
  std::function<void(Program&)> make;
  const char* diagnostic;
};
inline void PrintTo(const Fault& fault, std::ostream* out) {
  *out << fault.name;
}

inline const Gpt2Ddp& job() {
  static const Gpt2Ddp two_ranks(2);
  return two_ranks;
}

inline Action& first(Program& program, uint32_t kind, std::string_view stream = "") {
  return program.actions.at(nth_action(program, kind, stream));
}
inline Action& sum(Program& program) {
  return first(program, TSR_ACTION_ALL_REDUCE, "comm.dp.gradient");
}

constexpr uint32_t kSrc = TSR_SLOT(TSR_ROLE_SOURCE, 0), kDst = TSR_SLOT(TSR_ROLE_DESTINATION, 0);

/// Its test is in verify_rank_test.cc.
class RankForm : public ::testing::TestWithParam<Fault> {};

inline std::string name_of(const ::testing::TestParamInfo<Fault>& info) {
  return info.param.name;
}

}  // namespace tessera::testing
