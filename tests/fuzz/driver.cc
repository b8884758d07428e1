// Runs a target without libFuzzer, which only clang has: on its seeds, and on changes of these. Changes pile up on an
// input for a while, so that a second one can build on the first. An input that takes much processor time ends the
// process by a signal (SIGPROF), and inputs that take much memory fail.
//
// usage: TARGET RUNS
#include <sys/time.h>

#include <algorithm>
#include <random>
#include <string_view>

#include "base/resident_memory.h"
#include "fuzz/fuzz_target.h"

namespace tessera::testing {
namespace {

constexpr size_t kLongestInput = 8192, kMaxChanges = 6;
constexpr time_t kMaxSeconds = 60;                 // of an input
constexpr int64_t kMaxBytes = int64_t{512} << 20;  // of the process, sanitizers included

/// Numbers at which sizes overflow, and marks of JSON.
constexpr std::string_view kWords[] = {"0",
                                       "-1",
                                       "1e9",
                                       "4294967295",
                                       "4294967296",
                                       "9223372036854775807",
                                       "18446744073709551615",
                                       "18446744073709551616",
                                       "[]",
                                       "{}",
                                       "null",
                                       "true",
                                       "\"\"",
                                       ",",
                                       ":",
                                       "\\u0000",
                                       "\xff"};

class Mutator {
 public:
  void change(std::string& input) {
    for (size_t left = 1 + draw(kMaxChanges); left > 0; --left)
      change_once(input);
    if (input.size() > kLongestInput) input.resize(kLongestInput);
  }

  size_t draw(size_t below) { return below ? random_() % below : 0; }

 private:
  void change_once(std::string& input) {
    const size_t at = draw(input.size()), length = std::min(draw(24), input.size() - at);
    switch (draw(7)) {
      case 0:
        if (!input.empty()) input[at] = static_cast<char>(input[at] ^ (1 << draw(8)));
        break;
      case 1:
        if (!input.empty()) input[at] = static_cast<char>(draw(256));
        break;
      case 2:
        input.erase(at, length);
        break;
      case 3:
        input.insert(draw(input.size()), input.substr(at, length));
        break;
      case 4:
        input.insert(at, kWords[draw(std::size(kWords))]);
        break;
      case 5:
        replace_number(input, at);
        break;
      default:
        input.resize(input.size() - (draw(16) == 0 ? length : 0));
    }
  }

  void replace_number(std::string& input, size_t from) {
    const size_t begin = input.find_first_of("0123456789", from);
    if (begin == input.npos) return;
    const size_t end = std::min(input.find_first_not_of("0123456789", begin), input.size());
    input.replace(begin, end - begin,
                  draw(2) ? std::string(kWords[draw(std::size(kWords))]) : std::to_string(draw(100)));
  }

  std::mt19937_64 random_{1};
};

int run(uint64_t num_runs) {
  const std::vector<std::string> seeds = fuzz_seeds();
  const auto take = [](const std::string& input) {
    const itimerval limit{{}, {kMaxSeconds, 0}};
    ::setitimer(ITIMER_PROF, &limit, nullptr);
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
  };
  for (const std::string& seed : seeds)
    take(seed);
  Mutator mutator;
  std::string input;
  for (uint64_t i = 0; i < num_runs; ++i) {
    if (i % 4 == 0) input = seeds[mutator.draw(seeds.size())];
    mutator.change(input);
    take(input);
  }
  require(host::resident_memory().peak_bytes < kMaxBytes, "inputs of a few bytes take much memory");
  std::cout << seeds.size() << " seeds and " << num_runs << " changes of them\n";
  return 0;
}

}  // namespace
}  // namespace tessera::testing

int main(int argc, char** argv) {
  return tessera::testing::run(argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 100'000);
}
