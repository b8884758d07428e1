// A command line from anybody: the first byte chooses the command, and each line is an argument. Whatever it is, it is
// read or refused with a sentence, and the settings that were read can be printed, and are read again as the same.
#include <string_view>

#include "config/axes.h"
#include "config/flag_table.h"
#include "config/parse_flags.h"
#include "config/text_values.h"
#include "fuzz/fuzz_target.h"

namespace tessera::testing {
using namespace host;
namespace {

constexpr FlagSet kSets[] = {FlagSet::train, FlagSet::plan, FlagSet::bench, FlagSet::eval};

std::string text_of(const TrainConfig& config) {
  std::string text;
  for (const ConfigField& field : shared_fields(config))
    text += "--" + field.name + "=" + field.value + "\n";
  return text;
}

void use(const ParsedFlags& flags) {
  if (flags.help) return;
  const std::string text = text_of(flags.config);
  require(text == text_of(flags.config), "settings print in two ways");
  result_fields(flags.config);
  succeeds([&] { resolve_axes(flags.config, std::max(1, requested_world(flags.config))); });
  if (!flags.config.mesh.empty())
    require(print_mesh(parse_mesh(print_mesh(flags.config.mesh))) == print_mesh(flags.config.mesh),
            "a mesh reads back as another");
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  return {"0--model=gpt2\n--data\ndata.bin\n--steps=20\n--lr\n3e-4\n--mesh=pp=2,dp=2\n--strategy=pp=pipeline,dp=fsdp\n",
          "0--model\nmlp:64,32,10\n--data=digits.csv\n--data-label=last\n--fsdp.reshard-after-forward=false\n"
          "--batch_size\n8\n--recompute=every=2\n--device-memory=2GiB\n--offload=fit,stream\n--freeze=h.*.attn\n",
          "0--model=gpt2\n--data=a\n--save=runs\n--save-every=10\n--keep=2\n--save-async\n--save-best\n--eval-data=b\n"
          "--eval-every=5\n--eval-batches=3\n--resume\nruns\n",
          "1--model=gpt2\n--print-program\n--rank=1\n--nproc=2\n--dtype=bf16\n--reduce-dtype=bf16\n--optimizer=sgd\n"
          "--reduce-every=micro-batch\n--grad-accum=4\n",
          "2rates\n--model=gpt2\n--rates=r.json\n",
          "3runs\n--data=b\n--eval-batches=3\n",
          "0--help\n"};
}

}  // namespace tessera::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera::testing;
  using namespace tessera::host;
  if (size == 0) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data + 1), size - 1);
  std::vector<std::string> arguments;
  for (const std::string_view line : split(input, '\n'))
    arguments.emplace_back(line.substr(0, line.find('\0')));  // of the system's, none has a zero byte
  if (arguments.back().empty()) arguments.pop_back();
  succeeds([&] { use(parse_flags(kSets[data[0] % std::size(kSets)], arguments)); });
  return 0;
}
