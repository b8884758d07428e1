// tessera doctor: its report on a machine that works, and on one that does not.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "doctor/child.h"
#include "doctor/reach.h"
#include "e2e/cli.h"
#include "launch/socket.h"
#include "support/free_port.h"
#include "support/paths.h"

namespace tessera::testing {
namespace {

using Flags = std::vector<std::string>;
using nlohmann::json;

json doctor(const Flags& more, int exit_code) {
  Flags flags = {"doctor", "--json"};
  flags.insert(flags.end(), more.begin(), more.end());
  const CommandResult result = Command(tessera(flags)).wait(std::chrono::minutes(3));
  EXPECT_EQ(result.exit_code, exit_code) << result.err << result.out;
  return json::parse(result.out);
}

json find(const json& report, const std::string& section, const std::string& name) {
  for (const json& finding : report["findings"])
    if (finding["section"] == section && finding["name"].get<std::string>().find(name) != std::string::npos)
      return finding;
  ADD_FAILURE() << section << ", " << name << " is missing in\n" << report.dump(2);
  return {{"level", ""}, {"value", ""}, {"remedy", ""}};
}

TEST(Doctor, SaysWhatWorksAndWhatWasRefused) {
  const TempFolder folder;
  std::ofstream(folder.path("broken-comm.so")) << "not a library";
  const json report = doctor({"--plugin-dir=" + folder.path()}, 0);
  EXPECT_EQ(report["works"], true);
  EXPECT_EQ(find(report, "devices", "cpu")["level"], "ok");
  EXPECT_EQ(find(report, "communicators", "gloo")["level"], "ok");
  EXPECT_EQ(find(report, "communicators", "local")["level"], "ok");
  const json refused = find(report, "plugins", "broken");
  EXPECT_EQ(refused["level"], "warning");
  EXPECT_TRUE(refused["value"].get<std::string>().starts_with("refused: ")) << refused;
  for (const char* name : {"processor", "cores", "memory", "/dev/shm", "disk", "io_uring", "clock", "huge pages"})
    EXPECT_NE(find(report, "machine", name)["value"], "");
  for (const char* name : {"locked memory", "open files", "processes", "address space"})
    EXPECT_NE(find(report, "limits", name)["value"], "");
}

TEST(Doctor, WhatDoesNotWorkHasARemedyAndIsTheExitCode) {
  const CommandResult result =
      Command({"/bin/sh", "-c", std::string("ulimit -n 10; exec ") + tessera_program() + " doctor --json"})
          .wait(std::chrono::minutes(3));
  EXPECT_EQ(result.exit_code, 1) << result.err << result.out;
  const json report = json::parse(result.out);
  EXPECT_EQ(report["works"], false);
  const json failed = find(report, "communicators", "gloo");
  EXPECT_EQ(failed["level"], "failure");
  EXPECT_NE(failed["remedy"], "");
}

TEST(Doctor, NamesTheFunctionThatHangs) {
  const TempFolder folder;
  std::filesystem::copy(binary_dir("tests/bad_plugins/hostile-comm.so"), folder.path("hostile-comm.so"));
  const CommandResult result = Command({tessera_program(), "doctor", "--json", "--plugin-dir=" + folder.path()},
                                       {{"TESSERA_TEST_FAULT", "caps-hang"}})
                                   .wait(std::chrono::minutes(3));
  EXPECT_EQ(result.exit_code, 0) << result.err << result.out;
  const std::string value = find(json::parse(result.out), "communicators", "hostile")["value"];
  EXPECT_NE(value.find("has not returned from its function caps within 10000 ms"), std::string::npos) << value;
}

TEST(Doctor, NamesTheCauseWhereAJobOfSeveralRanksFailed) {
  host::ChildResult child;
  child.exit_code = 1;
  child.err =
      "[12:00:00] info: one\ntessera: the job failed before step 1 was done\n"
      "  cause:        rank 1 (process 7 on vm): [a-device] local rank 1 has no GPU\n  ended when told to: rank 0\n";
  EXPECT_EQ(child.reason(), "rank 1 (process 7 on vm): [a-device] local rank 1 has no GPU");
  child.err = "tessera: the job failed before step 1 was done\n  cause:";
  EXPECT_EQ(child.reason(), "exit code 1");
  child.err = "[12:00:00] info: one\ntessera: error: no device";
  EXPECT_EQ(child.reason(), "no device");
  child.err = "";
  EXPECT_EQ(child.reason(), "exit code 1");
}

TEST(Doctor, ReachesItsPeersAndComparesClocks) {
  const std::string port = std::to_string(free_port()), closed = std::to_string(free_port());
  Command listening(tessera({"doctor", "--listen=" + port}));
  ASSERT_TRUE(listening.wait_for("answering doctors on port " + port));
  const json report =
      doctor({"--peers=127.0.0.1:" + port + ",127.0.0.1:" + closed + ",[::1]:" + closed + ",no-such-host.invalid"}, 0);
  const json reached = find(report, "peers", "127.0.0.1:" + port);
  EXPECT_EQ(reached["level"], "ok");
  EXPECT_NE(reached["value"].get<std::string>().find("clock"), std::string::npos) << reached;
  const json refused = find(report, "peers", "127.0.0.1:" + closed);
  EXPECT_TRUE(find(report, "peers", "[::1]:" + closed).is_object());
  EXPECT_EQ(refused["level"], "failure");
  EXPECT_NE(refused["remedy"].get<std::string>().find("tessera doctor --listen " + closed), std::string::npos);
  EXPECT_EQ(find(report, "peers", "no-such-host.invalid")["level"], "failure");
}

// As port scanners do.
TEST(Doctor, StrangersThatAskNothingKeepNobodyWaiting) {
  const host::Answerer answerer(0);
  std::vector<host::Socket> strangers;
  for (int i = 0; i < 100; ++i)
    strangers.push_back(host::Socket::connect("127.0.0.1", answerer.port(), host::deadline_in(kPatienceMs)));
  const host::Finding reached = host::examine_peer({"127.0.0.1", answerer.port()}, "peers");
  EXPECT_EQ(reached.level, host::Finding::Level::ok) << reached.value;
}

TEST(Doctor, RanksOfALauncherReachOneAnother) {
  const int port = free_port() - 1;
  Command first(tessera({"doctor"}), torchrun_variables(0, 2, port));
  Command second(tessera({"doctor"}), torchrun_variables(1, 2, port));
  const CommandResult report = first.wait(std::chrono::minutes(3)), silent = second.wait();
  EXPECT_EQ(report.exit_code, 0) << report.err << report.out;
  EXPECT_EQ(silent.exit_code, 0) << silent.err;
  EXPECT_EQ(silent.out, "");
  for (const char* words : {"reached from rank 0\n", "reached from rank 1\n", "rank 1, ", "rank 0, ", "reached, "})
    EXPECT_NE(report.out.find(words), std::string::npos) << words << " is missing in\n" << report.out;
}

}  // namespace
}  // namespace tessera::testing
