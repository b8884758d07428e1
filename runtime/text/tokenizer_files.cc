// tokenizer.json can say much that GPT-2's tokenizer does not do: normalization, other pre-tokenizers, prefixes, byte
// fall-back. Ignoring any of it would give other tokens than the model was trained on, without an error, so everything
// but what changes no token is refused.
//
//     tokenizer.json    {"model": {"type": "BPE", "vocab": {"!": 0, ...}, "merges": [["\u0120", "t"], ...]}, ...}
//     vocab.json        {"!": 0, ..., "\u0120the": 262, ...}      with merges.txt: "\u0120 t", a line for each merge
//
// Both write bytes as visible characters (byte_level.h): \u0120 is a space.

#include "text/tokenizer_files.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/concat.h"
#include "base/read_only_file.h"
#include "base/strict_json.h"
#include "tessera/error.hpp"
#include "text/byte_level.h"

namespace tessera::host {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kMaxFileBytes = uint64_t{256} << 20;
constexpr int kMaxDepth = 16;
constexpr int64_t kMaxTokens = 1 << 20;  // numbers are places in a list, and one of them makes it as long
constexpr std::string_view kEndOfText = "<|endoftext|>";  // GPT-2's special token, which vocab.json does not mark

template <class... Parts>
[[noreturn]] void refuse(tsr_status code, const Parts&... parts) {
  throw Error(code, concat(parts...));
}

/// Collects a TokenizerData from one file or two.
class Reader {
 public:
  explicit Reader(std::string source) { data_.source = std::move(source); }

  void add_vocabulary(const Json& vocabulary, const std::string& where) {
    if (!vocabulary.is_object()) refuse(TSR_E_INVALID_ARGUMENT, where, ": the vocabulary is not an object of tokens");
    for (const auto& [written, number] : vocabulary.items()) {
      const int64_t token = number.is_number_integer() ? number.get<int64_t>() : -1;
      if (token < 0 || token >= kMaxTokens)
        refuse(TSR_E_INVALID_ARGUMENT, where, ": the token \"", written, "\" has the number ", number.dump(),
               "; expected one from 0 to ", kMaxTokens - 1);
      // Special tokens may have characters outside of that alphabet, and are taken as they are written.
      add(token, from_byte_level(written).value_or(written), where);
      ids_.emplace(written, static_cast<int32_t>(token));
    }
  }

  void add_merge(std::string_view left, std::string_view right, const std::string& where) {
    const auto token = [&](const std::string& written) {
      const auto found = ids_.find(written);
      if (found == ids_.end())
        refuse(TSR_E_INVALID_ARGUMENT, where, ": merge ", data_.merges.size() + 1, " (\"", printable(left), " ",
               printable(right), "\") needs the token \"", printable(written),
               "\", which the vocabulary does not have");
      return found->second;
    };
    const std::string a(left), b(right);
    data_.merges.push_back({token(a), token(b), token(a + b)});
  }

  void add_special(int64_t token, const std::string& bytes, const std::string& where) {
    if (token < 0 || token >= kMaxTokens || bytes.empty())
      refuse(TSR_E_INVALID_ARGUMENT, where, ": the added token \"", bytes, "\" has the number ", token);
    const auto written = ids_.find(bytes);  // in the vocabulary too, where it may be byte-level
    const std::string there =
        static_cast<size_t>(token) < data_.tokens.size() ? data_.tokens[static_cast<size_t>(token)] : std::string();
    if (there.empty())
      add(token, bytes, where);
    else if (there != bytes && (written == ids_.end() || written->second != token))
      refuse(TSR_E_INVALID_ARGUMENT, where, ": the added token \"", bytes, "\" has the number ", token,
             ", which is that of \"", printable(there), "\"; give it another");
    data_.tokens[static_cast<size_t>(token)] = bytes;  // not byte-level there
    data_.special.push_back(static_cast<int32_t>(token));
  }

  void mark_end_of_text() {
    if (const auto found = ids_.find(std::string(kEndOfText)); found != ids_.end())
      data_.special.push_back(found->second);
  }

  TokenizerData finish() {
    if (data_.tokens.empty()) refuse(TSR_E_INVALID_ARGUMENT, data_.source, " has no token");
    return std::move(data_);
  }

 private:
  void add(int64_t token, std::string bytes, const std::string& where) {
    const auto place = static_cast<size_t>(token);
    if (place >= data_.tokens.size()) data_.tokens.resize(place + 1);
    if (!data_.tokens[place].empty()) refuse(TSR_E_INVALID_ARGUMENT, where, ": two tokens have the number ", token);
    data_.tokens[place] = std::move(bytes);
  }

  TokenizerData data_;
  std::unordered_map<std::string, int32_t> ids_;  // by how the files write them
};

Json parse(const std::string& path) {
  return parse_strict_json(read_text_file(path, kMaxFileBytes), path, kMaxDepth);
}

/// A line of merges.txt, or one entry of tokenizer.json in its old form.
void add_line(Reader& reader, std::string_view line, const std::string& where) {
  const size_t space = line.find(' ');
  if (space == line.npos || space == 0 || space + 1 == line.size() || line.find(' ', space + 1) != line.npos)
    refuse(TSR_E_INVALID_ARGUMENT, where, ": the merge \"", printable(line),
           "\" is not two tokens with a space between them");
  reader.add_merge(line.substr(0, space), line.substr(space + 1), where);
}

void add_merges_file(Reader& reader, const std::string& path) {
  const std::string text = read_text_file(path, kMaxFileBytes);
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = std::string_view(text).substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    const bool is_version = begin == 0 && line.starts_with("#version");
    if (!line.empty() && !is_version) add_line(reader, line, path);
    begin = end + 1;
  }
}

