// An untrusted file for --config: whatever its bytes, it is accepted or refused with a message, and accepted settings
// are written as a file that reads back as the same settings.
#include <string_view>

#include "config/flag_table.h"
#include "config/parse_flags.h"
#include "config/settings/settings_file.h"
#include "fuzz/fuzz_target.h"
#include "fuzz/memory_file.h"

namespace tessera::testing {
using namespace host;
namespace {

/// Nothing where the file is refused.
std::optional<ParsedFlags> read(std::string_view text) {
  static const MemoryFile file("settings.json");
  file.write(text);
  std::optional<ParsedFlags> flags;
  const std::vector<std::string> words = {"--config", file.path(), "--model=gpt2", "--data=d"};
  succeeds([&] { flags = parse_flags(FlagSet::train, words); });
  return flags;
}

std::string text_of(const ParsedFlags& flags) {
  std::vector<PluginSetting> options;
  for (const PluginFlag& flag : flags.plugin_flags)
    options.push_back({flag.name, flag.value});
  return settings_json(flags.config, FlagSet::train, options, "0");
}

void use(const ParsedFlags& flags) {
  const std::string text = text_of(flags);
  require(begins_like_settings(text), "settings that do not begin as ours do");
  const auto again = read(text);
  require(again.has_value(), "settings that were written do not read back");
  require(text_of(*again) == text, "settings that were written read back as others");
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  return {
      settings_json(TrainConfig(), FlagSet::train, {}, "0.1"),
      R"({"lr": 1e-3, "steps": 12, "freeze": ["wte*"], "mesh": "dp=2", "strategy": "dp=fsdp", "ddp.bucket-mb": 2.5,)"
      R"("recompute": "every=2", "device-memory": "3GiB", "save-async": true, "save": "s", "threads": null})",
      "{}"};
}

}  // namespace tessera::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera::testing;
  if (const auto flags = read({reinterpret_cast<const char*>(data), size})) use(*flags);
  return 0;
}
