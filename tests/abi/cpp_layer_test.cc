// Every function of every table in tessera/*.h, optional ones too, has a counterpart in the C++ layer: a plugin's table
// that the layer makes has it, and a host's function is called by a method. The list of what there is comes from the
// headers, so a function that is added there fails here until the layer has it.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <regex>
#include <set>

#include "support/paths.h"
#include "tessera/communicator.hpp"
#include "tessera/device_table.hpp"
#include "tessera/key_value.hpp"
#include "tessera/offload.hpp"
#include "tessera/strategy.hpp"

namespace tessera::testing {
namespace {

// ---- what the headers have ----------------------------------------------------------------------------------------

/// "tsr_edit.insert", of each table in all headers.
std::set<std::string> functions_of_headers() {
  const std::regex begin(R"(typedef struct (\w+) \{)"), function(R"(TSR_FN\([^,]+, (\w+)\))");
  std::set<std::string> functions;
  for (const auto& header : std::filesystem::directory_iterator(source_dir("plugin-api/include/tessera"))) {
    std::ifstream lines(header.path());
    std::string table;
    std::smatch found;
    for (std::string line; std::getline(lines, line);) {
      if (std::regex_match(line, found, begin)) table = found[1];
      if (line == "} " + table + ";") table.clear();
      if (!table.empty() && std::regex_search(line, found, function)) functions.insert(table + "." + found[1].str());
    }
  }
  return functions;
}

// ---- plugins' tables ----------------------------------------------------------------------------------------------

constexpr int kExtension = 7;
const void* extension(std::string_view id) noexcept {
  return id == "sample/1" ? &kExtension : nullptr;
}

struct SampleStrategy final : Strategy {
  static constexpr std::string_view kName = "sample";
  explicit SampleStrategy(const tsr_strategy_create_args& args) : host(*args.host) {}
  bool depends_on_coordinate() const override { return true; }
  uint32_t num_variants() const override { return 5; }
  void lower(const ProgramView&, const Edit&) const override {}
  static const void* get_extension(std::string_view id) noexcept { return extension(id); }
  const Host host;
};
struct SampleCommunicator {
  static constexpr const char* kName = "sample-comm";
  static void caps(std::string_view, tsr_comm_caps&) {}
  static uint64_t describe(const tsr_collective&, int) { return 0; }
  static std::unique_ptr<Communicator> create(const tsr_comm_create_args&) { return nullptr; }
  static const void* get_extension(std::string_view id) noexcept { return extension(id); }
};
struct SampleGraph {};
struct SampleStream : DeviceStream {
  void begin_capture() {}
  std::unique_ptr<SampleGraph> end_capture() { return std::make_unique<SampleGraph>(); }
  void launch(SampleGraph&) {}
};
struct SampleSemaphore {
  void wait(SampleStream&, uint32_t) {}
  void signal(uint32_t) noexcept {}
};
struct SampleTimestamps {
  void write(SampleStream&, uint64_t) {}
  void read(int64_t*) {}
};
struct SampleDevice : Device {
  std::unique_ptr<SampleTimestamps> create_timestamps(uint64_t) { return std::make_unique<SampleTimestamps>(); }
  std::unique_ptr<SampleSemaphore> create_semaphore() { return std::make_unique<SampleSemaphore>(); }
  DeviceMemoryUse memory_use() const { return {}; }
};
struct SampleDevicePlugin {
  static constexpr std::string_view kName = "sample-device", kStreamKind = "sample.queue";
  static std::vector<tsr_slot_spec> describe(const tsr_op&) { return {}; }
  static std::unique_ptr<Device> open(const tsr_device_open_args&) { return nullptr; }
  static const void* get_extension(std::string_view id) noexcept { return extension(id); }
};
struct SamplePolicy {
  static constexpr std::string_view kName = "sample";
  explicit SamplePolicy(std::span<const tsr_option_value>) {}
  void plan(const OffloadView&, const OffloadSink&) const {}
  static const void* get_extension(std::string_view id) noexcept { return extension(id); }
};

constexpr auto& kStrategy = StrategyTable<SampleStrategy, TSR_STRATEGY_SPLIT_STORAGE, TSR_SPLITS_BATCH>::kInterface;
constexpr tsr_communicator_interface kCommunicator = communicator_table<SampleCommunicator>();
constexpr auto& kDevice = kDeviceInterface<SampleDevicePlugin>;
constexpr auto& kCapture = kDeviceCapture<SampleDevicePlugin, SampleStream>;
constexpr auto& kSemaphore = kDeviceSemaphore<SampleDevicePlugin, SampleDevice, SampleStream>;
constexpr auto& kMemoryInfo = kDeviceMemoryInfo<SampleDevicePlugin, SampleDevice>;
constexpr auto& kTimestamps = kDeviceTimestamps<SampleDevicePlugin, SampleDevice, SampleStream>;
constexpr auto& kOffload = OffloadTable<SamplePolicy>::kInterface;
constexpr tsr_descriptor kDescriptor = descriptor("sample", TSR_KIND_STRATEGY, "com.example.sample", "1", "a sample");

}  // namespace
}  // namespace tessera::testing

