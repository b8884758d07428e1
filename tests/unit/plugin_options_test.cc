// Options of plugins: what a plugin may declare, and the values that it gets.
#include "plugins/plugin_options.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/usage_error.h"
#include "plugins/interface_check.h"
#include "plugins/loader.h"
#include "support/expect_error.h"
#include "support/paths.h"
#include "tessera/offload.h"

namespace tessera::host {
namespace {

using testing::expect_error;
using Parts = std::vector<std::string>;

LoadedPlugin good_plugin() {
  return load_plugin(std::filesystem::path(testing::binary_dir("tests/bad_plugins/good.so")), Log(LogLevel::off));
}

TEST(PluginOptions, ThatCannotBeMeantAreRefused) {
  const auto refuse_option = [](uint32_t type, std::string_view choices, double min, double max,
                                const std::string& part) {
    const tsr_option option{str("x"), str("1"), str(choices), str(""), min, max, type, 0, {}};
    tsr_descriptor descriptor{
        sizeof descriptor, 0, str("sample"), str(TSR_KIND_OFFLOAD), str("id"), str("1"), str(""), str(""), &option, 1};
    LoadedPlugin plugin;
    expect_error([&] { copy_descriptor(&descriptor, plugin); }, {"has the option x", part});
  };
  refuse_option(TSR_OPTION_INT, "", 1.2, 1.8, "a whole number, with limits that are none: 1.2 to 1.8");
  refuse_option(TSR_OPTION_INT, "1|2", 1, 2, "with choices, which only a text has");
  refuse_option(TSR_OPTION_BOOL, "0|1", 1, 0, "with choices, which only a text has");
  refuse_option(TSR_OPTION_STRING, "|", 1, 0, "with an empty choice");
  refuse_option(TSR_OPTION_STRING, "1||2", 1, 0, "with an empty choice");
}

const tsr_option_value& value_of(const PluginOptions& options, const std::string& name) {
  for (const tsr_option_value& value : options.values())
    if (view(value.name) == name) return value;
  throw Error(TSR_E_NOT_FOUND, name);
}

TEST(PluginOptions, AreDefaultsReplacedByFlags) {
  const LoadedPlugin good = good_plugin();
  const PluginOptions defaults(good, "dp", {});
  EXPECT_EQ(value_of(defaults, "bucket-mb").i, 25);
  EXPECT_EQ(value_of(defaults, "ratio").d, 0.5);
  EXPECT_EQ(value_of(defaults, "eager").i, 0);
  EXPECT_EQ(view(value_of(defaults, "mode").s), "fast");
  const std::vector<PluginFlag> flags = {
      {"dp.sample.bucket-mb", "3"}, {"sample.bucket-mb", "4"}, {"sample.eager", "true"}};
  EXPECT_EQ(value_of(PluginOptions(good, "dp", flags), "bucket-mb").i, 3);
  EXPECT_EQ(value_of(PluginOptions(good, "pp", flags), "bucket-mb").i, 4);
  EXPECT_EQ(view(value_of(PluginOptions(good, "pp", flags), "bucket-mb").s), "4");
  EXPECT_EQ(value_of(PluginOptions(good, "pp", flags), "eager").i, 1);
}

TEST(PluginOptions, OutliveTheirSource) {
  const LoadedPlugin good = good_plugin();
  auto first = std::make_unique<PluginOptions>(good, "", std::vector<PluginFlag>{{"sample.label", "some text"}});
  const PluginOptions copy = *first;
  first.reset();
  EXPECT_EQ(view(value_of(copy, "label").s), "some text");
}

TEST(PluginOptions, WrongValuesAreRefused) {
  const LoadedPlugin good = good_plugin();
  const auto refused = [&](const char* name, const char* value, Parts parts) {
    expect_error<UsageError>([&] { PluginOptions(good, "dp", {{name, value}}); }, parts);
  };
  refused("sample.bucket-mb", "0", {"--sample.bucket-mb", "'0'", "1 to 1024"});
  refused("dp.sample.bucket-mb", "2.5", {"--dp.sample.bucket-mb", "'2.5'"});
  refused("sample.ratio", "1.5", {"0 to 1"});
  refused("sample.eager", "yes", {"false|true"});
  refused("sample.mode", "fsat", {"fast|exact", "did you mean fast"});
}

TEST(PluginOptions, UnknownOnesAreErrorsWithASuggestion) {
  const LoadedPlugin good = good_plugin();
  const std::vector<PluginUse> uses = {{&good, "dp"}};
  check_flag_names({{"sample.bucket-mb", "3"}, {"dp.sample.ratio", "0"}}, uses);
  expect_error<UsageError>(
      [&] {
        check_flag_names({{"sample.bucket-mib", "3"}}, uses);
      },
      {"--sample.bucket-mib", "did you mean --sample.bucket-mb?"});
  expect_error<UsageError>(
      [&] {
        check_flag_names({{"fsdp.prefetch", "3"}}, uses);
      },
      {"--fsdp.prefetch", "loaded: sample"});
  expect_error<UsageError>([&] { check_flag_names({{"tp.sample.ratio", "0"}}, uses); }, {"--tp.sample.ratio"});
}

TEST(PluginOptions, OfTwoPluginsOfOneNameAreRefused) {
  const LoadedPlugin good = good_plugin();
  LoadedPlugin other = good;
  other.kind = PluginKind::offload;
  other.path = "/sample-offload.so";
  const std::vector<PluginUse> uses = {{&good, "dp"}, {&good, "pp"}, {&other, ""}};
  expect_error<UsageError>(
      [&] {
        check_flag_names({{"sample.bucket-mb", "3"}}, uses);
      },
      {"--sample.bucket-mb is an option of two plugins of this run: a strategy (" + good.path +
       ") and an offload policy (/sample-offload.so); build one of them with another name, or leave the flag out"});
  check_flag_names({{"dp.sample.bucket-mb", "3"}}, uses);
}

}  // namespace
}  // namespace tessera::host
