// `tessera generate`: continues a prompt with a model's weights, a token at a time, on standard output. What a token is
// to the user depends on the model and the flags:
//
//     with --tokenizer        text, by that tokenizer
//     a model of bytes        text, its bytes
//     any other model         numbers, with spaces between them
//
// A vocabulary may be larger than what has a text: models pad it to a round number. Such tokens are never drawn.

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <limits>
#include <numeric>
#include <optional>
#include <thread>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/concat.h"
#include "base/log.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/model_folder.h"
#include "config/default_plugins.h"
#include "config/text_values.h"
#include "config/usage_error.h"
#include "exec/self_test/test_device.h"
#include "generate/generator.h"
#include "generate/sampler.h"
#include "model/architecture.h"
#include "plugins/host_services.h"
#include "plugins/loader.h"
#include "text/tokenizer.h"
#include "train/saving/checkpoint_writer.h"

namespace tessera::host {
namespace {

constexpr CommandFlag kFlags[] = {
    {"prompt", "TEXT", "what to continue; token numbers (\"12 7 5\") for a model of tokens without --tokenizer"},
    {"tokenizer", "FILE", "tokenizer.json, or vocab.json with merges.txt beside it, or a folder with either"},
    {"context", "N",
     "earlier tokens that are attended to, at most; 0: as many as a checkpoint was trained with, or as the model has "
     "(default 0)"},
    {"max-tokens", "N", "tokens to generate at most (default 100)"},
    {"temperature", "T", "above 1: more random; below: less; 0: always the most probable token (default 1)"},
    {"top-k", "K", "draw from the K most probable tokens; 0: from all (default 0)"},
    {"top-p", "P", "draw from the most probable tokens that together have this probability (default 1)"},
    {"seed", "N", "random seed; equal seeds give equal texts (default 1337)"},
    {"threads", "N", "threads; 0: as many as there are cores (default 0)"},
    {"plugin-dir", "FOLDER", "search this folder for plugins too"},
};
constexpr CommandSyntax kSyntax = {
    "usage: tessera generate FOLDER [--prompt TEXT] [--tokenizer FILE] [flags]",
    "Continues a prompt with the weights in FOLDER: a checkpoint, or config.json with model.safetensors.", kFlags, 1,
    "tessera generate runs/mine --prompt \"Once upon a time\" --temperature 0.8"};
constexpr int64_t kNumBytes = 256;
constexpr int64_t kMaxOfBytes = 512;  // 256 bytes, and room for a few special tokens
constexpr std::string_view kEndOfText = "<|endoftext|>";
constexpr int64_t kMost = int64_t{1} << 40;
constexpr int64_t kMaxSeed = std::numeric_limits<int64_t>::max();

/// Bytes at the end of `text` that begin a UTF-8 character whose other bytes are yet to come.
size_t unfinished_bytes(std::string_view text) {
  for (size_t i = 1; i <= std::min<size_t>(3, text.size()); ++i) {
    const auto byte = static_cast<unsigned char>(text[text.size() - i]);
    if ((byte & 0xc0) == 0x80) continue;
    const size_t num_bytes = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return num_bytes > i ? i : 0;
  }
  return 0;
}

/// Standard output for text that a model made. A terminal would obey its control characters, so there all but ends of
/// lines and tabs are escaped (\x1b); files and pipes get the bytes as they are.
class TextOutput {
 public:
  void write(std::string_view bytes) {
    if (is_terminal_) {
      pending_ += bytes;
      show(pending_.size() - unfinished_bytes(pending_));
    } else {
      std::cout << bytes;
    }
    std::cout.flush();
  }

  void finish() {
    show(pending_.size());
    std::cout << std::endl;
  }

