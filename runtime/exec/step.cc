#include "exec/step.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <thread>

#include "tessera/error.hpp"

namespace tessera {

tsr_status Delay::run(void* self, tsr_error*) {
  uint64_t& state = static_cast<Delay*>(self)->state;
  state = state * 6364136223846793005u + 1442695040888963407u;  // Knuth's MMIX
  std::this_thread::sleep_for(std::chrono::microseconds((state >> 33) % 200));
  return TSR_OK;
}

tsr_status Guard::check(void* self, tsr_error* err) {
  const Guard& guard = *static_cast<const Guard*>(self);
  return tessera::guard(err, "host", [&] {
    const std::span<const std::byte> bytes(guard.seen.at(0), guard.seen.num_bytes());
    const auto bad = std::ranges::find_if(bytes, [](std::byte b) { return b != std::byte{kByte}; });
    if (bad != bytes.end())
      throw Error(TSR_E_DATA_LOSS, "memory check: something wrote " + std::to_string(bad - bytes.begin()) +
                                       " bytes behind the end of buffer " + guard.buffer);
  });
}

tsr_status StrategyCall::run(void* self, tsr_error* err) {
  const StrategyCall& c = *static_cast<const StrategyCall*>(self);
  return c.strategy->interface->call(c.strategy->instance, c.tag, c.operands.data(), c.operands.size(), err);
}

}  // namespace tessera
