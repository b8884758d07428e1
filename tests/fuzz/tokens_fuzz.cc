// A file of tokens from anybody, with two names: one that ends in .bin and one that does not. Whatever its bytes, it is
// taken for a format or refused, and of what is accepted every token can be read.
#include <algorithm>

#include "data/data_warnings.h"
#include "data/token_source.h"
#include "fuzz/fuzz_target.h"
#include "fuzz/memory_file.h"

namespace tessera::testing {
using namespace host;
namespace {

constexpr int64_t kVocab = 300;  // of bytes all, of uint16 some

/// Of at most 16 Mi tokens each was looked at when the file was opened.
void use(const TokenSource& tokens) {
  std::vector<int32_t> all(tokens.num_tokens());
  require(succeeds([&] { tokens.read(0, all); }), "tokens that were accepted cannot be read");
  require(std::ranges::all_of(all, [](int32_t token) { return token >= 0 && token < kVocab; }),
          "a token is beyond the vocabulary");
  int32_t more = 0;
  require(!succeeds([&] { tokens.read(all.size(), {&more, 1}); }), "more tokens were read than there are");
  require(!tokens.description().empty(), "data without a description");
  data_warnings(tokens, {.vocab = kVocab, .micro_step_tokens = 16, .steps = 10});
  content_hash(tokens);
}

std::string llmc_file(uint32_t num_tokens) {
  std::vector<uint32_t> header(256);
  header[0] = 20240520;
  header[1] = 1;
  header[2] = num_tokens;
  return raw_bytes(header) + std::string(2 * num_tokens, '\0');
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  using namespace std::string_literals;
  return {"First Citizen:\nBefore we proceed any further, hear me speak.\n", "\1\0\2\0\3\0\4\0"s, llmc_file(4), ""};
}

}  // namespace tessera::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera::testing;
  static const MemoryFile text("data.txt"), shard("data.bin");
  for (const MemoryFile* file : {&text, &shard}) {
    file->write({reinterpret_cast<const char*>(data), size});
    succeeds([&] { use(*tessera::host::open_tokens(file->path(), kVocab)); });
  }
  return 0;
}
