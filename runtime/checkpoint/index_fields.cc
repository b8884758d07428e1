// Strict reading: the file may come from anybody, and what passes here is used without further checks. Sizes are
// multiplied with overflow checks, names of files have no folder, and tensors are covered once.
//
// Each object knows the way to it, so an error names the place in the file:
//
//     step-00000020/index.json: tensors: wte.weight: parts[1]: "file" is 2, not below 2, the number of files
//
// Unknown keys are refused as well: a later version that adds one has a number of its own, and any other key is damage
// or a mistake.

#include "checkpoint/index_fields.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/strict_json.h"
#include "tessera/error.hpp"
#include "weights/element_conversion.h"
#include "weights/safetensors_header.h"

namespace tessera::host {
namespace {

using nlohmann::json;

// The deepest value is at level 7: object, tensors, a tensor, parts, a part, ranges, a range.
constexpr int kMaxDepth = 8;
constexpr size_t kLongestShape = 8;

/// [offset, elements], or [offset, elements, count, stride] where the range repeats.
StridedRange read_range(const JsonFields& fields, const std::vector<uint64_t>& numbers) {
  if (numbers.size() == 2) return {numbers[0], numbers[1], 1, 0};
  if (numbers.size() == 4) return {numbers[0], numbers[1], numbers[2], numbers[3]};
  fields.refuse("ranges", "holds a list of ", numbers.size(),
                " numbers, not [offset, elements] or [offset, elements, count, stride]");
}

/// Bytes of a tensor; refuses what does not fit 64 bits.
uint64_t checked_bytes(const JsonFields& fields, const SavedTensor& tensor, bool is_parameter) {
  uint64_t product = element_bytes(tensor.dtype);
  if (product == 0) fields.refuse("dtype", "is ", tensor.dtype, ", which is not known");
  if (is_parameter && !converts_to_float(tensor.dtype))
    fields.refuse("dtype", "is ", tensor.dtype, ", which no parameter has");
  if (tensor.shape.size() > kLongestShape) fields.refuse("shape", "has ", tensor.shape.size(), " dims");
  for (const uint64_t extent : tensor.shape)
    if (__builtin_mul_overflow(product, extent, &product)) fields.refuse("shape", "is too large");
  return product;
}

/// `tensor` has its dtype and shape. Ranges are bounded by it one by one, so the sum cannot overflow whatever they are;
/// whether they overlap is the business of cover_once().
TensorPart read_part(const JsonFields& fields, const SavedTensor& tensor, size_t num_files) {
  TensorPart part;
  part.file = fields.number("file");
  if (part.file >= num_files)
    fields.refuse("file", "is ", part.file, ", not below ", num_files, ", the number of files");
  uint64_t total = 0;
  for (const auto& numbers : fields.lists("ranges")) {
    const StridedRange& range = part.ranges.emplace_back(read_range(fields, numbers));
    uint64_t elements = 0;
    if (__builtin_mul_overflow(range.num_elements, range.count, &elements) ||
        __builtin_add_overflow(total, elements, &total) || total > tensor.num_elements())
      fields.refuse("ranges", "holds more elements than the tensor");
  }
  for (const uint64_t sum : fields.numbers("crc32c")) {
    if (sum > std::numeric_limits<uint32_t>::max()) fields.refuse("crc32c", "holds ", sum, ", more than 32 bits");
    part.crc32c.push_back(static_cast<uint32_t>(sum));
  }
  if (part.crc32c.size() != num_checksums(total * element_bytes(tensor.dtype)))
    fields.refuse("crc32c", "holds ", part.crc32c.size(), " checksums for ", total, " elements of ", tensor.dtype);
  fields.require_only({"file", "ranges", "crc32c"});
  return part;
}

/// `ranges_left`: null: the parts need not be the whole tensor.
SavedTensor read_tensor(const JsonFields& fields, size_t num_files, uint64_t* ranges_left, bool is_parameter) {
  SavedTensor tensor{fields.text("dtype"), fields.numbers("shape"), {}};
  if (fields.has("version")) {
    const uint64_t version = fields.number("version");
    if (is_parameter || version == 0 || version > UINT32_MAX)
      fields.refuse("version", "is ", version, "; a strategy's own state may have one from 1 to ", UINT32_MAX);
    tensor.version = static_cast<uint32_t>(version);
  }
  if (fields.has("required")) {
    if (is_parameter) fields.refuse("required", "is there; only a strategy's own state may be required");
    tensor.is_required = fields.boolean("required");
  }
  checked_bytes(fields, tensor, is_parameter);
  for (const JsonFields& part : fields.objects("parts"))
    tensor.parts.push_back(read_part(part, tensor, num_files));
  // Over all parts: each element is in one of them, once.
  std::vector<StridedRange> all;
  for (const TensorPart& part : tensor.parts)
    all.insert(all.end(), part.ranges.begin(), part.ranges.end());
  if (ranges_left && !cover_once(all, tensor.num_elements(), *ranges_left))
    fields.refuse("parts", "do not hold each of the tensor's ", tensor.num_elements(), " elements once");
  fields.require_only({"dtype", "shape", "parts", "version", "required"});
  return tensor;
}

}  // namespace

// Objects within share the parsed text, and may outlive the one that they were taken from.
JsonFields::JsonFields(const std::string& text, const std::string& where)
    : root_(std::make_shared<json>(parse_strict_json(text, where, kMaxDepth))), value_(root_.get()), where_(where) {}

JsonFields::JsonFields(std::shared_ptr<const json> root, const json& value, std::string where)
    : root_(std::move(root)), value_(&value), where_(std::move(where)) {
  if (!value.is_object()) refuse_with(where_ + " is not an object");
}

void JsonFields::refuse_with(const std::string& message) {
  throw Error(TSR_E_INVALID_ARGUMENT, printable(message));
}

const json& JsonFields::at(const std::string& key) const {
  const auto found = value_->find(key);
  if (found == value_->end()) refuse(key, "is missing");
  return *found;
}

bool JsonFields::has(const std::string& key) const {
  return value_->contains(key);
}

/// -1, 1.0 and 1e3 are not unsigned to the parser, and are refused.
uint64_t JsonFields::number(const std::string& key) const {
  const json& value = at(key);
  if (!value.is_number_unsigned()) refuse(key, "is not a whole number of at least 0");
  return value.get<uint64_t>();
}

int64_t JsonFields::count(const std::string& key) const {
  const uint64_t value = number(key);
  if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) refuse(key, "is too large");
  return static_cast<int64_t>(value);
}

