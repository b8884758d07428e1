#include "launch/rank_environment.h"

#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "config/usage_error.h"
#include "support/expect_error.h"

namespace tessera::host {
namespace {

using testing::expect_error;
using Variables = std::map<std::string, std::string>;

/// `variables` must outlive it.
Environment look_up_in(const Variables& variables) {
  return [&variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

RankEnvironment read(const Variables& variables, int parent_pid = 7) {
  return read_rank_environment(look_up_in(variables), parent_pid);
}

const Variables kTorchrun = {{"RANK", "3"},
                             {"WORLD_SIZE", "4"},
                             {"LOCAL_RANK", "1"},
                             {"LOCAL_WORLD_SIZE", "2"},
                             {"MASTER_ADDR", "node0"},
                             {"MASTER_PORT", "29500"},
                             {"TORCHELASTIC_RUN_ID", "none"}};
const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                            {"OMPI_COMM_WORLD_SIZE", "2"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                            {"PMIX_NAMESPACE", "prterun-1"}};
const Variables kSlurm = {{"SLURM_PROCID", "5"},      {"SLURM_STEP_NUM_TASKS", "9"},
                          {"SLURM_LOCALID", "1"},     {"SLURM_STEP_TASKS_PER_NODE", "4(x2),1"},
                          {"SLURM_NODEID", "1"},      {"SLURM_STEP_NODELIST", "gnode[10,20-25]"},
                          {"SLURM_JOB_ID", "1234567"}};

Variables merge(Variables a, const Variables& b) {
  a.insert(b.begin(), b.end());
  return a;
}

Variables replace(Variables variables, const std::string& name, const std::string& value) {
  variables[name] = value;
  return variables;
}

TEST(RankEnvironment, NothingIsOneRank) {
  const RankEnvironment one = read({});
  EXPECT_EQ(one.world_size, 1);
  EXPECT_EQ(one.source, "no launcher");
  EXPECT_TRUE(one.is_local());
  EXPECT_FALSE(one.serves_store);
}

TEST(RankEnvironment, ReadsOurLauncher) {
  const Variables ours = {{"TESSERA_RANK", "0"},
                          {"TESSERA_WORLD_SIZE", "3"},
                          {"TESSERA_LOCAL_RANK", "0"},
                          {"TESSERA_LOCAL_SIZE", "3"},
                          {"TESSERA_STORE_ADDR", "127.0.0.1:4567"},
                          {"TESSERA_STORE_SERVED", "1"},
                          {"TESSERA_JOB_SECRET", "abc"}};
  const RankEnvironment rank = read(ours);
  EXPECT_EQ(rank.world_size, 3);
  EXPECT_EQ(rank.store_host, "127.0.0.1");
  EXPECT_EQ(rank.store_port, 4567);
  EXPECT_EQ(rank.secret, "abc");
  EXPECT_FALSE(rank.serves_store);                        // the launcher does
  EXPECT_EQ(read(merge(ours, kTorchrun)).world_size, 3);  // wins without comparing
}

TEST(RankEnvironment, ReadsTorchrun) {
  const RankEnvironment rank = read(kTorchrun);
  EXPECT_EQ(rank.rank, 3);
  EXPECT_EQ(rank.world_size, 4);
  EXPECT_EQ(rank.local_rank, 1);
  EXPECT_EQ(rank.local_size, 2);
  EXPECT_EQ(rank.source, "torchrun (RANK, WORLD_SIZE)");
  EXPECT_EQ(rank.store_host, "node0");
  EXPECT_EQ(rank.store_port, 29501);
  EXPECT_FALSE(rank.has_secret);
  EXPECT_FALSE(rank.serves_store);
  EXPECT_TRUE(read(replace(kTorchrun, "RANK", "0")).serves_store == true);
}

TEST(RankEnvironment, SecretsAreEqualInAJobAndDifferBetweenJobs) {
  const std::string secret = read(kTorchrun).secret;
  EXPECT_EQ(read(replace(replace(kTorchrun, "RANK", "0"), "LOCAL_RANK", "0")).secret, secret);
  EXPECT_NE(read(replace(kTorchrun, "TORCHELASTIC_RUN_ID", "other")).secret, secret);
  EXPECT_NE(read(replace(kTorchrun, "MASTER_PORT", "29600")).secret, secret);
}

TEST(RankEnvironment, SecretsThatWereChosenAreRealOnes) {
  const RankEnvironment rank = read(replace(kTorchrun, "TESSERA_JOB_SECRET", "chosen"));
  EXPECT_TRUE(rank.has_secret);
  EXPECT_EQ(rank.secret, "chosen");
  const std::string key = "8b6b9bb0d1b9b0b5-5b6b9bb0d1b9b0b5";
  const RankEnvironment ompi = read(replace(kOpenMpi, "OMPI_MCA_orte_precondition_transports", key));
  EXPECT_TRUE(ompi.has_secret);
  EXPECT_EQ(ompi.secret, key);
  EXPECT_FALSE(read(kOpenMpi).has_secret);
  // What started torchrun on each node may differ between nodes.
  EXPECT_FALSE(read(replace(kTorchrun, "OMPI_MCA_orte_precondition_transports", key)).has_secret);
}

TEST(RankEnvironment, SeveralMachinesNeedASecret) {
  std::ostringstream out;
  const Log log(out, LogLevel::info);
  const RankEnvironment apart = read(replace(kTorchrun, "RANK", "0"));
  expect_error<UsageError>([&] { require_secret(apart, false, log); },
                           {"TESSERA_JOB_SECRET", "openssl rand -hex 16", "--insecure"});
  EXPECT_EQ(out.str(), "");
  require_secret(apart, true, log);
  EXPECT_NE(out.str().find("--insecure"), std::string::npos);
  EXPECT_NE(out.str().find("29501"), std::string::npos);
  out.str("");
  require_secret(read(replace(kTorchrun, "TESSERA_JOB_SECRET", "chosen")), false, log);
  require_secret(read(replace(kTorchrun, "LOCAL_WORLD_SIZE", "4")), false, log);
  require_secret(read({}), false, log);
  EXPECT_EQ(out.str(), "");
}

// LOCAL_WORLD_SIZE says two nodes.
TEST(RankEnvironment, ALoopbackAddressMeansOneMachine) {
  for (const char* address : {"127.0.0.1", "127.0.1.5", "localhost"}) {
    const RankEnvironment rank = read(replace(kTorchrun, "MASTER_ADDR", address));
    EXPECT_TRUE(rank.is_local()) << address;
    EXPECT_EQ(rank.store_host, "127.0.0.1");
    EXPECT_EQ(rank.local_size, 2);
  }
  EXPECT_FALSE(read(replace(kTorchrun, "MASTER_ADDR", "10.127.0.1")).is_local());
  EXPECT_FALSE(read(kTorchrun).is_local());
}

TEST(RankEnvironment, AllLocalRanksMeetOnLoopback) {
  const RankEnvironment rank = read(replace(kTorchrun, "LOCAL_WORLD_SIZE", "4"));
  EXPECT_TRUE(rank.is_local());
  EXPECT_EQ(rank.store_host, "127.0.0.1");
}

TEST(RankEnvironment, ReadsSlurm) {
  const RankEnvironment rank = read(kSlurm);
  EXPECT_EQ(rank.rank, 5);
  EXPECT_EQ(rank.world_size, 9);
  EXPECT_EQ(rank.local_rank, 1);
  EXPECT_EQ(rank.local_size, 4);
  EXPECT_EQ(rank.store_host, "gnode10");
  EXPECT_EQ(rank.store_port, 29500 + 567);
}

TEST(RankEnvironment, ABatchScriptIsNoStep) {
  EXPECT_EQ(read({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}).world_size, 1);
}

TEST(RankEnvironment, ABatchScriptOfSeveralTasksNeedsSrun) {
  const auto missing = [](const Variables& variables) { return missing_srun(look_up_in(variables)); };
  EXPECT_NE(missing({{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}}).find("has 4 tasks"), std::string::npos);
  EXPECT_EQ(missing({{"SLURM_NTASKS", "4"}, {"SLURM_STEP_ID", "0"}}), "");
  for (const char* tasks : {"1", "", "many"})
    EXPECT_EQ(missing({{"SLURM_NTASKS", tasks}}), "") << tasks;
  EXPECT_EQ(missing({}), "");
}

TEST(RankEnvironment, ReadsOpenMpiAndMpich) {
  const RankEnvironment ompi = read(kOpenMpi);
  EXPECT_EQ(ompi.rank, 1);
  EXPECT_EQ(ompi.store_host, "127.0.0.1");
  EXPECT_GE(ompi.store_port, 20000);
  EXPECT_LT(ompi.store_port, 30000);
  const Variables mpich = {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "2"}};
  EXPECT_TRUE(read(mpich).serves_store);
  EXPECT_EQ(read(mpich, 7).store_port, read(mpich, 7).store_port);
  EXPECT_NE(read(mpich, 7).secret, read(mpich, 8).secret);  // another mpiexec
}

TEST(RankEnvironment, MpiOnSeveralMachinesNeedsAnAddress) {
  const Variables apart =
      replace(replace(kOpenMpi, "OMPI_COMM_WORLD_LOCAL_SIZE", "1"), "OMPI_COMM_WORLD_LOCAL_RANK", "0");
  expect_error<UsageError>([&] { read(apart); }, {"Open MPI", "TESSERA_STORE_ADDR"});
  const RankEnvironment rank = read(replace(apart, "TESSERA_STORE_ADDR", "node7:1234"));
  EXPECT_EQ(rank.store_host, "node7");
  EXPECT_EQ(rank.store_port, 1234);
}

TEST(RankEnvironment, TorchrunInsideAnotherLauncherWins) {
  EXPECT_EQ(read(merge(kTorchrun, kSlurm)).rank, 3);
}

TEST(RankEnvironment, ContradictionsNameBothVariables) {
  Variables by_hand = kTorchrun;
  by_hand.erase("TORCHELASTIC_RUN_ID");
  expect_error<UsageError>([&] { read(merge(by_hand, kSlurm)); }, {"RANK=3", "SLURM_PROCID=5"});
  expect_error<UsageError>([&] { read(merge(replace(by_hand, "RANK", "1"), kOpenMpi)); },
                           {"WORLD_SIZE=4", "OMPI_COMM_WORLD_SIZE=2"});
  const Variables agreeing = {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}};
  EXPECT_EQ(read(merge(kOpenMpi, agreeing)).rank, 1);
}

TEST(RankEnvironment, BadValuesAreRefused) {
  expect_error<UsageError>([] { read({{"RANK", "0"}}); }, {"has RANK but not WORLD_SIZE"});
  expect_error<UsageError>([] { read({{"WORLD_SIZE", "2"}}); }, {"has WORLD_SIZE but not RANK"});
  expect_error<UsageError>([] { read(replace(kTorchrun, "RANK", "4")); }, {"RANK=4", "WORLD_SIZE=4"});
  expect_error<UsageError>([] { read(replace(kTorchrun, "RANK", "x")); }, {"RANK", "'x'"});
  expect_error<UsageError>([] { read(replace(kTorchrun, "RANK", "-1")); }, {"'-1'"});
  expect_error<UsageError>([] { read(replace(kTorchrun, "LOCAL_RANK", "2")); }, {"LOCAL_RANK=2"});
  expect_error<UsageError>([] { read(replace(kTorchrun, "MASTER_PORT", "65535")); },
                           {"MASTER_PORT is '65535'", "65534"});
  expect_error<UsageError>([] { read(replace(kTorchrun, "MASTER_PORT", "0")); }, {"MASTER_PORT is '0'", "1 to 65534"});
  expect_error<UsageError>([] { read(replace(kTorchrun, "MASTER_PORT", "abc")); },
                           {"MASTER_PORT is 'abc'", "1 to 65534"});
  expect_error<UsageError>([] { read(replace(kTorchrun, "MASTER_PORT", "9999999999999999999999")); }, {"1 to 65534"});
  expect_error<UsageError>([] { read(replace(kTorchrun, "MASTER_PORT", "70000")); }, {"MASTER_PORT is '70000'"});
  expect_error<UsageError>([] { read(replace(kTorchrun, "TESSERA_JOB_SECRET", "")); }, {"TESSERA_JOB_SECRET is empty"});
  for (const char* address : {"host", ":1", "host:", "host:0", "host:x"})
    expect_error<UsageError>([&] { read(replace(kTorchrun, "TESSERA_STORE_ADDR", address)); }, {"TESSERA_STORE_ADDR"});
}

TEST(RankEnvironment, AMasterAddressThatIsMoreThanAHostIsRefused) {
  const auto refuse = [](const std::string& address, const std::vector<std::string>& parts) {
    for (const char* local_size : {"2", "4"})  // all on one machine: it would not even be looked up
      expect_error<UsageError>(
          [&] { read(replace(replace(kTorchrun, "MASTER_ADDR", address), "LOCAL_WORLD_SIZE", local_size)); }, parts);
  };
  refuse("node0:29500", {"MASTER_ADDR is 'node0:29500'", "MASTER_ADDR=node0 and MASTER_PORT=29500"});
  refuse("[fe80::1]:29500", {"MASTER_ADDR=fe80::1 and MASTER_PORT=29500"});
  refuse("[::1]", {"MASTER_ADDR is '[::1]'", "without brackets: ::1"});
  refuse("tcp://node0:29500", {"instead of a URL"});
  refuse("node0 node1", {"without blanks"});
  refuse("", {"MASTER_ADDR is ''", "rank 0's host"});
  for (const char* address : {"fe80::1", "fe80::1%eth0", "2001:db8::7:29500", "node-0.cluster"})
    EXPECT_EQ(read(replace(kTorchrun, "MASTER_ADDR", address)).store_host, address);
}

TEST(RankEnvironment, AStoreAddressMayHaveBrackets) {
  const RankEnvironment rank = read(replace(kTorchrun, "TESSERA_STORE_ADDR", "[fe80::1]:1234"));
  EXPECT_EQ(rank.store_host, "fe80::1");
  EXPECT_EQ(rank.store_port, 1234);
}

TEST(Slurm, NodeLists) {
  EXPECT_EQ(first_slurm_host("node1"), "node1");
  EXPECT_EQ(first_slurm_host("node1,node2"), "node1");
  EXPECT_EQ(first_slurm_host("gnode[10,20-25],other"), "gnode10");
  EXPECT_EQ(first_slurm_host("n[003-007]-ib"), "n003-ib");
  EXPECT_EQ(first_slurm_host("n[4]"), "n4");
  expect_error<UsageError>([] { first_slurm_host("n[4"); }, {"'n[4'"});
}

TEST(Slurm, TasksPerNode) {
  EXPECT_EQ(slurm_tasks_on_node("4(x2),1", 0), 4);
  EXPECT_EQ(slurm_tasks_on_node("4(x2),1", 1), 4);
  EXPECT_EQ(slurm_tasks_on_node("4(x2),1", 2), 1);
  EXPECT_EQ(slurm_tasks_on_node("8", 0), 8);
  expect_error<UsageError>([] { slurm_tasks_on_node("4(x2),1", 3); }, {"node 3"});
  for (const char* text : {"", "x", "4(x", "4(x)", "(x2)"})
    expect_error<UsageError>([&] { slurm_tasks_on_node(text, 0); }, {"SLURM_STEP_TASKS_PER_NODE"});
}

TEST(RanksToStart, FlagsAndLauncherMustAgree) {
  const RankEnvironment alone = read({});
  const RankEnvironment torchrun = read(kTorchrun);
  EXPECT_EQ(ranks_to_start(0, alone), 1);
  EXPECT_EQ(ranks_to_start(3, alone), 3);
  EXPECT_EQ(ranks_to_start(0, torchrun), 1);
  EXPECT_EQ(ranks_to_start(4, torchrun), 1);
  expect_error<UsageError>([&] { ranks_to_start(2, torchrun); }, {"2 ranks", "torchrun", "started 4"});
}

}  // namespace
}  // namespace tessera::host
