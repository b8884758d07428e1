// Checks a plugin's tables once, when it is loaded, so that the rest of the host may call any required function without
// a check. The sizes of tables are checked against floors, their sizes in ABI 0.12: tables only grow at the end, so a
// longer table is newer and fine, and a shorter one is malformed.
//
// Texts are copied, with limits: a plugin's memory is not trusted to stay as it is.

#include "plugins/interface_check.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <deque>
#include <map>
#include <mutex>
#include <span>
#include <vector>

#include "base/concat.h"
#include "config/text_values.h"
#include "config/usage_error.h"
#include "guard/readable.h"
#include "plugins/plugin_options.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

constexpr uint64_t kMaxOptions = 256;
constexpr uint64_t kMaxText = 4096;
constexpr uint32_t kMaxTableBytes = 64 << 10;
constexpr const char* kAskAuthor = "; build it again with this version's plugin-api";

// The floors: the sizes in ABI 0.12. They never change.
constexpr uint32_t kDescriptorFloor = TSR_END_OF(tsr_descriptor, num_options);
constexpr uint32_t kStrategyFloor = TSR_END_OF(tsr_strategy_interface, get_extension);
constexpr uint32_t kCommunicatorFloor = TSR_END_OF(tsr_communicator_interface, get_extension);
constexpr uint32_t kDeviceFloor = TSR_END_OF(tsr_device_interface, get_extension);
constexpr uint32_t kOffloadFloor = TSR_END_OF(tsr_offload_interface, get_extension);

[[noreturn]] void refuse(const std::string& what) {
  throw UsageError(what + kAskAuthor, TSR_E_ABI);
}

std::string copy_text(tsr_str text, const char* what) {
  if (text.len > kMaxText || !is_readable(text.ptr, text.len)) refuse(concat("has a malformed ", what));
  std::string copy = tessera::to_string(text);
  if (std::any_of(copy.begin(), copy.end(), [](unsigned char c) { return std::iscntrl(c); }))
    refuse(concat("has control characters in its ", what));
  if (printable(copy) != copy) refuse(concat("has a ", what, " that is not UTF-8: ", printable(copy)));
  return copy;
}

constexpr size_t kMaxNameBytes = 64;

// Names are used in flags and file names.
std::string copy_name(tsr_str text, const char* what) {
  std::string name = copy_text(text, what);
  const bool is_valid = !name.empty() && name.size() <= kMaxNameBytes && name.front() != '-' &&
                        std::all_of(name.begin(), name.end(),
                                    [](unsigned char c) { return std::islower(c) || std::isdigit(c) || c == '-'; });
  if (!is_valid)
    refuse(concat("has the ", what, " '", name, "'; only lower-case letters, digits and dashes are allowed, at most ",
                  kMaxNameBytes, " of them, and a dash is not the first"));
  return name;
}

PluginKind kind_of(const std::string& text) {
  for (const PluginKind kind : kPluginKinds)
    if (text == to_string(kind)) return kind;
  refuse(concat("has the kind '", text, "'; the kinds are strategy, communicator, device and offload"));
}

/// What a value could not be checked against, or would be checked against in another way than its author means.
void check_schema(const tsr_option& given, const PluginOption& option) {
  if (given.type < TSR_OPTION_INT || given.type > TSR_OPTION_STRING)
    refuse(concat("has the option ", option.name, " with the unknown type ", given.type));
  if (!option.choices.empty() && given.type != TSR_OPTION_STRING)
    refuse(concat("has the option ", option.name, " with choices, which only a text has"));
  if (std::ranges::count(option.choices, "") > 0)
    refuse(concat("has the option ", option.name, " with an empty choice"));
  const bool has_limits = option.min <= option.max;
  if (given.type == TSR_OPTION_INT && has_limits &&
      (std::trunc(option.min) != option.min || std::trunc(option.max) != option.max))
    refuse(concat("has the option ", option.name, ", a whole number, with limits that are none: ", option.min, " to ",
                  option.max));
}

