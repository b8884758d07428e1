// Cuts text into words, within which tokens lie.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

namespace tessera::host {

/// GPT-2's: contractions, letters, numbers and other characters, each with the space before it; white space. The words
/// are the whole text, in its order. [control-thread]
class PreTokenizer {
 public:
  PreTokenizer();
  ~PreTokenizer();

  /// Bytes that are not UTF-8 are words of their own.
  void split(std::string_view text, const std::function<void(std::string_view word)>& take) const;

 private:
  void split_valid(std::string_view text, const std::function<void(std::string_view)>& take) const;

  struct Pattern;
  std::unique_ptr<Pattern> pattern_;
};

}  // namespace tessera::host