TESSERA_PLUGIN(tessera::testing::kDescriptor, TSR_STRATEGY_INTERFACE, tessera::testing::kStrategy)

namespace tessera::testing {
namespace {

const tsr_factory& factory() {
  tsr_handshake handshake{};
  handshake.magic = TSR_MAGIC;
  handshake.abi_major = TSR_ABI_MAJOR;
  handshake.pointer_bits = 64;
  handshake.host_minor_min = handshake.host_minor_max = TSR_ABI_MINOR;
  const tsr_factory* found = nullptr;
  call(tsr_plugin_query_v1, &handshake, nullptr, &found);
  return *found;
}

using Counterparts = std::map<std::string, bool>;  // by "table.function": whether the layer has it

#define IN_TABLE(type, table, function) \
  { #type "." #function, (table).function != nullptr }

Counterparts in_plugins() {
  return {
      IN_TABLE(tsr_factory, factory(), get_interface),
      IN_TABLE(tsr_strategy_interface, kStrategy, create),
      IN_TABLE(tsr_strategy_interface, kStrategy, destroy),
      IN_TABLE(tsr_strategy_interface, kStrategy, num_variants),
      IN_TABLE(tsr_strategy_interface, kStrategy, depends_on_coordinate),
      IN_TABLE(tsr_strategy_interface, kStrategy, layout),
      IN_TABLE(tsr_strategy_interface, kStrategy, lower),
      IN_TABLE(tsr_strategy_interface, kStrategy, call),
      IN_TABLE(tsr_strategy_interface, kStrategy, get_extension),
      IN_TABLE(tsr_communicator_interface, kCommunicator, caps),
      IN_TABLE(tsr_communicator_interface, kCommunicator, describe),
      IN_TABLE(tsr_communicator_interface, kCommunicator, create),
      IN_TABLE(tsr_communicator_interface, kCommunicator, submit),
      IN_TABLE(tsr_communicator_interface, kCommunicator, async_error),
      IN_TABLE(tsr_communicator_interface, kCommunicator, abort),
      IN_TABLE(tsr_communicator_interface, kCommunicator, destroy),
      IN_TABLE(tsr_communicator_interface, kCommunicator, get_extension),
      IN_TABLE(tsr_device_interface, kDevice, describe),
      IN_TABLE(tsr_device_interface, kDevice, open),
      IN_TABLE(tsr_device_interface, kDevice, close),
      IN_TABLE(tsr_device_interface, kDevice, allocate),
      IN_TABLE(tsr_device_interface, kDevice, release),
      IN_TABLE(tsr_device_interface, kDevice, stream_create),
      IN_TABLE(tsr_device_interface, kDevice, stream_destroy),
      IN_TABLE(tsr_device_interface, kDevice, stream_synchronize),
      IN_TABLE(tsr_device_interface, kDevice, event_create),
      IN_TABLE(tsr_device_interface, kDevice, event_destroy),
      IN_TABLE(tsr_device_interface, kDevice, event_record),
      IN_TABLE(tsr_device_interface, kDevice, stream_wait),
      IN_TABLE(tsr_device_interface, kDevice, copy),
      IN_TABLE(tsr_device_interface, kDevice, fill),
      IN_TABLE(tsr_device_interface, kDevice, host_function),
      IN_TABLE(tsr_device_interface, kDevice, native_handle),
      IN_TABLE(tsr_device_interface, kDevice, prepare),
      IN_TABLE(tsr_device_interface, kDevice, kernel_destroy),
      IN_TABLE(tsr_device_interface, kDevice, launch),
      IN_TABLE(tsr_device_interface, kDevice, get_extension),
      IN_TABLE(tsr_device_capture, kCapture, begin),
      IN_TABLE(tsr_device_capture, kCapture, end),
      IN_TABLE(tsr_device_capture, kCapture, launch),
      IN_TABLE(tsr_device_capture, kCapture, destroy),
      IN_TABLE(tsr_device_semaphore, kSemaphore, create),
      IN_TABLE(tsr_device_semaphore, kSemaphore, destroy),
      IN_TABLE(tsr_device_semaphore, kSemaphore, wait),
      IN_TABLE(tsr_device_semaphore, kSemaphore, signal),
      IN_TABLE(tsr_device_memory_info, kMemoryInfo, query),
      IN_TABLE(tsr_device_timestamps, kTimestamps, create),
      IN_TABLE(tsr_device_timestamps, kTimestamps, destroy),
      IN_TABLE(tsr_device_timestamps, kTimestamps, write),
      IN_TABLE(tsr_device_timestamps, kTimestamps, read),
      IN_TABLE(tsr_offload_interface, kOffload, create),
      IN_TABLE(tsr_offload_interface, kOffload, destroy),
      IN_TABLE(tsr_offload_interface, kOffload, plan),
      IN_TABLE(tsr_offload_interface, kOffload, get_extension),
  };
}

// ---- the host's tables --------------------------------------------------------------------------------------------

/// A function of a table that does nothing but remember that it was called.
template <auto kSlot>
struct Recorder;
template <class Table, class R, class... Args, R (*Table::*kSlot)(Args...) noexcept>
struct Recorder<kSlot> {
  static inline bool was_called = false;
  static R function(Args...) noexcept {
    was_called = true;
    return R();
  }
  /// Whether `use` calls it, on a table that has no other function.
  static bool is_called_by(const std::function<void(const Table&)>& use) {
    Table table{};
    table.struct_size = sizeof table;
    table.*kSlot = function;
    was_called = false;
    use(table);
    return was_called;
  }
};

#define IN_METHOD(type, slot, use)                                                          \
  {                                                                                         \
#type "." #slot, Recorder < &type::slot> ::is_called_by([](const type& table) { use; }) \
  }

const void* kv_table = nullptr;  // what the host of the test returns as its key-value service
const tsr_host& host_with(const tsr_kv_service& table) {
  kv_table = &table;
  static const tsr_host host = {sizeof(tsr_host), TSR_ABI_MINOR, nullptr, nullptr,
                                [](void*, tsr_str) noexcept -> const void* { return kv_table; }};
  return host;
}

Counterparts in_methods() {
  return {
      IN_METHOD(tsr_host, log, Host(table).log(TSR_LOG_INFO, "a line")),
      IN_METHOD(tsr_host, get_service, Host(table).get_service(TSR_KV_SERVICE)),
      IN_METHOD(tsr_kv_service, set, KeyValue(&host_with(table)).set("key", "value")),
      IN_METHOD(tsr_kv_service, get, KeyValue(&host_with(table)).get("key", 0)),
      IN_METHOD(tsr_kv_service, add, KeyValue(&host_with(table)).add("key", 1)),
      IN_METHOD(tsr_edit, add_stream, Edit(table).stream(0, "lane")),
      IN_METHOD(tsr_edit, add_group, Edit(table).group(0)),
      IN_METHOD(tsr_edit, add_buffer, Edit(table).add_buffer("name", TSR_BUFFER_PLUGIN, TSR_F32, 1)),
      IN_METHOD(tsr_edit, insert, Edit(table).insert(0, TSR_AFTER, make_action(TSR_ACTION_BARRIER, 0), {})),
      IN_METHOD(tsr_edit, remove, Edit(table).remove(1)),
      IN_METHOD(tsr_edit, bind, Edit(table).bind(1, {})),
      IN_METHOD(tsr_edit, rebind, Edit(table).rebind(1, 2, 0)),
      IN_METHOD(tsr_edit, set_role, Edit(table).set_role(1, {})),
      IN_METHOD(tsr_edit, replace_homes, Edit(table).replace_homes({}, nullptr)),
      IN_METHOD(tsr_edit, split_backward, Edit(table).split_backward(1)),
      IN_METHOD(tsr_edit, order, Edit(table).order({})),
      IN_METHOD(tsr_edit, collect_garbage, Edit(table).collect_garbage()),
      IN_METHOD(tsr_edit, wait_for, Edit(table).wait_for(2, 1)),
      IN_METHOD(tsr_edit, complete, Edit(table).complete(1)),
      IN_METHOD(tsr_edit, describe_state, Edit(table).describe_state(1, 1, TSR_ON_CHANGE_KEEP)),
      IN_METHOD(tsr_layout_sink, add_entry, LayoutSink(table).add_entry({})),
      IN_METHOD(tsr_offload_sink, leave, OffloadSink(table).leave({})),
      IN_METHOD(tsr_offload_sink, run_on_host, OffloadSink(table).run_on_host(1)),
  };
}

TEST(CppLayer, HasACounterpartOfEveryFunctionInTheHeaders) {
  Counterparts all = in_plugins();
  all.merge(in_methods());
  const std::set<std::string> functions = functions_of_headers();
  EXPECT_GE(functions.size(), 60u) << "the headers are not read";
  for (const std::string& function : functions)
    EXPECT_TRUE(all.contains(function)) << function << " has no counterpart in plugin-api/cpp, or is not listed here";
  for (const auto& [function, has_counterpart] : all) {
    EXPECT_TRUE(has_counterpart) << function << " has no counterpart in plugin-api/cpp";
    EXPECT_TRUE(functions.contains(function)) << function << " is in no header";
  }
}

TEST(CppLayer, OptionalFunctionsAreThoseOfTheClass) {
  const tsr_host host{};
  tsr_strategy_create_args args{};
  args.struct_size = sizeof args;
  args.host = &host;
  tsr_strategy* strategy = nullptr;
  call(kStrategy.create, &args, &strategy);
  EXPECT_EQ(kStrategy.num_variants(strategy), 5u);
  EXPECT_EQ(kStrategy.depends_on_coordinate(strategy), 1u);
  kStrategy.destroy(strategy);
  for (const auto& get_extension :
       {kStrategy.get_extension, kCommunicator.get_extension, kDevice.get_extension, kOffload.get_extension}) {
    EXPECT_EQ(get_extension(literal("sample/1")), &kExtension);
    EXPECT_EQ(get_extension(literal("another/1")), nullptr);
  }
}

TEST(CppLayer, NamesNoVendorOfItsOwn) {
  EXPECT_EQ(view(kDescriptor.vendor), "");
  EXPECT_EQ(view(descriptor("a", "strategy", "com.example.a", "1", "a", {}, "Example").vendor), "Example");
}

}  // namespace
}  // namespace tessera::testing
