// The host functions of commands: strategies' calls, and those of --debug-memory and --stream-delay. They run on the
// stream's thread, so their error is the stream's error and ends the run like that of a kernel.

#include "exec/command.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <span>
#include <string_view>
#include <thread>

#include "base/concat.h"
#include "guard/known_functions.h"
#include "guard/plugin_calls.h"
#include "storage/block_sums.h"
#include "tessera/error.hpp"
#include "tessera/half.hpp"

namespace tessera::host {

tsr_status Delay::run(void* self, tsr_error*) noexcept {
  uint64_t& state = static_cast<Delay*>(self)->state;
  state = state * 6364136223846793005u + 1442695040888963407u;  // Knuth's MMIX
  std::this_thread::sleep_for(std::chrono::microseconds((state >> 33) % 200));
  return TSR_OK;
}

tsr_status RedZone::check(void* self, tsr_error* err) noexcept {
  const RedZone& zone = *static_cast<const RedZone*>(self);
  return tessera::guard(err, "host", [&] {
    const std::span<const std::byte> bytes(zone.seen.at(0), zone.seen.num_bytes());
    const auto bad = std::ranges::find_if(bytes, [](std::byte b) { return b != std::byte{kByte}; });
    if (bad != bytes.end())
      throw Error(TSR_E_DATA_LOSS, "memory check: something wrote to byte " + std::to_string(bad - bytes.begin()) +
                                       " past the end of buffer " + zone.buffer);
  });
}

namespace {

template <class T>
bool has_not_finite(const std::byte* data, uint64_t num_elements, auto&& to_number) {
  const std::span<const T> values(reinterpret_cast<const T*>(data), num_elements);
  return std::ranges::any_of(values, [&](T value) { return !std::isfinite(to_number(value)); });
}

bool is_finite(const FiniteCheck& w) {
  if (w.dtype == TSR_F32) return !has_not_finite<float>(w.seen, w.num_elements, std::identity());
  if (w.dtype == TSR_F64) return !has_not_finite<double>(w.seen, w.num_elements, std::identity());
  if (w.dtype == TSR_F16) return !has_not_finite<uint16_t>(w.seen, w.num_elements, f16_to_float);
  if (w.dtype == TSR_BF16) return !has_not_finite<uint16_t>(w.seen, w.num_elements, bf16_to_float);
  return true;
}

}  // namespace

tsr_status FiniteCheck::check(void* self, tsr_error*) noexcept {
  const FiniteCheck& check = *static_cast<const FiniteCheck*>(self);
  if (is_finite(check)) return TSR_OK;
  size_t first = check.first->load();
  // The minimum over all streams: the first in list order is the one that caused the others.
  while (check.position < first && !check.first->compare_exchange_weak(first, check.position)) {
  }
  return TSR_OK;
}

tsr_status WriteSum::take(void* self, tsr_error*) noexcept {
  WriteSum& sum = *static_cast<WriteSum*>(self);
  sum.crc32c = tessera::host::crc32c({sum.seen, sum.num_bytes});
  return TSR_OK;
}

namespace {

/// The plugin's sentence follows what it was called for.
void put_before(tsr_error& err, const std::string& label) {
  const std::string text = concat(label, ": ", std::string_view(err.message, strnlen(err.message, sizeof err.message)));
  const size_t length = std::min(text.size(), sizeof err.message - 1);
  std::memcpy(err.message, text.data(), length);
  err.message[length] = '\0';
}

}  // namespace

tsr_status StrategyCall::run(void* self, tsr_error* err) noexcept {
  const StrategyCall& c = *static_cast<const StrategyCall*>(self);
  try {
    const auto call = c.strategy->interface->call;
    const tsr_status status = enter(call, c.strategy->instance, &c.call, err);
    if (status < TSR_OK && err && err->message[0] == '\0')
      throw Error(status, concat(call_text(address_of(call)), " failed with status ", status, " and gave no message"));
    if (status < TSR_OK && err) put_before(*err, c.label);
    if (status <= TSR_OK) return status;
    throw Error(TSR_E_INTERNAL, concat(call_text(address_of(call)), " returned ", status,
                                       "; only TSR_OK and errors, which are negative, end a CALL"));
  } catch (const Error& e) {  // what has escaped from it
    fill_error(err, e.code(), "host", e.what());
    return e.code();
  }
}

}  // namespace tessera::host
