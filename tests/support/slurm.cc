#include "support/slurm.h"

#include <pwd.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <vector>

#include "support/free_port.h"
#include "support/processes.h"

namespace tessera::testing {
namespace {

// The first is an address, so that it can be reached by its name; Slurm takes "localhost" for the machine's own name.
constexpr const char* kNodes[] = {"127.0.0.1", "second"};

// Debian's daemons are in /usr/sbin, which is not on every PATH.
std::string found(const std::string& program) {
  for (const char* folder : {"/usr/bin/", "/usr/sbin/"})
    if (::access((folder + program).c_str(), X_OK) == 0) return folder + program;
  return "";
}

std::string user_name() {
  const passwd* user = ::getpwuid(::geteuid());
  return user ? user->pw_name : "root";
}

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace

SlurmCluster::SlurmCluster() {
  try {
    obstacle_ = find_obstacle();
  } catch (const std::exception& e) {
    obstacle_ = e.what();
  }
}

SlurmCluster::~SlurmCluster() {
  if (obstacle_.empty()) run_command({"scancel", "--full", "--user=" + user_name()}, environment());
  for (auto daemon = daemons_.rbegin(); daemon != daemons_.rend(); ++daemon)
    ::kill(daemon->pid(), SIGTERM);
  for (auto daemon = daemons_.rbegin(); daemon != daemons_.rend(); ++daemon)
    eventually([&] { return !is_running(daemon->pid()); });
}

std::string SlurmCluster::find_obstacle() {
  for (const char* program : {"munged", "slurmctld", "slurmd", "srun", "sbatch", "scancel", "sinfo"})
    if (found(program).empty())
      return std::string("needs ") + program +
             ", which is not installed (Debian: munge, slurmctld, slurmd, slurm-client)";
  namespace fs = std::filesystem;  // munged wants a socket that every user can reach; the key is the owner's alone
  fs::permissions(folder_.path(), fs::perms::owner_all | fs::perms::group_exec | fs::perms::others_exec);
  write_configuration();
  daemons_.emplace_back(
      std::vector<std::string>{found("munged"), "--foreground", "--socket=" + folder_.path("munge"),
                               "--key-file=" + folder_.path("key"), "--pid-file=" + folder_.path("munge.pid"),
                               "--log-file=" + folder_.path("munge.log"), "--seed-file=" + folder_.path("munge.seed")});
  const Command& munged = daemons_.back();
  if (!eventually([&] { return ::access(folder_.path("munge").c_str(), F_OK) == 0 || !is_running(munged.pid()); }) ||
      !is_running(munged.pid()))
    return "munged cannot run here: " + munged.err();
  daemons_.emplace_back(std::vector<std::string>{found("slurmctld"), "-D", "-i"}, environment());
  for (const char* node : kNodes)
    daemons_.emplace_back(std::vector<std::string>{found("slurmd"), "-D", "-N", node}, environment());
  const auto all_run = [&] {
    return std::ranges::all_of(daemons_, [](const Command& daemon) { return is_running(daemon.pid()); });
  };
  eventually([&] { return nodes_are_idle() || !all_run(); });
  if (all_run() && nodes_are_idle()) return "";
  std::string said;
  for (const Command& daemon : daemons_)
    said += daemon.err();
  return "Slurm's daemons cannot run here: " + said;
}

void SlurmCluster::write_configuration() const {
  std::random_device random;
  std::string key;
  while (key.size() < 128)
    key += static_cast<char>(random());
  std::filesystem::permissions(folder_.write("key", key), std::filesystem::perms::owner_read);
  std::string text = "ClusterName=tessera\nSlurmctldHost=" + host_name() + "(127.0.0.1)\n" +
                     "SlurmctldPort=" + std::to_string(free_port()) +
                     "\nAuthType=auth/munge\nAuthInfo=socket=" + folder_.path("munge") + "\nCredType=cred/munge\n" +
                     "SlurmUser=" + user_name() + "\nSlurmdUser=" + user_name() +
                     "\nStateSaveLocation=" + folder_.path("state") + "\nSlurmdSpoolDir=" + folder_.path("spool-%n") +
                     "\nSlurmctldPidFile=" + folder_.path("slurmctld.pid") +
                     "\nSlurmdPidFile=" + folder_.path("slurmd-%n.pid") + R"(
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
KillWait=30
)";
  for (const char* node : kNodes)
    text += std::string("NodeName=") + node + " NodeAddr=127.0.0.1 NodeHostname=" + host_name() +
            " Port=" + std::to_string(free_port()) + " CPUs=4\n";
  folder_.write("slurm.conf", text + "PartitionName=all Nodes=ALL Default=YES State=UP\n");
  std::filesystem::create_directory(folder_.path("state"));
}

bool SlurmCluster::nodes_are_idle() const {
  const CommandResult result = run_command({"sinfo", "--noheader", "--Node", "--format=%T"}, environment());
  return result.exit_code == 0 && result.out == "idle\nidle\n";
}

}  // namespace tessera::testing
