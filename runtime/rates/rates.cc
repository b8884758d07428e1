// Rates as JSON, for people to read and change too:
//
//     {
//       "tessera_rates": 1, "measured": "2026-11-24T10:15:00Z", "device": "cpu", "threads": 2,
//       "copies": {"in_bytes_per_second": 1.1e10, "out_bytes_per_second": 1.2e10,
//                  "beside_compute": {"compute": 0.91, "copies": 0.85}},
//       "files": {"read_bytes_per_second": 2.1e9, ..., "beside_compute": {...}},
//       "collectives": [{"communicator": "gloo", "ranks": 2, "beside_compute": {...},
//                        "times": [{"collective": "all_reduce", "bytes": 1024, "seconds": 3.1e-05}, ...]}],
//       "ops": [{"op": "linear forward f32", "shape": "batch 8, seq 128, in 128, out 384",
//                "operations": 100663296, "bytes": 2295296, "seconds": 0.0012}, ...]
//     }
//
// They are read strictly: a prediction by a rate that is missing, zero or of another type would be wrong without a
// word, so each such rate is refused by its path in the file.

#include "rates/rates.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/concat.h"
#include "base/read_only_file.h"
#include "base/strict_json.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kMaxFileBytes = 16 << 20;
constexpr int kMaxDepth = 8;
constexpr double kMaxNumber = 1e18;  // sums and quotients of a whole step's stay finite; as bytes, an exabyte
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
      refuse(key, "is ", value.dump(), ", not a number of at least 0");
    if (value.get<double>() > kMaxNumber)
      refuse(key, "is ", value.dump(), "; at most ", kMaxNumber, " can be computed with");
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
      refuse(key, "is ", value.dump(), ", not a whole number of at least 1");
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

CopyRates copies_of(const Reader& reader) {
  return {reader.above_zero("in_bytes_per_second"), reader.above_zero("out_bytes_per_second"),
          together_of(reader.object("beside_compute"))};
}

CollectiveRates collectives_of(const Reader& reader) {
  CollectiveRates rates{reader.text("communicator"),
                        static_cast<int>(reader.count("ranks")),
                        together_of(reader.object("beside_compute")),
                        {}};
  if (rates.num_ranks < 2) reader.refuse("ranks", "is 1, and a collective needs 2");
  for (const Reader& time : reader.objects("times"))
    rates.times.push_back({time.text("collective"), time.at_least_zero("bytes"), time.above_zero("seconds")});
  return rates;
}

FileRates files_of(const Reader& reader) {
  return {reader.above_zero("read_bytes_per_second"), reader.above_zero("write_bytes_per_second"),
          reader.above_zero("both_bytes_per_second"), reader.at_least_zero("seconds_per_transfer"),
          together_of(reader.object("beside_compute"))};
}

Json json_of(const CollectiveRates& group) {
  Json json = {{"communicator", group.communicator},
               {"ranks", group.num_ranks},
               {"beside_compute", json_of(group.beside_compute)}};
  for (const CollectiveTime& time : group.times)
    json["times"].push_back({{"collective", time.collective}, {"bytes", time.num_bytes}, {"seconds", time.seconds}});
  return json;
}

/// Adds `from` to `to`, where it replaces what is of the same key.
template <class T, class Key>
void merge(std::vector<T>&& from, std::vector<T>& to, Key key) {
  for (T& one : from) {
    const auto same = std::ranges::find_if(to, [&](const T& other) { return key(other) == key(one); });
    if (same == to.end())
      to.push_back(std::move(one));
    else
      *same = std::move(one);
  }
}

void merge(Rates&& from, Rates& to) {
  to.measured = std::max(to.measured, from.measured);
  if (!from.device.empty()) to.device = from.device;
  if (!from.ops.empty()) to.num_threads = from.num_threads;
  if (from.copies) to.copies = from.copies;
  if (from.files) to.files = from.files;
  if (from.link_bytes_per_second) to.link_bytes_per_second = from.link_bytes_per_second;
  merge(std::move(from.ops), to.ops, [](const OpRate& op) { return std::tie(op.op, op.shape); });
  merge(std::move(from.collectives), to.collectives, [](const CollectiveRates& group) { return group.num_ranks; });
}

}  // namespace

std::string rates_json(const Rates& rates) {
  Json json = {{"tessera_rates", kVersion}, {"measured", rates.measured}};
  if (!rates.device.empty()) json["device"] = rates.device;
  if (!rates.ops.empty()) json["threads"] = rates.num_threads;
  if (const auto& copies = rates.copies)
    json["copies"] = {{"in_bytes_per_second", copies->in_bytes_per_second},
                      {"out_bytes_per_second", copies->out_bytes_per_second},
                      {"beside_compute", json_of(copies->beside_compute)}};
  if (const auto& files = rates.files)
    json["files"] = {{"read_bytes_per_second", files->read_bytes_per_second},
                     {"write_bytes_per_second", files->write_bytes_per_second},
                     {"both_bytes_per_second", files->both_bytes_per_second},
                     {"seconds_per_transfer", files->seconds_per_transfer},
                     {"beside_compute", json_of(files->beside_compute)}};
  for (const CollectiveRates& group : rates.collectives)
    json["collectives"].push_back(json_of(group));
  if (rates.link_bytes_per_second) json["link_bytes_per_second"] = *rates.link_bytes_per_second;
  for (const OpRate& op : rates.ops)
    json["ops"].push_back(json_of(op));
  return json.dump(2) + "\n";
}

Rates read_rates(const std::string& path) {
  const nlohmann::json json =
      parse_strict_json(read_text_file(path, kMaxFileBytes, "--rates"), "--rates " + path, kMaxDepth);
  const Reader file(json, path, "");
  if (const int64_t version = file.count("tessera_rates"); version != kVersion)
    file.refuse("tessera_rates", "is ", version, "; this tessera reads version ", kVersion);
  Rates rates;
  rates.measured = file.text("measured");
  if (file.has("ops")) {
    rates.num_threads = static_cast<int>(file.count("threads"));
    for (const Reader& op : file.objects("ops"))
      rates.ops.push_back({op.text("op"), op.text("shape"), op.at_least_zero("operations"), op.at_least_zero("bytes"),
                           op.above_zero("seconds")});
  }
  if (file.has("copies")) rates.copies = copies_of(file.object("copies"));
  if (file.has("ops") || file.has("copies")) rates.device = file.text("device");
  if (file.has("files")) rates.files = files_of(file.object("files"));
  if (file.has("collectives"))
    for (const Reader& group : file.objects("collectives"))
      rates.collectives.push_back(collectives_of(group));
  if (file.has("link_bytes_per_second")) rates.link_bytes_per_second = file.above_zero("link_bytes_per_second");
  return rates;
}

Rates read_all_rates(std::span<const std::string> paths) {
  Rates all;
  for (const std::string& path : paths) {
    Rates one = read_rates(path);
    if (!all.device.empty() && !one.device.empty() && all.device != one.device)
      throw Error(TSR_E_INVALID_ARGUMENT,
                  printable(concat("--rates ", path, " was measured on --device ", one.device,
                                   ", and what is before it on --device ", all.device, "; give files of one device")));
    merge(std::move(one), all);
  }
  return all;
}

Rates with_others_of(const std::string& path, const Rates& measured) {
  try {
    Rates all = read_rates(path);
    if (!all.device.empty() && !measured.device.empty() && all.device != measured.device) return measured;
    merge(Rates(measured), all);
    return all;
  } catch (const Error&) {
    return measured;
  }
}

bool begins_like_rates(std::string_view begin) {
  return begin.starts_with(kBegin);
}

}  // namespace tessera::host
