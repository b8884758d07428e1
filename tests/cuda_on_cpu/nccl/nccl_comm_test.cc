// nccl-comm over an emulated NCCL: what only NCCL does, or does not do. Ranks are threads with an emulated GPU each.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "support/comm_harness.h"
#include "support/expect_error.h"
#include "support/plugin_loader.h"

namespace tessera::testing {
namespace {

constexpr int64_t kShortMs = 1000;

CommSpec spec(int num_ranks) {
  return {std::getenv("TESSERA_TEST_COMMUNICATOR"), num_ranks, "dp.test", kPatienceMs,
          std::getenv("TESSERA_TEST_DEVICE")};
}

class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }

 private:
  const char* const name_;
};

tsr_collective all_reduce(TypedBuffer& buffer) {
  auto collective =
      make_collective(TSR_COLL_ALL_REDUCE, buffer.dtype(), buffer.num_elements(), buffer.data(), buffer.data());
  collective.reduce = TSR_REDUCE_SUM;
  return collective;
}

/// What `action` throws.
template <class Action>
Error caught(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error(TSR_OK, "");
}

bool says(const Error& error, const std::string& part) {
  return std::string(error.what()).find(part) != std::string::npos;
}

TEST(NcclComm, RefusesAnOlderLibraryWithTheReason) {
  const Variable version("NCCL_ON_CPU_VERSION", "22705");
  run_ranks(spec(1), [](CommRank& rank) {
    const Error error = caught([&] { rank.create(); });
    EXPECT_EQ(error.code(), TSR_E_UNAVAILABLE);
    for (const char* part : {"is NCCL 2.27.5", "2.28.9 or newer", "hang with many ranks", "--comm gloo"})
      EXPECT_TRUE(says(error, part)) << part << " is missing in: " << error.what();
  });
}

TEST(NcclComm, TakesNoMoreChannelsThanItIsAllowed) {
  const Variable expected("NCCL_ON_CPU_MAX_CTAS", "8");
  CommSpec limited = spec(2);
  run_ranks(limited, [](CommRank& rank) {
    EXPECT_EQ(caught([&] { rank.create(); }).code(), TSR_E_INVALID_ARGUMENT);  // by itself it asks for no limit
  });
  limited.plugin += ":max-channels=8";
  run_ranks(limited, [](CommRank& rank) {
    TypedBuffer buffer(TSR_F32, 100, [](uint64_t) { return 1; });
    rank.comm().submit(all_reduce(buffer));
    rank.synchronize();
    EXPECT_EQ(buffer.difference(TypedBuffer(TSR_F32, 100, [](uint64_t) { return 2; })), "");
  });
}

TEST(NcclComm, AsksForTheOrderOfLaunchesUnlessTheUserDid) {
  constexpr const char* kVariable = "NCCL_LAUNCH_ORDER_IMPLICIT";
  CommSpec ordered = spec(1);
  ordered.plugin += ":launch-order=true";
  unsetenv(kVariable);
  run_ranks(spec(1), [](CommRank& rank) { rank.comm(); });
  EXPECT_EQ(std::getenv(kVariable), nullptr);
  run_ranks(ordered, [](CommRank& rank) { rank.comm(); });
  EXPECT_STREQ(std::getenv(kVariable), "1");
  const Variable own(kVariable, "0");
  run_ranks(ordered, [](CommRank& rank) { rank.comm(); });
  EXPECT_STREQ(std::getenv(kVariable), "0");
}

TEST(NcclComm, RefusesTwoRanksOnOneGpuOnAllRanks) {
  CommSpec shared = spec(4);
  shared.device_indices = {0, 1, 2, 1};
  run_ranks(shared, [](CommRank& rank) {
    const Error error = caught([&] { rank.create(); });
    EXPECT_EQ(error.code(), TSR_E_FAILED_PRECONDITION);
    for (const std::string& part : {"dp.test rank " + std::to_string(rank.rank()),
                                    std::string("rank 1 and rank 3 are on one GPU"), std::string("--comm gloo")})
      EXPECT_TRUE(says(error, part)) << part << " is missing in: " << error.what();
  });
}