 private:
  /// The first bytes of pending_, which go.
  void show(size_t num_bytes) {
    std::string_view text = std::string_view(pending_).substr(0, num_bytes);
    while (!text.empty()) {
      const size_t end = std::min(text.find_first_of("\n\t"), text.size());
      std::cout << printable(text.substr(0, end)) << text.substr(end, 1);
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    pending_.erase(0, num_bytes);
  }

  const bool is_terminal_ = ::isatty(STDOUT_FILENO) == 1;
  std::string pending_;  // of a terminal: the beginning of a character
};

/// How tokens are read from the prompt and shown.
class TokenText {
 public:
  TokenText(const CommandLine& line, const std::string& folder, int64_t vocab) : vocab_(vocab) {
    if (line.has("tokenizer")) tokenizer_.emplace(line.value("tokenizer"));
    if (tokenizer_ && tokenizer_->num_tokens() > vocab)
      throw UsageError(concat(tokenizer_->source(), " has ", tokenizer_->num_tokens(), " tokens, and the model of ",
                              folder, " ", vocab, "; give the tokenizer it was trained with"));
  }

  /// Those that have a text, ascending; the model may have more, as padding.
  std::vector<int32_t> tokens() const {
    std::vector<int32_t> all(static_cast<size_t>(tokenizer_      ? tokenizer_->num_tokens()
                                                 : is_of_bytes() ? kNumBytes
                                                                 : vocab_));
    std::iota(all.begin(), all.end(), 0);
    if (tokenizer_) std::erase_if(all, [&](int32_t token) { return !tokenizer_->has(token); });
    return all;
  }

  std::vector<int32_t> read(const CommandLine& line) const {
    const std::optional<int32_t> start = start_token();
    if (!line.has("prompt")) {
      if (start) return {*start};
      refuse_prompt("is missing", "");
    }
    const std::string prompt = line.value("prompt");
    const std::vector<int32_t> tokens = tokenizer_      ? tokenizer_->encode(prompt)
                                        : is_of_bytes() ? bytes_of(prompt)
                                                        : numbers_in(prompt);
    if (tokens.empty()) refuse_prompt("has no token", start ? ", or leave it out" : "");
    return tokens;
  }

  void show(int32_t token) {
    if (tokenizer_)
      output_.write(tokenizer_->bytes_of(token));
    else if (is_of_bytes())
      output_.write(std::string(1, static_cast<char>(token)));
    else
      output_.write(concat(num_shown_ > 0 ? " " : "", token));
    ++num_shown_;
  }

  void finish() { output_.finish(); }

  /// The token after which nothing follows.
  bool is_end(int32_t token) const { return tokenizer_ && tokenizer_->bytes_of(token) == kEndOfText; }

  /// Tokens are taken for bytes, by the size of the vocabulary.
  bool is_of_bytes() const { return !tokenizer_ && vocab_ >= kNumBytes && vocab_ <= kMaxOfBytes; }

 private:
  static std::vector<int32_t> bytes_of(const std::string& text) {
    std::vector<int32_t> bytes;
    for (const char c : text)
      bytes.push_back(static_cast<unsigned char>(c));
    return bytes;
  }

  std::vector<int32_t> numbers_in(std::string text) const {
    std::ranges::replace(text, ',', ' ');
    std::vector<int32_t> numbers;
    for (const std::string_view word : split(text, ' '))
      if (!word.empty()) numbers.push_back(static_cast<int32_t>(parse_integer("prompt", word, 0, vocab_ - 1)));
    return numbers;
  }

  /// Where a text begins: a new line, or after the end of another. Nothing where none is known.
  std::optional<int32_t> start_token() const {
    if (is_of_bytes()) return '\n';
    const std::vector<int32_t> end = tokenizer_ ? tokenizer_->encode(kEndOfText) : std::vector<int32_t>();
    return end.size() == 1 ? std::optional(end[0]) : std::nullopt;
  }

  [[noreturn]] void refuse_prompt(std::string_view why, std::string_view or_else) const {
    const bool is_text = tokenizer_ || is_of_bytes();
    throw UsageError(concat("--prompt ", why, "; give ",
                            is_text ? "the text to continue" : "token numbers (\"12 7 5\"), or --tokenizer and a text",
                            or_else));
  }

