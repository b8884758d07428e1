// A strategy reads no byte of the host's tables that is not there: each table ends at a page that must not be touched.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "plugins/host_services.h"
#include "plugins/loader.h"
#include "plugins/plugin_options.h"
#include "program/program_text.h"
#include "support/gpt2_ddp.h"
#include "support/guard_page.h"
#include "support/interposed_pass.h"
#include "support/paths.h"

namespace tessera::testing {
using namespace host;
namespace {

const Log kQuiet(LogLevel::off);

/// What a strategy gets to see: by default all of both tables.
struct Tables {
  uint32_t view_bytes = sizeof(tsr_program_view);
  uint32_t edit_bytes = sizeof(tsr_edit);
};

class GuardPage : public ::testing::TestWithParam<std::string> {
 protected:
  GuardPage() : plugin_(load_plugin(GetParam(), kQuiet)), options_(plugin_, "dp", {}), host_(kQuiet) {}
  ~GuardPage() override { plugin_.strategy()->destroy(instance_); }

  tsr_strategy_create_args arguments() const {
    return {sizeof(tsr_strategy_create_args), 0, host_.of(plugin_), str("dp"), options_.values().data(),
            options_.values().size()};
  }
  tsr_status create(const tsr_strategy_create_args* args, tsr_error& err) {
    return plugin_.strategy()->create(args, &instance_, &err);
  }
  void create() {
    const GuardedStruct<tsr_strategy_create_args> args(arguments());
    tsr_error err{};
    ASSERT_EQ(create(args.get(), err), TSR_OK) << err.message;
  }

  /// The program that the strategy makes of a base program.
  std::string lowered(const Gpt2Ddp& job, uint32_t purpose, const Tables& tables) {
    Program program = job.base(1, purpose);
    run_interposed_pass(program, plugin_.name, [&](const tsr_program_view* view, const tsr_edit* edit, tsr_error* err) {
      const GuardedStruct<tsr_program_view> guarded_view(*view, tables.view_bytes);
      const GuardedStruct<tsr_edit> guarded_edit(*edit, tables.edit_bytes);
      const GuardedStruct<tsr_error> guarded_error(tsr_error{});
      const tsr_status status =
          plugin_.strategy()->lower(instance_, guarded_view.get(), guarded_edit.get(), guarded_error.get());
      *err = *guarded_error.get();
      return status;
    });
    return print_program(program);
  }
  std::string lowered_without_guard(const Gpt2Ddp& job, uint32_t purpose) {
    Program program = job.base(1, purpose);
    run_pass(program, {plugin_.name, 0, plugin_.strategy(), instance_}, describe);
    return print_program(program);
  }
  tsr_status status_of_lower(const Tables& tables) {
    try {
      lowered(Gpt2Ddp(3), TSR_PURPOSE_STEP, tables);
      return TSR_OK;
    } catch (const Error& error) {
      return error.code();
    }
  }

  static std::vector<tsr_slot_spec> describe(const tsr_op& op) { return cpu::describe(op); }

  const LoadedPlugin plugin_;
  const PluginOptions options_;
  const HostServices host_;
  tsr_strategy* instance_ = nullptr;
};

TEST(GuardPageDeathTest, OneByteMoreIsACrash) {
  const GuardedStruct<tsr_host> host(tsr_host{}, 16);
  const volatile char* end = reinterpret_cast<const char*>(host.get()) + 16;
  EXPECT_EQ(end[-1], 0);
  EXPECT_DEATH(static_cast<void>(end[0]), "");
}

TEST_P(GuardPage, QueryReadsNoMoreThanThereIs) {
  void* library = dlopen(GetParam().c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto query = reinterpret_cast<tsr_plugin_query_fn>(dlsym(library, TSR_ENTRY_SYMBOL));
  const GuardedStruct<tsr_host> host(*host_.before_query(nullptr));
  const GuardedStruct<tsr_error> err(tsr_error{});
  const GuardedStruct<tsr_handshake> handshake(
      {TSR_MAGIC, sizeof(tsr_handshake), TSR_ABI_MAJOR, TSR_ABI_MINOR, TSR_ABI_MINOR, 0, 0, 8 * sizeof(void*), 0});
  const tsr_factory* factory = nullptr;
  EXPECT_EQ(query(handshake.get(), host.get(), &factory, err.get()), TSR_OK) << err.get()->message;
  EXPECT_EQ(handshake.get()->plugin_minor_max, TSR_ABI_MINOR);
  ASSERT_NE(factory, nullptr);
}

TEST_P(GuardPage, LowerReadsNoMoreThanThereIs) {
  create();
  for (const uint32_t reduce_every : {TSR_EVERY_STEP, TSR_EVERY_MICRO_BATCH})
    for (const uint32_t purpose : {TSR_PURPOSE_INIT, TSR_PURPOSE_STEP, TSR_PURPOSE_EVAL}) {
      const Gpt2Ddp job(3, reduce_every);
      EXPECT_EQ(lowered(job, purpose, {}), lowered_without_guard(job, purpose)) << "purpose " << purpose;
    }
}

TEST_P(GuardPage, ALongerHostIsNoProblem) {
  const GuardedStruct<tsr_strategy_create_args> args(arguments(), sizeof(tsr_strategy_create_args) + 64);
  tsr_error err{};
  ASSERT_EQ(create(args.get(), err), TSR_OK) << err.message;
  const Gpt2Ddp job(3);
  EXPECT_EQ(lowered(job, TSR_PURPOSE_STEP, {sizeof(tsr_program_view) + 64, sizeof(tsr_edit) + 64}),
            lowered_without_guard(job, TSR_PURPOSE_STEP));
}

TEST_P(GuardPage, AShorterHostIsRefused) {
  for (uint32_t num_bytes = 8; num_bytes < sizeof(tsr_strategy_create_args); num_bytes += 8) {
    const GuardedStruct<tsr_strategy_create_args> args(arguments(), num_bytes);
    tsr_error err{};
    EXPECT_EQ(create(args.get(), err), TSR_E_ABI) << num_bytes << " bytes";
    EXPECT_EQ(err.code, TSR_E_ABI);
    EXPECT_NE(std::string(err.message).find("struct_size"), std::string::npos) << err.message;
  }
  create();
  for (uint32_t num_bytes = 8; num_bytes < sizeof(tsr_program_view); num_bytes += 8)
    EXPECT_EQ(status_of_lower({num_bytes, sizeof(tsr_edit)}), TSR_E_ABI) << num_bytes << " bytes of the view";
  for (uint32_t num_bytes = 8; num_bytes <= offsetof(tsr_edit, insert); num_bytes += 8)
    EXPECT_EQ(status_of_lower({sizeof(tsr_program_view), num_bytes}), TSR_E_ABI) << num_bytes << " bytes of the edits";
}

INSTANTIATE_TEST_SUITE_P(Strategies, GuardPage,
                         ::testing::Values(plugin_dir() + "/ddp.so", binary_dir("tests/template/plain-ddp.so")),
                         [](const auto& test) { return std::string(test.index == 0 ? "ddp" : "plain_ddp"); });

}  // namespace
}  // namespace tessera::testing