PluginOption copy_option(const tsr_option& given) {
  try {
    check_spare(given, "tsr_option");
    check_flags(given.flags, TSR_OPTION_PER_RANK, "tsr_option");
  } catch (const Error& error) {
    refuse(error.what());
  }
  PluginOption option;
  option.name = copy_name(given.name, "option name");
  option.default_value = copy_text(given.default_value, "option default");
  option.help = copy_text(given.help, "option help");
  option.type = given.type;
  if (given.type == TSR_OPTION_INT || given.type == TSR_OPTION_FLOAT) option.min = given.min, option.max = given.max;
  option.is_per_rank = (given.flags & TSR_OPTION_PER_RANK) != 0;
  const std::string choices = copy_text(given.choices, "option choices");
  if (!choices.empty())
    for (const std::string_view choice : split(choices, '|'))
      option.choices.emplace_back(choice);
  check_schema(given, option);
  try {
    // A default outside its own range would fail in every run; this way its author sees it.
    check_option_value(option.name, option, option.default_value);
  } catch (const Error& error) {
    refuse(concat("has an option whose default is not valid (", error.what(), ")"));
  }
  return option;
}

struct Slot {
  const char* name;
  bool is_missing;
};

void require(std::initializer_list<Slot> slots, const char* table) {
  for (const Slot& slot : slots)
    if (slot.is_missing) refuse(concat("has no function ", slot.name, " in its table ", table));
}

#define TESSERA_SLOT(field)        \
  Slot {                           \
#field, table.field == nullptr \
  }

/// A copy that is never freed, as plugins are never unloaded: the host does not read a plugin's memory later, when it
/// may be gone. The same one for the same table.
void* kept_copy(const void* from, size_t num_bytes) {
  static std::mutex mutex;
  static auto& all = *new std::map<const void*, std::deque<std::vector<char>>>;
  const std::span bytes(static_cast<const char*>(from), num_bytes);
  const std::lock_guard lock(mutex);
  std::deque<std::vector<char>>& copies = all[from];
  const auto found = std::ranges::find_if(copies, [&](const auto& copy) { return std::ranges::equal(copy, bytes); });
  return found != copies.end() ? found->data() : copies.emplace_back(bytes.begin(), bytes.end()).data();
}

void check_strategy(tsr_strategy_interface& table) {
  require({TESSERA_SLOT(create), TESSERA_SLOT(destroy), TESSERA_SLOT(lower)}, TSR_STRATEGY_INTERFACE);
  if (table.role != TSR_STRATEGY_SCHEDULE && table.role != TSR_STRATEGY_SPLIT_COMPUTE &&
      table.role != TSR_STRATEGY_SPLIT_STORAGE)
    refuse(concat("has the unknown strategy role ", table.role));
  check_known_bits(table.flags, TSR_STRATEGY_SHARDS_HOMES, "flags in its table " TSR_STRATEGY_INTERFACE);
  if (table.splits != TSR_SPLITS_BATCH && table.splits != TSR_SPLITS_LAYERS && table.splits != TSR_SPLITS_TENSORS)
    refuse(concat("splits ", table.splits, " (TSR_SPLITS_*); so far an axis splits the batch (", TSR_SPLITS_BATCH,
                  "), the layers (", TSR_SPLITS_LAYERS, ") or the tensors (", TSR_SPLITS_TENSORS, ")"));
}

void check_communicator(tsr_communicator_interface& table) {
  require({TESSERA_SLOT(caps), TESSERA_SLOT(describe), TESSERA_SLOT(create), TESSERA_SLOT(submit),
           TESSERA_SLOT(async_error), TESSERA_SLOT(abort), TESSERA_SLOT(destroy)},
          TSR_COMMUNICATOR_INTERFACE);
  check_known_bits(table.reserved, 0, "reserved words in its table " TSR_COMMUNICATOR_INTERFACE);
}

void check_device(tsr_device_interface& table) {
  require(
      {TESSERA_SLOT(describe), TESSERA_SLOT(open), TESSERA_SLOT(close), TESSERA_SLOT(allocate), TESSERA_SLOT(release),
       TESSERA_SLOT(stream_create), TESSERA_SLOT(stream_destroy), TESSERA_SLOT(stream_synchronize),
       TESSERA_SLOT(event_create), TESSERA_SLOT(event_destroy), TESSERA_SLOT(event_record), TESSERA_SLOT(stream_wait),
       TESSERA_SLOT(copy), TESSERA_SLOT(fill), TESSERA_SLOT(host_function), TESSERA_SLOT(native_handle),
       TESSERA_SLOT(prepare), TESSERA_SLOT(kernel_destroy), TESSERA_SLOT(launch)},
      TSR_DEVICE_INTERFACE);
  check_known_bits(table.reserved, 0, "reserved words in its table " TSR_DEVICE_INTERFACE);
  const std::string kind = copy_text(table.stream_kind, "stream kind");
  if (kind.empty()) refuse("names no stream kind");
  table.stream_kind = {static_cast<const char*>(kept_copy(kind.data(), kind.size())), kind.size()};
}

