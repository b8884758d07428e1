// `tessera tokenize`: text to a .bin of tokens, for --data. The text is read as a whole, and its tokens are kept until
// all are there: about one and a half times the text's size of memory, and never half a file.

#include <iostream>
#include <span>

#include "base/concat.h"
#include "base/log.h"
#include "base/output_file.h"
#include "base/progress.h"
#include "base/read_only_file.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/outputs.h"
#include "config/usage_error.h"
#include "data/token_file.h"
#include "data/token_writer.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace tessera::host {
namespace {

constexpr CommandFlag kFlags[] = {
    {"tokenizer", "FILE",
     "tokenizer.json, or vocab.json with merges.txt beside it, or a folder with either (required)"},
    {"overwrite", "", "replace OUT.bin even if tessera did not write it"},
};
constexpr CommandSyntax kSyntax = {
    "usage: tessera tokenize --tokenizer FILE IN OUT.bin",
    "Writes the tokens of the text file IN, by GPT-2's byte-level BPE, to OUT.bin, which "
    "--data reads.",
    kFlags, 2, "tessera tokenize --tokenizer tokenizer.json corpus.txt corpus.bin"};
constexpr size_t kPartBytes = size_t{1} << 24;  // of text, between two reports of progress
constexpr uint64_t kMaxTextBytes = uint64_t{1} << 40;

/// Bytes at the end of `text` that are a code point's beginning are left to the next part.
size_t part_of(std::string_view text) {
  if (text.size() <= kPartBytes) return text.size();
  for (size_t end = kPartBytes; end > kPartBytes / 2; --end)
    if (text[end] == '\n' && text[end - 1] > ' ' && text[end - 1] <= '~') return end;
  return text.size();
}

std::vector<uint16_t> tokens_of(const Tokenizer& tokenizer, std::string_view text, const std::string& path) {
  std::vector<uint16_t> tokens;
  Progress progress(Log(), concat("tokenizing ", path));
  for (size_t done = 0; done < text.size();) {
    progress.at(done, text.size());
    const std::string_view part = text.substr(done, part_of(text.substr(done)));
    for (const int32_t token : tokenizer.encode(part))
      tokens.push_back(static_cast<uint16_t>(token));
    done += part.size();
  }
  return tokens;
}

void check(const Tokenizer& tokenizer, const Output& output) {
  if (tokenizer.num_tokens() > kMaxTokensOfAFile)
    throw UsageError(concat(tokenizer.source(), " has ", tokenizer.num_tokens(), " tokens, and a .bin holds at most ",
                            kMaxTokensOfAFile, " different ones; give a smaller tokenizer"));
  if (const std::string refusal = refusal_of(output); !refusal.empty()) throw UsageError(refusal);
}

/// What `train --data` would not take for text.
void check_is_text(const std::string& path, std::string_view text) {
  constexpr size_t kStartBytes = 8192;
  const std::string_view start = text.substr(0, kStartBytes);
  if (begins_like_token_file(start)) throw UsageError(concat(path, " is a file of tokens already; give a text"));
  as_usage([&] { refuse_other_formats(path, std::as_bytes(std::span(start))); });
  if (const size_t zero = start.find('\0'); zero != start.npos)
    throw UsageError(concat(path, " is not text: byte ", zero, " is zero, as in UTF-16; save it as UTF-8"));
}

}  // namespace

const CommandSyntax& tokenize_syntax() {
  return kSyntax;
}

int tokenize_command(std::span<const std::string> arguments) {
  const CommandLine line(kSyntax, arguments);
  if (line.wants_help()) {
    std::cout << help_of(kSyntax);
    return 0;
  }
  const std::string file = line.value("tokenizer"), &in = line.words()[0], &out = line.words()[1];
  if (file.empty())
    throw UsageError("--tokenizer is missing; give a tokenizer.json, or a vocab.json with merges.txt beside it");
  if (!out.ends_with(".bin")) throw UsageError(concat("OUT is '", out, "'; give it a name that ends in .bin"));
  const Tokenizer tokenizer(file);
  Output output{.flag = "OUT", .path = out, .is_ours = begins_like_token_file, .overwrite = line.has("overwrite")};
  output.inputs = {{"IN", in, true}, {"--tokenizer", file, true}};
  refuse_inside_checkpoint("OUT", out);
  check(tokenizer, output);
  const std::string text = read_text_or_pipe(in, kMaxTextBytes);
  if (text.empty())
    throw UsageError(concat(in, is_pipe(in)
                                    ? " is a pipe into which nothing writes; start its writer first, or give a file"
                                    : " is empty; give a text"));
  check_is_text(in, text);
  const size_t num_valid = valid_utf8_bytes(text);
  const std::vector<uint16_t> tokens = tokens_of(tokenizer, text, in);
  write_token_file(output, tokens);
  const Log log;
  if (num_valid < text.size())
    log.warning(in, " is not UTF-8 at byte ", num_valid, ": what is not was tokenized byte by byte");
  log.info(in, ": ", text.size(), " bytes are ", counted(tokens.size(), "token"), " of ", tokenizer.num_tokens(),
           ", in ", out);
  return 0;
}

}  // namespace tessera::host
