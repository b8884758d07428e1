#include "launch/torchelastic.h"

#include <cstdlib>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>

namespace tessera::host {
namespace {

// torchrun looks at its processes every 0.1 s, and its times are whole seconds.
constexpr std::time_t kEchoSeconds = 3;

}  // namespace

void write_torchelastic_error(const Failure& failure) {
  const char* path = std::getenv("TORCHELASTIC_ERROR_FILE");
  if (!path || !*path) return;
  const std::time_t time = std::time(nullptr) + (failure.is_echo() ? kEchoSeconds : 0);
  const nlohmann::json error = {
      {"message",
       {{"message", failure.sentence},
        {"errorCode", failure.exit_code},
        {"extraInfo", {{"py_callstack", rank_name(failure.who)}, {"timestamp", std::to_string(time)}}}}}};
  std::ofstream(path) << error.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace tessera::host
