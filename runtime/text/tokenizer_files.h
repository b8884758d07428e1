// The files of tokenizers: vocab.json with merges.txt, and tokenizer.json.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/bpe.h"

namespace tessera::host {

/// What such files say.
struct TokenizerData {
  std::vector<std::string> tokens;  ///< the bytes of each; empty: there is none of that number
  std::vector<BpeMerge> merges;     ///< in their order
  std::vector<int32_t> special;     ///< tokens that text names as a whole, such as <|endoftext|>
  std::string source;               ///< the file or files, for messages
};

/// Reads tokenizer.json (of the `tokenizers` package), or vocab.json with the merges.txt beside it (of GPT-2), or
/// whichever a folder has. Throws INVALID_ARGUMENT or UNSUPPORTED, naming file and key, for a tokenizer that is not
/// GPT-2's byte-level BPE; NOT_FOUND.
TokenizerData read_tokenizer_files(const std::string& path);

}  // namespace tessera::host
