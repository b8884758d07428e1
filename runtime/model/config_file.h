// A Hugging Face config.json: typed access to its keys.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/concat.h"
#include "tessera/program.h"

namespace tessera::host {

/// What a config.json says, key by key. A key that is null counts as absent, as in Hugging Face's own reader. Every
/// refusal names the file and the key.
class ConfigFile {
 public:
  /// Throws INVALID_ARGUMENT for what is not one JSON object, NOT_FOUND without the file.
  explicit ConfigFile(const std::string& path);
  ~ConfigFile();

  const std::string& path() const { return path_; }
  /// The whole file, as it was read.
  const std::string& contents() const { return contents_; }
  bool has(const char* key) const;
  /// A whole number from 1 to `max`; throws INVALID_ARGUMENT when it is missing or another.
  int64_t extent(const char* key, int64_t max) const;
  /// The value, or `absent`; throw INVALID_ARGUMENT for one of another type.
  double number(const char* key, double absent) const;
  bool boolean(const char* key, bool absent) const;
  std::string text(const char* key, const char* absent) const;
  /// The value as JSON if it is a token, null or a list of tokens, of a vocabulary of that size; empty for any other.
  std::string tokens(const char* key, int64_t vocab) const;

  /// Throws an error about the key: `parts` follow its name.
  template <class... Parts>
  [[noreturn]] void refuse(tsr_status code, const char* key, const Parts&... parts) const {
    refuse_with(code, concat(path_, ": \"", key, "\" ", parts...));
  }

 private:
  struct Object;

  [[noreturn]] static void refuse_with(tsr_status code, const std::string& message);

  std::string path_, contents_;
  std::unique_ptr<Object> object_;
};

}  // namespace tessera::host
