// Parses JSON of files from elsewhere. The library alone is too lenient: it keeps the last of two equal keys, stops at
// a zero byte and recurses as deep as the text does. Where readers disagree about a file's meaning, content can be
// smuggled past one of them.

#include "base/strict_json.h"

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "base/concat.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

using nlohmann::json;

// The library keeps the last of two equal keys; this sees every key as it is parsed.
class StructureCheck {
 public:
  StructureCheck(const std::string& where, int max_depth) : where_(where), max_depth_(max_depth) {}

  bool operator()(int depth, json::parse_event_t event, json& parsed) {
    switch (event) {
      case json::parse_event_t::object_start:
        keys_.emplace_back();
        check_depth(depth);
        break;
      case json::parse_event_t::array_start:
        check_depth(depth);
        break;
      case json::parse_event_t::key:
        check_key(parsed.get_ref<const std::string&>());
        break;
      case json::parse_event_t::object_end:
        keys_.pop_back();
        break;
      default:
        break;
    }
    return true;
  }

 private:
  void check_depth(int num_enclosing) const {
    if (num_enclosing < max_depth_) return;
    throw Error(TSR_E_INVALID_ARGUMENT, concat(where_, " nests deeper than ", max_depth_, " levels"));
  }

  /// A zero character would end the key for a reader in C.
  void check_key(const std::string& key) {
    if (key.find('\0') != std::string::npos) {
      throw Error(TSR_E_INVALID_ARGUMENT, concat(where_, " has a key with a zero character: ", key.c_str(), "..."));
    }
    if (!keys_.back().insert(key).second) {
      throw Error(TSR_E_INVALID_ARGUMENT, concat(where_, " has the key \"", key, "\" twice"));
    }
  }

  const std::string& where_;
  int max_depth_;
  std::vector<std::set<std::string>> keys_;  // of the objects that are open
};

/// Finds a number that is too small to be one, which the library takes for 0: a learning rate of 1e-400.
class UnderflowCheck : public nlohmann::json_sax<json> {
 public:
  const std::string& found() const { return found_; }

  bool number_float(double value, const std::string& text) override {
    const bool is_zero = text.substr(0, text.find_first_of("eE")).find_first_of("123456789") == text.npos;
    if (value == 0 && !is_zero) found_ = text;
    return found_.empty();
  }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(json::number_integer_t) override { return true; }
  bool number_unsigned(json::number_unsigned_t) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(json::binary_t&) override { return true; }
  bool start_object(std::size_t) override { return true; }
  bool key(std::string&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  std::string found_;
};

}  // namespace

json parse_strict_json(std::string_view text, const std::string& where, int max_depth) {
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff"))
    throw Error(TSR_E_INVALID_ARGUMENT, concat(where, " is text in UTF-16; save it as UTF-8"));
  // The library takes a zero byte for the end of the text and ignores what follows.
  if (text.find('\0') != std::string_view::npos)
    throw Error(TSR_E_INVALID_ARGUMENT, concat(where, " has a zero byte at position ", text.find('\0')));
  json parsed;
  try {
    parsed = json::parse(text, StructureCheck(where, max_depth));
  } catch (const json::exception& e) {
    std::string_view why = e.what();  // "[json.exception.parse_error.101] parse error at line 1, column 1: ..."
    if (const size_t end = why.find("] "); why.starts_with("[json.") && end != why.npos) why.remove_prefix(end + 2);
    throw Error(TSR_E_INVALID_ARGUMENT, concat(where, " is not valid JSON: ", why));
  }
  if (UnderflowCheck check;
      (text.find("e-") != text.npos || text.find("E-") != text.npos) && !json::sax_parse(text, &check))
    throw Error(TSR_E_INVALID_ARGUMENT,
                concat(where, " has the number ", check.found(), ", which is too small for a number of 64 bits"));
  if (!parsed.is_object()) throw Error(TSR_E_INVALID_ARGUMENT, concat(where, " is not a JSON object"));
  return parsed;
}

}  // namespace tessera::host