  const int64_t vocab_;
  std::optional<Tokenizer> tokenizer_;
  TextOutput output_;
  int64_t num_shown_ = 0;
};

SamplerOptions sampler_options(const CommandLine& line) {
  SamplerOptions options;
  options.temperature = line.number("temperature", 1, 0, 1e6);
  options.top_k = line.integer("top-k", 0, 0, kMost);
  options.top_p = line.number("top-p", 1, 1e-9, 1);
  options.seed = static_cast<uint64_t>(line.integer("seed", 1337, 0, kMaxSeed));
  for (const char* flag : {"top-k", "top-p"})
    if (options.temperature == 0 && line.has(flag))
      throw UsageError(concat("--", flag, " changes nothing at --temperature 0; leave one of them out"));
  return options;
}

uint32_t num_threads(const CommandLine& line) {
  const auto given = static_cast<uint32_t>(line.integer("threads", 0, 0, 4096));
  return given > 0 ? given : std::max(1u, std::thread::hardware_concurrency());
}

/// Shows the tokens, until one cannot be shown; returns how many were generated.
int64_t generate(Generator& generator, const std::vector<int32_t>& prompt, TokenText& text, Sampler& sampler,
                 int64_t max_tokens) {
  for (const int32_t token : prompt)
    text.show(token);
  const std::vector<int32_t> tokens = text.tokens();
  std::vector<float> of_tokens(tokens.size());
  std::span<const float> logits = generator.start(prompt);
  for (int64_t i = 0; i < max_tokens; ++i) {
    std::ranges::transform(tokens, of_tokens.begin(), [&](int32_t t) { return logits[static_cast<size_t>(t)]; });
    const int32_t token = tokens[static_cast<size_t>(sampler.next(of_tokens))];
    if (text.is_end(token)) return i;
    text.show(token);
    if (!std::cout) return i;  // main says why
    if (i + 1 < max_tokens) logits = generator.append(token);
  }
  return max_tokens;
}

/// How many tokens to look back on; 0: as many as the model has.
int64_t context_of(const CommandLine& line, const ModelFolder& model) {
  const int64_t given = line.integer("context", 0, 0, kMost);
  const ModelInputs inputs = model.architecture().inputs();
  if (const auto* tokens = std::get_if<TokenInputs>(&inputs); tokens && given > tokens->max_seq)
    throw UsageError(
        concat("--context ", given, " is longer than the model's context of ", tokens->max_seq, " tokens; give fewer"));
  return given > 0 ? given : model.trained_seq_len;
}

int run(const CommandLine& line) {
  const std::string& folder = line.words()[0];
  const SamplerOptions options = sampler_options(line);
  const int64_t max_tokens = line.integer("max-tokens", 100, 1, kMost);
  const ModelFolder model = open_model_folder(folder);
  const int64_t context = context_of(line, model);
  const Log log;
  const HostServices host(log);
  std::vector<std::string> folders;
  if (line.has("plugin-dir")) folders.push_back(line.value("plugin-dir"));
  const LoadedPlugin cpu = load_plugin(PluginKind::device, kDefaultDevice, plugin_folders(folders), log);
  const Device device({.api = cpu.device(), .num_threads = num_threads(line), .host = host.of(cpu)});
  test_device(device, CallTimeouts().start_ms);
  Generator generator(model.named.architecture, *model.weights, device, context);
  TokenText text(line, folder, generator.vocab());
  if (text.is_of_bytes() && model.trained_tokens == kNumbers)
    log.warning(folder,
                " was trained on token files, and its tokens are taken for bytes, which they need not be; give ",
                "the --tokenizer that made them");
  const std::vector<int32_t> prompt = text.read(line);
  if (std::ssize(prompt) > generator.context())
    log.warning("the prompt has ", prompt.size(), " tokens, and the model looks back on ", generator.context(),
                ": only the last ones count");
  Sampler sampler(options);
  const auto start = std::chrono::steady_clock::now();
  const int64_t num_tokens = generate(generator, prompt, text, sampler, max_tokens);
  text.finish();
  if (!std::cout) return 0;
  const double ms = ms_since(start);
  log.info("generated ", counted(num_tokens, "token"), " after ", prompt.size(), " of the prompt, ",
           shortest(std::round(100 * ms / static_cast<double>(std::max<int64_t>(1, num_tokens))) / 100),
           " ms per token");
  return 0;
}

}  // namespace

const CommandSyntax& generate_syntax() {
  return kSyntax;
}

int generate_command(std::span<const std::string> arguments) {
  const CommandLine line(kSyntax, arguments);
  if (!line.wants_help()) return run(line);
  std::cout << help_of(kSyntax);
  return 0;
}

}  // namespace tessera::host