uint32_t JsonFields::crc(const std::string& key) const {
  const uint64_t value = number(key);
  if (value > std::numeric_limits<uint32_t>::max()) refuse(key, "has more than 32 bits");
  return static_cast<uint32_t>(value);
}

double JsonFields::real(const std::string& key) const {
  const json& value = at(key);
  if (!value.is_number()) refuse(key, "is not a number");
  return value.get<double>();
}

bool JsonFields::boolean(const std::string& key) const {
  const json& value = at(key);
  if (!value.is_boolean()) refuse(key, "is not true or false");
  return value.get<bool>();
}

std::string JsonFields::text(const std::string& key) const {
  const json& value = at(key);
  if (!value.is_string()) refuse(key, "is not a string");
  return value.get<std::string>();
}

std::vector<uint64_t> JsonFields::numbers(const std::string& key) const {
  const json& list = at(key);
  if (!list.is_array()) refuse(key, "is not a list");
  std::vector<uint64_t> result;
  for (const json& value : list) {
    if (!value.is_number_unsigned()) refuse(key, "holds something other than whole numbers of at least 0");
    result.push_back(value.get<uint64_t>());
  }
  return result;
}

std::vector<std::vector<uint64_t>> JsonFields::lists(const std::string& key) const {
  const json& list = at(key);
  if (!list.is_array()) refuse(key, "is not a list");
  std::vector<std::vector<uint64_t>> result;
  for (const json& inner : list) {
    if (!inner.is_array()) refuse(key, "holds something other than lists");
    auto& numbers = result.emplace_back();
    for (const json& value : inner) {
      if (!value.is_number_unsigned()) refuse(key, "holds something other than whole numbers of at least 0");
      numbers.push_back(value.get<uint64_t>());
    }
  }
  return result;
}

JsonFields JsonFields::object(const std::string& key) const {
  return {root_, at(key), concat(where_, ": ", key)};
}

std::vector<JsonFields> JsonFields::objects(const std::string& key) const {
  const json& list = at(key);
  if (!list.is_array()) refuse(key, "is not a list");
  std::vector<JsonFields> result;
  for (const json& value : list)
    result.push_back({root_, value, concat(where_, ": ", key, "[", result.size(), "]")});
  return result;
}

