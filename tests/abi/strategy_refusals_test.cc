// What every strategy must refuse in a view, ours and the templates: what a later host may send, and a strategy cannot
// know (tessera/strategy.h, lower).
#include <gtest/gtest.h>

#include "plugins/host_services.h"
#include "plugins/loader.h"
#include "plugins/plugin_options.h"
#include "program/program_text.h"
#include "support/expect_error.h"
#include "support/gpt2_ddp.h"
#include "support/interposed_pass.h"
#include "support/paths.h"

namespace tessera::testing {
using namespace host;
namespace {

using Change = void (*)(tsr_program_view&);

class Refusal : public ::testing::TestWithParam<std::string> {
 protected:
  Refusal() : plugin_(load_plugin(GetParam(), kQuiet)), options_(plugin_, "dp", {}), host_(kQuiet) {
    const tsr_strategy_create_args args{
        sizeof args, 0, host_.of(plugin_), str("dp"), options_.values().data(), options_.values().size()};
    tsr_error err{};
    EXPECT_EQ(plugin_.strategy()->create(&args, &instance_, &err), TSR_OK) << err.message;
  }
  ~Refusal() override { plugin_.strategy()->destroy(instance_); }

  /// The step after the pass, which sees the view after the change.
  std::string lowered_where(Change change) {
    const Gpt2Ddp job(3);
    Program program = job.base(1, TSR_PURPOSE_STEP);
    run_interposed_pass(program, plugin_.name, [&](const tsr_program_view* view, const tsr_edit* edit, tsr_error* err) {
      tsr_program_view changed = *view;
      change(changed);
      return plugin_.strategy()->lower(instance_, &changed, edit, err);
    });
    return print_program(program);
  }
  tsr_status status_where(Change change) {
    try {
      lowered_where(change);
    } catch (const Error& error) {
      return error.code();
    }
    return TSR_OK;
  }

  const Log kQuiet{LogLevel::off};
  const LoadedPlugin plugin_;
  const PluginOptions options_;
  const HostServices host_;
  tsr_strategy* instance_ = nullptr;
};

TEST_P(Refusal, OfAPurposeThatItDoesNotKnow) {
  EXPECT_EQ(status_where([](tsr_program_view& view) { view.purpose = TSR_PURPOSE_EVAL + 1; }), TSR_E_UNSUPPORTED);
}

TEST_P(Refusal, OfAPointOfReductionThatItDoesNotKnow) {
  EXPECT_EQ(status_where([](tsr_program_view& view) { view.reduce_every = TSR_EVERY_MICRO_BATCH + 1; }),
            TSR_E_UNSUPPORTED);
}

// What it leaves is half done.
TEST(FailedEdit, ThatAPassPaysNoAttentionToIsNamed) {
  const Gpt2Ddp job(3);
  Program program = job.base(1, TSR_PURPOSE_STEP);
  const std::string before = print_program(program);
  const auto lower = [](const tsr_program_view*, const tsr_edit* edit, tsr_error*) {
    tsr_error dropped{};
    edit->remove(edit->ctx, 999'999, &dropped);
    return TSR_OK;
  };
  expect_error([&] { run_interposed_pass(program, "careless", lower); },
               {"careless", "its pass returned OK although an edit had failed (remove: ", "999999",
                "return the status of the first edit that fails"});
  EXPECT_EQ(print_program(program), before);
}

std::string name_of(const ::testing::TestParamInfo<std::string>& test) {
  std::string name = test.param.substr(test.param.rfind('/') + 1);
  name.resize(name.size() - 3);
  std::ranges::replace(name, '-', '_');
  return name;
}

std::vector<std::string> shipped(std::initializer_list<const char*> names) {
  std::vector<std::string> files;
  for (const char* name : names)
    files.push_back(plugin_dir() + "/" + name + ".so");
  return files;
}
INSTANTIATE_TEST_SUITE_P(Shipped, Refusal, ::testing::ValuesIn(shipped({"ddp", "fsdp", "zero3", "pipeline", "tensor"})),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Templates, Refusal,
                         ::testing::Values(binary_dir("tests/template/plain-ddp.so"),
                                           binary_dir("tests/mutation_strategies/local-sgd.so"),
                                           binary_dir("tests/template/unit-ddp.so")),
                         name_of);

/// Of two ranks' tokens, as after another rank was lost: what a strategy does not ask for changes nothing.
using MoreData = Refusal;
TEST_P(MoreData, IsTheSameProgram) {
  const std::string alone = lowered_where([](tsr_program_view&) {});
  EXPECT_EQ(lowered_where([](tsr_program_view& view) {
              static const int32_t two[] = {1, 2};
              view.data_ranks = two;
              view.num_data_ranks = 2;
            }),
            alone);
}
INSTANTIATE_TEST_SUITE_P(Shipped, MoreData, ::testing::ValuesIn(shipped({"ddp", "fsdp", "zero3"})), name_of);
INSTANTIATE_TEST_SUITE_P(Templates, MoreData,
                         ::testing::Values(binary_dir("tests/template/plain-ddp.so"),
                                           binary_dir("tests/template/unit-ddp.so")),
                         name_of);

/// Those that slice homes.
using SliceRefusal = Refusal;
TEST_P(SliceRefusal, OfSlicesThatMustBeCutAtMultiples) {
  EXPECT_EQ(status_where([](tsr_program_view&) {}), TSR_OK);
  EXPECT_EQ(status_where([](tsr_program_view& view) { view.slice_granule = 256; }), TSR_E_UNSUPPORTED);
}
INSTANTIATE_TEST_SUITE_P(Shipped, SliceRefusal, ::testing::ValuesIn(shipped({"fsdp", "zero3"})), name_of);

}  // namespace
}  // namespace tessera::testing