TEST(NcclComm, RefusesDtypesThatNcclDoesNotHave) {
  run_ranks(spec(1), [](CommRank& rank) {
    TypedBuffer buffer(TSR_U16, 10);
    const Error error = caught([&] { rank.comm().submit(all_reduce(buffer)); });
    EXPECT_EQ(error.code(), TSR_E_UNSUPPORTED);
    EXPECT_TRUE(says(error, "dp.test rank 0: all_reduce #0") && says(error, "u16")) << error.what();
  });
}

TEST(NcclComm, TellsWhatNcclFoundAndTheOthersThatARankHasStopped) {
  const Variable failure("NCCL_ON_CPU_REMOTE_ERROR", "1@1");
  run_ranks(spec(3), [](CommRank& rank) {
    TypedBuffer buffer(TSR_F32, 100, [](uint64_t) { return 1; });
    rank.comm().submit(all_reduce(buffer));
    rank.synchronize();
    const Error error = caught([&] {
      rank.comm().submit(all_reduce(buffer));
      rank.synchronize();
    });
    const bool is_cause = rank.rank() == 1;
    EXPECT_EQ(error.code(), is_cause ? TSR_E_UNAVAILABLE : TSR_E_ABORTED) << error.what();
    EXPECT_TRUE(says(error, "all_reduce #1 (gradient h.2, 100 elements f32)")) << error.what();
    EXPECT_TRUE(says(error, is_cause ? "remote process exited" : "aborted by rank 1")) << error.what();
    EXPECT_EQ(says(error, "socket closed by remote peer"), is_cause) << error.what();
  });
}

TEST(NcclComm, DoesNotBlameARankThatHasCome) {
  with_short_time(kShortMs, [](int64_t short_ms) {
    Crowd crowd;
    run_ranks(spec(3), [&](CommRank& rank) {
      TypedBuffer buffer(TSR_F32, 100);
      auto collective = all_reduce(buffer);
      rank.comm().submit(collective);
      rank.synchronize();
      if (rank.rank() == 2) return crowd.wait_for(2);
      if (rank.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(short_ms / 2));
      collective.timeout_ms = short_ms;
      rank.comm().submit(collective);
      const Error error = caught([&] { rank.synchronize(); });
      crowd.leave();
      if (rank.rank() == 1) return;  // told by rank 0, or late itself
      EXPECT_EQ(error.code(), TSR_E_DEADLINE) << error.what();
      EXPECT_TRUE(says(error, std::to_string(short_ms) + " ms waiting for rank 2")) << error.what();
    });
  });
}

TEST(NcclComm, GivesUpAConnectionAtTheDeadline) {
  Crowd crowd;
  run_ranks(spec(2), [&](CommRank& rank) {
    rank.comm();
    if (rank.rank() == 1) return crowd.wait_for(1);
    TypedBuffer buffer(TSR_F32, 100);
    auto collective = all_reduce(buffer);
    collective.timeout_ms = kShortMs;
    const Error error = caught([&] { rank.comm().submit(collective); });
    EXPECT_EQ(error.code(), TSR_E_DEADLINE);
    EXPECT_TRUE(says(error, "all_reduce #0") && says(error, "waiting for rank 1")) << error.what();
    expect_error([&] { rank.comm().submit(collective); }, {"all_reduce #0", "waiting for rank 1"});
    crowd.leave();
  });
}

