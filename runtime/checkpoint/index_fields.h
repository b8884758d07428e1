// The objects of index.json, read key by key.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/concat.h"
#include "checkpoint/index.h"
#include "tessera/program.h"

namespace tessera::host {

/// An object of JSON. Every function throws INVALID_ARGUMENT, naming file and key, for a key that is missing or of
/// another type.
class JsonFields {
 public:
  /// Throws INVALID_ARGUMENT for what is not one JSON object; `where` names the file.
  JsonFields(const std::string& text, const std::string& where);

  const std::string& where() const { return where_; }
  bool has(const std::string& key) const;
  uint64_t number(const std::string& key) const;
  /// Not negative, and fits.
  int64_t count(const std::string& key) const;
  uint32_t crc(const std::string& key) const;
  double real(const std::string& key) const;
  bool boolean(const std::string& key) const;
  std::string text(const std::string& key) const;
  std::vector<uint64_t> numbers(const std::string& key) const;
  /// Lists of numbers.
  std::vector<std::vector<uint64_t>> lists(const std::string& key) const;
  JsonFields object(const std::string& key) const;
  std::vector<JsonFields> objects(const std::string& key) const;
  std::vector<std::string> keys() const;
  /// Of an object whose values are texts, in the file's order of keys.
  NamedValues texts(const std::string& key) const;
  void require_only(std::initializer_list<const char*> keys) const;

  template <class... Parts>
  [[noreturn]] void refuse(const std::string& key, const Parts&... parts) const {
    refuse_with(concat(where_, ": \"", key, "\" ", parts...));
  }

 private:
  JsonFields(std::shared_ptr<const nlohmann::json> root, const nlohmann::json& value, std::string where);
  const nlohmann::json& at(const std::string& key) const;
  [[noreturn]] static void refuse_with(const std::string& message);

  std::shared_ptr<const nlohmann::json> root_;
  const nlohmann::json* value_;
  std::string where_;
};

RunState read_state(const JsonFields& fields);
RunDescription read_run(const JsonFields& fields);
SavedFile read_file(const JsonFields& fields);
/// `is_whole`: the parts of each tensor must hold each element once.
std::map<std::string, SavedTensor, std::less<>> read_tensors(const JsonFields& fields, size_t num_files, bool is_whole);

}  // namespace tessera::host