void check_offload(tsr_offload_interface& table) {
  require({TESSERA_SLOT(create), TESSERA_SLOT(destroy), TESSERA_SLOT(plan)}, TSR_OFFLOAD_INTERFACE);
  check_known_bits(table.flags, TSR_OFFLOAD_CUTS_HOMES | TSR_OFFLOAD_CASTS_ANEW,
                   "flags in its table " TSR_OFFLOAD_INTERFACE);
}
#undef TESSERA_SLOT

template <class Table>
const void* checked_table(const void* interface, std::string_view id, uint32_t floor, void (*check)(Table&)) {
  if (!interface) refuse(concat("has no table ", id));
  if (!is_readable(interface, floor)) refuse(concat("has a table ", id, " in memory that cannot be read"));
  const auto* table = static_cast<const Table*>(interface);
  if (table->struct_size < floor)
    refuse(concat("has a table ", id, " of ", table->struct_size, " bytes; at least ", floor, " are needed"));
  if (table->struct_size > kMaxTableBytes)
    refuse(concat("has a table ", id, " of ", table->struct_size, " bytes; the limit is ", kMaxTableBytes));
  if (!is_readable(interface, table->struct_size)) refuse(concat("has a table ", id, " in memory that cannot be read"));
  auto* const kept = static_cast<Table*>(kept_copy(interface, table->struct_size));
  check(*kept);
  return kept;
}

}  // namespace

void check_known_bits(uint64_t bits, uint64_t known, std::string_view what) {
  if (bits & ~known)
    refuse(concat("has ", bits & ~known, " in ", what, ", to which ABI ", TSR_ABI_MAJOR, ".", TSR_ABI_MINOR,
                  " gives no meaning"));
}

void copy_descriptor(const tsr_descriptor* descriptor, LoadedPlugin& plugin) {
  const bool is_there = is_readable(descriptor, kDescriptorFloor);
  if (!is_there || descriptor->struct_size < kDescriptorFloor)
    refuse(concat("has a descriptor of ", is_there ? descriptor->struct_size : 0, " bytes; at least ", kDescriptorFloor,
                  " are needed"));
  check_known_bits(descriptor->reserved, 0, "the reserved word of its descriptor");
  plugin.kind = kind_of(copy_text(descriptor->kind, "kind"));
  plugin.name = copy_name(descriptor->name, "name");
  plugin.id = copy_text(descriptor->id, "id");
  plugin.version = copy_text(descriptor->version, "version");
  plugin.vendor = copy_text(descriptor->vendor, "vendor");
  plugin.summary = copy_text(descriptor->summary, "summary");
  if (plugin.id.empty() || plugin.version.empty()) refuse("has no id or no version");
  if (descriptor->num_options > kMaxOptions ||
      !is_readable(descriptor->options, descriptor->num_options * sizeof(tsr_option)))
    refuse(concat("has a malformed list of ", descriptor->num_options, " options"));
  for (uint64_t i = 0; i < descriptor->num_options; ++i) {
    PluginOption option = copy_option(descriptor->options[i]);
    for (const PluginOption& other : plugin.options)
      if (other.name == option.name) refuse(concat("declares the option ", option.name, " twice"));
    plugin.options.push_back(std::move(option));
  }
}

std::string_view interface_id(PluginKind kind) {
  switch (kind) {
    case PluginKind::strategy:
      return TSR_STRATEGY_INTERFACE;
    case PluginKind::communicator:
      return TSR_COMMUNICATOR_INTERFACE;
    case PluginKind::device:
      return TSR_DEVICE_INTERFACE;
    case PluginKind::offload:
      break;
  }
  return TSR_OFFLOAD_INTERFACE;
}

const void* checked_interface(const void* table, PluginKind kind) {
  const std::string_view id = interface_id(kind);
  switch (kind) {
    case PluginKind::strategy:
      return checked_table(table, id, kStrategyFloor, &check_strategy);
    case PluginKind::communicator:
      return checked_table(table, id, kCommunicatorFloor, &check_communicator);
    case PluginKind::device:
      return checked_table(table, id, kDeviceFloor, &check_device);
    case PluginKind::offload:
      break;
  }
  return checked_table(table, id, kOffloadFloor, &check_offload);
}

}  // namespace tessera::host
