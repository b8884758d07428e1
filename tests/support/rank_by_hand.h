// A rank on the CPU whose programs are made by hand, for tests of what runs and measures.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "exec/rank_runtime.h"
#include "passes/dependencies.h"
#include "support/memory_kv.h"
#include "support/plugin_loader.h"
#include "support/program_builder.h"
#include "tessera/device.h"

namespace tessera::testing {

/// Of a rank whose init does nothing. The steps have the same persistent buffers.
inline RankPrograms programs_by_hand(std::vector<Program> steps) {
  RankPrograms programs;
  programs.init = steps.at(0);
  programs.init.purpose = TSR_PURPOSE_INIT;
  programs.init.actions.clear();
  programs.steps = std::move(steps);
  std::vector<Program*> all = {&programs.init};
  for (Program& step : programs.steps) {
    derive_dependencies(step);
    all.push_back(&step);
  }
  programs.memory = plan_memory(all);
  return programs;
}

class RankByHand {
 public:
  /// Buffers in files are below `folder`.
  std::unique_ptr<RankRuntime> make(std::vector<Program> steps, const std::string& folder = "") {
    RankSetup setup;
    setup.device.api = &device;
    setup.device.host = &host_;
    setup.device_memory_is_host = true;
    setup.files.folders = {folder};
    setup.debug.sums_writes = true;  // a test may ask for them
    return std::make_unique<RankRuntime>(setup, programs_by_hand(std::move(steps)));
  }

  /// The table through which the CPU is used; a test may change it.
  tsr_device_interface device = load_plugin<tsr_device_interface>("cpu-device", TSR_DEVICE_INTERFACE);

 private:
  MemoryKv store_;
  tsr_host host_ = store_.host();
};

}  // namespace tessera::testing
