// Starts threads, and turns "Resource temporarily unavailable" into a sentence that names the flag to change.
#include "cpu-device/threads.h"

#include <latch>
#include <string>
#include <system_error>
#include <vector>

#include "tessera/error.hpp"

namespace tessera::cpu {
namespace {

Error refusal(const std::string& what, const std::system_error& error) {
  return {TSR_E_RESOURCE_EXHAUSTED,
          "cannot start " + what + ": " + error.code().message() +
              "; lower --threads or --nproc, or raise the limit on threads (ulimit -u, the container's pids limit) or "
              "on memory (ulimit -v)"};
}

}  // namespace

std::thread start_thread(std::function<void()> body) {
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error& error) {
    throw refusal("a thread for a stream", error);
  }
}

// All of them at once, held until the last has started: one after another would succeed under any limit.
void require_threads(uint32_t num_threads) {
  std::latch all_made(1);
  std::vector<std::thread> team;
  const auto end_all = [&] {
    all_made.count_down();
    for (std::thread& thread : team)
      thread.join();
  };
  try {
    team.reserve(num_threads);
    while (team.size() < num_threads)
      team.emplace_back([&] { all_made.wait(); });
  } catch (const std::system_error& error) {
    end_all();
    throw refusal(num_threads == 1 ? "a thread" : std::to_string(num_threads) + " threads", error);
  }
  end_all();
}

}  // namespace tessera::cpu
