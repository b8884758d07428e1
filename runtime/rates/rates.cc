// Rates as JSON. They are read strictly: a prediction by a rate that is missing, zero or of another type would be wrong
// without a word, so each such rate is refused by its path in the file.

#include "rates/rates.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/concat.h"
#include "base/read_only_file.h"
#include "base/strict_json.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kMaxFileBytes = 16 << 20;
constexpr int kMaxDepth = 8;
constexpr int kVersion = 1;
constexpr std::string_view kBegin = "{\n  \"tessera_rates\":";

Json json_of(const Together& together) {
  return {{"compute", together.compute}, {"copies", together.copies}};
}

Json json_of(const OpRate& op) {
  return {{"op", op.op},
          {"shape", op.shape},
          {"operations", op.operations},
          {"bytes", op.num_bytes},
          {"seconds", op.seconds}};
}

/// One object of the file, and its path there: "ops[3]".
class Reader {
 public:
  Reader(const nlohmann::json& object, std::string file, std::string path)
      : object_(object), file_(std::move(file)), path_(std::move(path)) {
    if (!object.is_object()) fail(path_, "is not an object");
  }

  double at_least_zero(const char* key) const {
    const nlohmann::json& value = at(key);
    if (!value.is_number() || !std::isfinite(value.get<double>()) || value.get<double>() < 0)
      refuse(key, "is ", value.dump(), ", not a number from 0 on");
    return value.get<double>();
  }
  double above_zero(const char* key) const {
    const double value = at_least_zero(key);
    if (value == 0) refuse(key, "is 0, not a number above 0");
    return value;
  }
  double share(const char* key) const {
    const double value = above_zero(key);
    if (value > 1) refuse(key, "is ", at(key).dump(), ", not a share of at most 1");
    return value;
  }
  int64_t count(const char* key) const {
    const nlohmann::json& value = at(key);
    if (!value.is_number_unsigned() || value.get<uint64_t>() < 1 || value.get<uint64_t>() > INT32_MAX)
      refuse(key, "is ", value.dump(), ", not a whole number from 1 on");
    return value.get<int64_t>();
  }
  std::string text(const char* key) const {
    const nlohmann::json& value = at(key);
    if (!value.is_string()) refuse(key, "is ", value.dump(), ", not a string");
    return value.get<std::string>();
  }
  bool has(const char* key) const { return object_.contains(key); }
  Reader object(const char* key) const { return {at(key), file_, path_of(key)}; }
  std::vector<Reader> objects(const char* key) const {
    const nlohmann::json& list = at(key);
    if (!list.is_array() || list.empty()) refuse(key, "is not a list with at least one entry");
    std::vector<Reader> all;
    for (size_t i = 0; i < list.size(); ++i)
      all.emplace_back(list[i], file_, concat(path_of(key), "[", i, "]"));
    return all;
  }

  template <class... Parts>
  [[noreturn]] void refuse(const std::string& key, const Parts&... parts) const {
    fail(path_of(key), parts...);
  }

 private:
  template <class... Parts>
  [[noreturn]] void fail(const std::string& path, const Parts&... parts) const {
    throw Error(TSR_E_INVALID_ARGUMENT, printable(concat("--rates ", file_, ": \"", path, "\" ", parts...,
                                                         "; let tessera bench rates write it again")));
  }
  const nlohmann::json& at(const char* key) const {
    const auto found = object_.find(key);
    if (found == object_.end()) refuse(key, "is missing");
    return *found;
  }
  std::string path_of(const std::string& key) const { return path_.empty() ? key : path_ + "." + key; }

  const nlohmann::json& object_;
  std::string file_, path_;
};

Together together_of(const Reader& reader) {
  return {reader.share("compute"), reader.share("copies")};
}

FileRates files_of(const Reader& reader) {
  return {reader.above_zero("read_bytes_per_second"), reader.above_zero("write_bytes_per_second"),
          reader.above_zero("both_bytes_per_second"), reader.at_least_zero("seconds_per_transfer"),
          together_of(reader.object("beside_compute"))};
}

}  // namespace

std::string rates_json(const Rates& rates) {
  Json ops = Json::array();
  for (const OpRate& op : rates.ops)
    ops.push_back(json_of(op));
  Json json = {{"tessera_rates", kVersion},
               {"device", rates.device},
               {"measured", rates.measured},
               {"threads", rates.num_threads},
               {"copies",
                {{"in_bytes_per_second", rates.copies.in_bytes_per_second},
                 {"out_bytes_per_second", rates.copies.out_bytes_per_second},
                 {"beside_compute", json_of(rates.copies.beside_compute)}}}};
  if (const auto& files = rates.files)
    json["files"] = {{"read_bytes_per_second", files->read_bytes_per_second},
                     {"write_bytes_per_second", files->write_bytes_per_second},
                     {"both_bytes_per_second", files->both_bytes_per_second},
                     {"seconds_per_transfer", files->seconds_per_transfer},
                     {"beside_compute", json_of(files->beside_compute)}};
  if (rates.link_bytes_per_second) json["link_bytes_per_second"] = *rates.link_bytes_per_second;
  json["ops"] = ops;
  return json.dump(2) + "\n";
}

Rates read_rates(const std::string& path) {
  const nlohmann::json json = parse_strict_json(read_text_file(path, kMaxFileBytes), "--rates " + path, kMaxDepth);
  const Reader file(json, path, "");
  if (const int64_t version = file.count("tessera_rates"); version != kVersion)
    file.refuse("tessera_rates", "is ", version, "; this tessera reads version ", kVersion);
  Rates rates;
  rates.device = file.text("device");
  rates.measured = file.text("measured");
  rates.num_threads = static_cast<int>(file.count("threads"));
  const Reader copies = file.object("copies");
  rates.copies = {copies.above_zero("in_bytes_per_second"), copies.above_zero("out_bytes_per_second"),
                  together_of(copies.object("beside_compute"))};
  if (file.has("files")) rates.files = files_of(file.object("files"));
  if (file.has("link_bytes_per_second")) rates.link_bytes_per_second = file.above_zero("link_bytes_per_second");
  for (const Reader& op : file.objects("ops"))
    rates.ops.push_back({op.text("op"), op.text("shape"), op.at_least_zero("operations"), op.at_least_zero("bytes"),
                         op.above_zero("seconds")});
  return rates;
}

bool begins_like_rates(std::string_view begin) {
  return begin.starts_with(kBegin);
}

}  // namespace tessera::host
