// Jobs of the golden model, as `tessera plan` makes them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "job/job.h"
#include "support/paths.h"

namespace tessera::testing {

inline host::Job nano_job(int num_ranks, std::vector<std::string> more = {}) {
  more.insert(more.end(), {"--model=" + source_dir("tests/golden/gpt2-nano"), "--batch-size=1", "--seq-len=8",
                           "--comm=local", "--plugin-dir=" + plugin_dir()});
  return host::make_job(host::parse_flags(host::FlagSet::plan, more), num_ranks, host::Log(host::LogLevel::off));
}

}  // namespace tessera::testing