TEST(NcclComm, WorkIsCapturedAndRunsAgainInAGraph) {
  run_ranks(spec(2), [](CommRank& rank) {
    const auto* capture =
        static_cast<const tsr_device_capture*>(rank.device_interface().get_extension(str(TSR_DEVICE_CAPTURE)));
    ASSERT_NE(capture, nullptr);
    TypedBuffer sum(TSR_F32, 1000, [](uint64_t i) { return static_cast<double>(i); });
    TypedBuffer got(TSR_F32, 10);
    const auto submit_all = [&] {
      rank.comm().submit(all_reduce(sum));
      auto message = make_collective(rank.rank() == 0 ? TSR_COLL_SEND : TSR_COLL_RECV, TSR_F32, 10, sum.data(),
                                     rank.rank() == 0 ? nullptr : got.data());
      message.peer = 1 - rank.rank();
      rank.comm().submit(message);
    };
    submit_all();  // makes the connections
    rank.synchronize();
    tsr_graph* graph = nullptr;
    call(capture->begin, rank.stream());
    submit_all();
    call(capture->end, rank.stream(), &graph);
    for (int run = 0; run < 3; ++run)
      call(capture->launch, graph, rank.stream());
    rank.synchronize();
    submit_all();
    rank.synchronize();
    capture->destroy(graph);
    // Five sums of two equal operands.
    EXPECT_EQ(sum.difference(TypedBuffer(TSR_F32, 1000, [](uint64_t i) { return 32.0 * static_cast<double>(i); })), "");
    if (rank.rank() == 0) return;
    EXPECT_EQ(got.difference(TypedBuffer(TSR_F32, 10, [](uint64_t i) { return 32.0 * static_cast<double>(i); })), "");
  });
}

// The kernels of a communicator that is cut end, and what comes after them on the stream runs. The first one's must be
// ahead, also when NCCL takes its time to cut it.
TEST(NcclComm, AbortCutsTheFirstBeforeTheOthers) {
  const Variable slow("NCCL_ON_CPU_SLOW_ABORT", "dp.world");
  Crowd ready, done;
  run_ranks(spec(2), [&](CommRank& rank) {
    TypedBuffer a(TSR_F32, 100), b(TSR_F32, 100);
    const auto first = rank.create("dp.world"), second = rank.create("dp.other");
    const auto submit = [&](Comm& comm, TypedBuffer& buffer, size_t stream) {
      auto collective = all_reduce(buffer);
      collective.stream = rank.stream(stream);
      comm.submit(collective);
    };
    submit(*first, a, 0), submit(*second, b, 1);
    rank.synchronize(0), rank.synchronize(1);
    ready.leave();
    ready.wait_for(2);
    if (rank.rank() == 1) return done.wait_for(1);
    std::atomic<int> num_ended = 0, place_of_first = 0;
    submit(*first, a, 0), submit(*second, b, 1);
    rank.run_on_stream([&] { place_of_first = ++num_ended; }, 0);
    rank.run_on_stream([&] { ++num_ended; }, 1);
    tsr_comm* const comms[] = {first->handle(), second->handle()};
    rank.interface().abort(comms, 2);
    EXPECT_TRUE(eventually([&] { return num_ended == 2; }));
    EXPECT_EQ(place_of_first, 1);
    done.leave();
  });
}

TEST(NcclComm, DestroyWaitsForNobody) {
  Crowd crowd;
  run_ranks(spec(2), [&](CommRank& rank) {
    auto comm = rank.create();
    if (rank.rank() == 1) return crowd.wait_for(1);
    comm.reset();
    crowd.leave();
  });
}

TEST(NcclComm, RefusesStreamsThatAreNotCudas) {
  run_ranks(spec(1), [](CommRank& rank) {
    const auto& cpu = load_plugin<tsr_device_interface>("cpu-device", TSR_DEVICE_INTERFACE);
    MemoryKv store;
    const tsr_host host = store.host();
    tsr_comm_create_args args{};
    args.struct_size = sizeof args;
    args.size = 1;
    args.timeout_ms = kShortMs;
    args.host = &host;
    args.device_interface = &cpu;
    tsr_comm* comm = nullptr;
    const Error error = caught([&] { call(rank.interface().create, &args, &comm); });
    EXPECT_EQ(error.code(), TSR_E_UNSUPPORTED);
    EXPECT_TRUE(says(error, "cpu.queue") && says(error, "--device cuda")) << error.what();
  });
}

}  // namespace
}  // namespace tessera::testing