std::vector<std::string> JsonFields::keys() const {
  std::vector<std::string> result;
  for (const auto& [key, value] : value_->items())
    result.push_back(key);
  return result;
}

NamedValues JsonFields::texts(const std::string& key) const {
  const JsonFields fields = object(key);
  NamedValues result;
  for (const std::string& name : fields.keys())
    result.emplace_back(name, fields.text(name));
  return result;
}

void JsonFields::require_only(std::initializer_list<const char*> known) const {
  for (const std::string& key : keys())
    if (std::ranges::find(known, key) == known.end()) refuse(key, "is not a key of version ", kCheckpointVersion);
}

/// A wrong step or scale would end no run: it would show in its numbers alone.
RunState read_state(const JsonFields& fields) {
  fields.require_only({"step", "optimizer_step", "tokens", "data_position", "loss_scale", "updates_at_scale", "best"});
  RunState state{fields.count("step"),           fields.count("optimizer_step"), fields.count("tokens"),
                 fields.number("data_position"), fields.real("loss_scale"),      fields.count("updates_at_scale")};
  if (!std::isfinite(state.loss_scale) || state.loss_scale < 1)
    fields.refuse("loss_scale", "is not a scale of at least 1");
  if (state.step < 1 || state.optimizer_step > state.step) fields.refuse("step", "does not fit optimizer_step");
  if (!fields.has("best")) return state;
  const JsonFields best = fields.object("best");
  best.require_only({"step", "loss", "of"});
  state.best_step = best.count("step");
  state.best_loss = best.real("loss");
  if (best.has("of")) state.best_of = best.text("of");
  if (state.best_step < 1 || state.best_step > state.step) best.refuse("step", "is not one of the steps done");
  return state;
}

/// For people and comparisons: texts are not interpreted, and mesh and strategies are compared with those of the run.
RunDescription read_run(const JsonFields& fields) {
  fields.require_only(
      {"tessera", "model", "has_config", "model_facts", "items", "settings", "data", "mesh", "strategies", "plugins"});
  RunDescription run;
  run.tessera = fields.text("tessera");
  run.model = fields.text("model");
  run.has_config = fields.boolean("has_config");
  run.model_facts = fields.texts("model_facts");
  run.items = fields.text("items");
  run.settings = fields.texts("settings");
  const JsonFields data = fields.object("data");
  run.data = {data.text("what"), data.text("size")};
  if (data.has("fingerprint")) run.data_fingerprint = data.text("fingerprint");
  for (const JsonFields& axis : fields.objects("mesh")) {
    const int64_t num_ranks = axis.count("ranks");
    if (num_ranks < 1 || num_ranks > 1 << 24) axis.refuse("ranks", "is not a number of ranks");
    run.mesh.emplace_back(axis.text("axis"), static_cast<int>(num_ranks));
  }
  run.strategies = fields.texts("strategies");
  run.plugins = fields.texts("plugins");
  return run;
}

SavedFile read_file(const JsonFields& fields) {
  fields.require_only({"name", "bytes", "header_bytes", "header_crc32c"});
  SavedFile file{fields.text("name"), fields.number("bytes"), fields.number("header_bytes"),
                 fields.crc("header_crc32c")};
  // The name is opened below the checkpoint's folder: nothing may lead out of it, nor end the path early.
  if (file.name.empty() || file.name.find_first_of(std::string_view("/\0", 2)) != file.name.npos ||
      file.name.starts_with('.'))
    fields.refuse("name", "is '", file.name, "', not the name of a file in the checkpoint's folder");
  if (file.header_bytes > file.num_bytes || file.header_bytes > kMaxSafetensorsHeaderBytes + sizeof(uint64_t))
    fields.refuse("header_bytes", "is more than the file or any header has");
  if (file.num_bytes > uint64_t{1} << 48) fields.refuse("bytes", "is too large");
  return file;
}

/// The limit of ranges is one for the whole index: a few bytes each, they could otherwise ask for any amount of work.
std::map<std::string, SavedTensor, std::less<>> read_tensors(const JsonFields& fields, size_t num_files,
                                                             bool is_whole) {
  std::map<std::string, SavedTensor, std::less<>> tensors;
  uint64_t ranges_left = kMaxRanges;
  for (const std::string& name : fields.keys())
    tensors.emplace(
        name, read_tensor(fields.object(name), num_files, is_whole ? &ranges_left : nullptr, !is_own_state(name)));
  return tensors;
}

}  // namespace tessera::host
