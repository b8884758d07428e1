// What a rank says of a failure when little works any more.
#include "train/rank_process.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "launch/memory_store.h"
#include "launch/store/join.h"
#include "support/free_port.h"
#include "support/store_fixture.h"
#include "support/temp_folder.h"

namespace tessera::testing {
using namespace host;
namespace {

RankEnvironment rank_of_two(int rank, uint16_t port, const std::string& secret) {
  RankEnvironment environment;
  environment.rank = environment.local_rank = rank;
  environment.world_size = environment.local_size = 2;
  environment.store_host = "127.0.0.1";
  environment.store_port = port;
  environment.secret = secret;
  environment.serves_store = rank == 0;
  return environment;
}

const RankEnvironment& rank_0() {
  static const RankEnvironment environment = rank_of_two(0, static_cast<uint16_t>(free_port()), "secret");
  return environment;
}

/// Ends this process.
void fail_without_descriptors(int64_t short_ms) {
  RankProcess process(rank_0());
  ::_exit(process.run(kPatienceMs, kPatienceMs, Log(LogLevel::off), [short_ms](const RankInfo&, JobWatch&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(short_ms));  // the watch has taken the connection by then
    const rlimit none{0, 0};
    ::setrlimit(RLIMIT_NOFILE, &none);
    throw Error(TSR_E_RESOURCE_EXHAUSTED, "no file can be opened");
  }));
}

TEST(RankProcessDeathTest, TheRankThatServesTheStoreNeedsNoDescriptorToSayTheCause) {
  with_short_time(100, [](int64_t short_ms) {
    const Deadline deadline = deadline_in(kPatienceMs);
    EXPECT_EXIT(fail_without_descriptors(short_ms), ::testing::ExitedWithCode(1),
                "cause: +rank 0 .*no file can be opened");
    EXPECT_GT(remaining_ms(deadline), 0);
  });
}

/// Ends this process: another rank has failed, and the rank's own thread does not notice.
void be_ended() {
  const auto store = std::make_shared<MemoryStore>();
  const JobWatch watch(store, 1, 1, true);
  store->close("rank 0 failed: the disk is full");
  for (;;)
    ::pause();
}

// It would name this rank as the cause if it found no file with a later time.
TEST(RankProcessDeathTest, ARankThatIsEndedTellsTorchrunWhy) {
  const TempFolder folder;
  ::setenv("TORCHELASTIC_ERROR_FILE", folder.path("error").c_str(), 1);
  EXPECT_EXIT(be_ended(), ::testing::ExitedWithCode(1), "rank 1 ends: rank 0 failed: the disk is full");
  ::unsetenv("TORCHELASTIC_ERROR_FILE");
  EXPECT_NE(file_bytes(folder.path("error")).find("rank 0 failed: the disk is full"), std::string::npos);
}

// Whose WORLD_SIZE differs, for instance.
TEST(RankProcess, ALostRankBeyondTheWorldIsSaid) {
  RankProcess process(rank_0());
  ::testing::internal::CaptureStderr();
  const int exit_code = process.run(kPatienceMs, kPatienceMs, Log(LogLevel::off), [](const RankInfo& info, JobWatch&) {
    join_store("127.0.0.1", rank_0().store_port, rank_0().secret, {5, 1, "node"}, kPatienceMs);  // and is gone
    info.store->get("never", kPatienceMs);
  });
  const std::string err = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(exit_code, 1);
  EXPECT_NE(err.find("rank 5 (process 1 on node) ended without an error"), std::string::npos) << err;
}

class LaunchedRank : public TcpStore {};

// The store has another secret than this rank.
TEST_F(LaunchedRank, SaysItselfWhatItCannotTell) {
  ::setenv("TESSERA_STORE_SERVED", "1", 1);
  const RankEnvironment environment = rank_of_two(1, server_->port(), "other");
  RankProcess process(environment);
  ::unsetenv("TESSERA_STORE_SERVED");
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(process.fail_before_joining(Error(TSR_E_INVALID_ARGUMENT, "the data is missing"), true), 1);
  const std::string err = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(err.find("the data is missing"), std::string::npos) << err;
}

}  // namespace
}  // namespace tessera::testing
