// A tokenizer from anybody: a tokenizer.json, or after a zero byte a vocab.json and after another one its merges.txt.
// Whatever the bytes, it is accepted or refused, and what is accepted encodes text, and decodes it to the same.
#include "fuzz/fuzz_target.h"
#include "fuzz/memory_file.h"
#include "text/tokenizer.h"

namespace tessera::testing {
using namespace host;
namespace {

constexpr std::string_view kText = "Hello  ab, it's\n\xc3\xa9t\xe9 <|endoftext|>12";

void use(const Tokenizer& tokenizer) {
  std::vector<int32_t> tokens;
  if (!succeeds([&] { tokens = tokenizer.encode(kText); })) return;  // a byte has no token
  std::string text;
  for (const int32_t token : tokens) {
    require(token >= 0 && token < tokenizer.num_tokens(), "a token that does not exist");
    text += tokenizer.bytes_of(token);
  }
  require(text == kText, "decoding gives another text");
}

/// All bytes as written in such files, by number, and pairs of them after these.
std::string vocabulary(std::string_view more) {
  std::string text = "{";
  int next = 0;
  const auto add = [&](int point) {
    const char two[] = {static_cast<char>(0xc0 | point >> 6), static_cast<char>(0x80 | (point & 63))};
    std::string written = point < 128 ? std::string(1, static_cast<char>(point)) : std::string(two, 2);
    if (point == '"' || point == '\\') written.insert(0, 1, '\\');
    text += "\"" + written + "\":" + std::to_string(next++) + ",";
  };
  for (int byte = 0; byte < 256; ++byte)
    if ((byte > 32 && byte < 127) || (byte > 160 && byte != 173)) add(byte);
  for (int point = 256; point < 256 + 68; ++point)  // of the bytes that are left
    add(point);
  return text + std::string(more) + "}";
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  const std::string words = vocabulary(R"("He":256,"ll":257,"Hell":258,"<|endoftext|>":259)");
  const std::string zero(1, '\0');
  return {
      R"({"model":{"type":"BPE","vocab":{"H":0,"e":1,"He":2},"merges":["H e"]},"pre_tokenizer":{"type":"ByteLevel",)"
      R"("add_prefix_space":false},"added_tokens":[{"id":3,"content":"<|endoftext|>"}]})",
      R"({"model":{"vocab":)" + words +
          R"(,"merges":[["H","e"],["l","l"],["He","ll"]]},"pre_tokenizer":{"type":"ByteLevel"},)"
          R"("post_processor":{"type":"ByteLevel"},"normalizer":null,"decoder":{"type":"ByteLevel"}})",
      zero + words + zero + "#version: 0.2\nH e\nl l\nHe ll\n", zero + R"({"a":0,"b":1,"ab":2})" + zero + "a b\r\n"};
}

}  // namespace tessera::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera::testing;
  using tessera::host::Tokenizer;
  std::string_view input(reinterpret_cast<const char*>(data), size);
  if (input.starts_with('\0')) {
    static const TempFolder folder;
    const size_t end = std::min(input.find('\0', 1), input.size());
    const std::string vocabulary = folder.write("vocab.json", input.substr(1, end - 1));
    folder.write("merges.txt", input.substr(std::min(end + 1, input.size())));
    succeeds([&] { use(Tokenizer(vocabulary)); });
  } else {
    static const MemoryFile file("tokenizer.json");
    file.write(input);
    succeeds([] { use(Tokenizer(file.path())); });
  }
  return 0;
}