/// Refuses a key unless it is absent, null, false or "".
void require_unset(const Json& object, std::initializer_list<const char*> keys, const std::string& where) {
  for (const char* key : keys) {
    const auto value = object.find(key);
    if (value == object.end() || value->is_null() || *value == false || *value == "") continue;
    refuse(TSR_E_UNSUPPORTED, where, ": \"", key, "\" is ", value->dump().substr(0, 60),
           "; only GPT-2's byte-level BPE is supported, which has none");
  }
}

/// Refuses a part of the tokenizer that is neither null nor of type ByteLevel.
void require_byte_level(const Json& tokenizer, const char* key, bool may_be_null, const std::string& where) {
  const Json part = tokenizer.value(key, Json());
  if (part.is_null() && may_be_null) return;
  const std::string type = part.is_object() && part.contains("type") ? part["type"].dump() : part.dump().substr(0, 60);
  if (type != "\"ByteLevel\"")
    refuse(TSR_E_UNSUPPORTED, where, ": \"", key, "\" is ", type, "; only GPT-2's \"ByteLevel\" is supported");
  if (!part.is_object())
    refuse(TSR_E_INVALID_ARGUMENT, where, ": \"", key, "\" is ", type, "; it must be an object of that type");
  if (std::string(key) != "pre_tokenizer") return;
  require_unset(part, {"add_prefix_space"}, where);
  if (part.value("use_regex", Json(true)) != true)
    refuse(TSR_E_UNSUPPORTED, where, ": \"pre_tokenizer\" has \"use_regex\" false; only GPT-2's pattern is supported");
}

void add_added_tokens(Reader& reader, const Json& tokenizer, const std::string& where) {
  const Json added = tokenizer.value("added_tokens", Json());
  if (added.is_null()) return;
  for (const Json& token : added) {
    if (!token.is_object() || !token.contains("content") || !token["content"].is_string() || !token.contains("id") ||
        !token["id"].is_number_integer())
      refuse(TSR_E_INVALID_ARGUMENT, where, ": an entry of \"added_tokens\" has no \"content\" and \"id\"");
    require_unset(token, {"single_word", "lstrip", "rstrip"}, where);
    reader.add_special(token["id"], token["content"], where);
  }
}

TokenizerData read_tokenizer_json(const std::string& path) {
  const Json tokenizer = parse(path);
  const Json model = tokenizer.value("model", Json());
  if (!model.is_object() || model.value("type", Json("BPE")) != "BPE" || !model.contains("vocab") ||
      !model.contains("merges") || !model["merges"].is_array())
    refuse(TSR_E_UNSUPPORTED, path,
           ": \"model\" is not of the type \"BPE\" with \"vocab\" and \"merges\"; only GPT-2's ",
           "byte-level BPE is supported");
  require_unset(tokenizer, {"normalizer"}, path);
  require_byte_level(tokenizer, "pre_tokenizer", false, path);
  require_byte_level(tokenizer, "post_processor", true, path);
  require_unset(model, {"dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback", "ignore_merges"},
                path);
  Reader reader(path);
  reader.add_vocabulary(model["vocab"], path);
  for (const Json& merge : model["merges"]) {
    if (merge.is_string())
      add_line(reader, merge.get_ref<const std::string&>(), path);
    else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
      reader.add_merge(merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>(), path);
    else
      refuse(TSR_E_INVALID_ARGUMENT, path, ": the merge ", merge.dump().substr(0, 60), " is not two tokens");
  }
  add_added_tokens(reader, tokenizer, path);
  return reader.finish();
}

TokenizerData read_vocab_and_merges(const std::string& vocab) {
  const std::string merges = std::filesystem::path(vocab).replace_filename("merges.txt");
  if (!name_is_there(merges))
    refuse(TSR_E_NOT_FOUND, vocab, " has no merges.txt beside it; put both into one folder, or give a tokenizer.json");
  Reader reader(concat(vocab, " and merges.txt"));
  reader.add_vocabulary(parse(vocab), vocab);
  add_merges_file(reader, merges);
  reader.mark_end_of_text();
  return reader.finish();
}

}  // namespace

TokenizerData read_tokenizer_files(const std::string& path) {
  std::error_code unknown;
  if (!std::filesystem::is_directory(path, unknown))
    return path.ends_with("vocab.json") ? read_vocab_and_merges(path) : read_tokenizer_json(path);
  for (const char* name : {"/tokenizer.json", "/vocab.json"})
    if (name_is_there(path + name)) return read_tokenizer_files(path + name);
  refuse(TSR_E_NOT_FOUND, "the folder ", path, " has no tokenizer.json, and no vocab.json with merges.txt");
}

}  // namespace tessera::host
