#include "support/hosts.h"

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "support/command.h"

namespace tessera::testing {
namespace {

// iproute2 puts the files of this folder in the place of /etc's for what it runs in a namespace.
const std::filesystem::path kFiles = "/etc/netns";

bool runs(const std::vector<std::string>& argv) {
  return run_command(argv).exit_code == 0;
}

std::string new_prefix() {
  static std::atomic<int> count{0};
  return "t" + std::to_string(getpid()) + "-" + std::to_string(count++) + "-";
}

}  // namespace

void must_run(const std::vector<std::string>& argv) {
  const CommandResult result = run_command(argv);
  std::string text;
  for (const std::string& word : argv)
    text += word + " ";
  if (result.exit_code != 0) throw std::runtime_error(text + "failed: " + result.err);
}

std::string Hosts::obstacle() {
  if (geteuid() != 0) return "needs root, for network namespaces";
  if (!runs({"ip", "-V"})) return "needs the ip command, which is not installed (Debian: iproute2)";
  const std::string probe = new_prefix() + "probe";
  const bool is_possible =
      runs({"ip", "netns", "add", probe}) &&
      runs({"ip", "-n", probe, "link", "add", "name", "hub", "type", "bridge"}) &&
      runs({"ip", "-n", probe, "link", "add", "name", "cable", "type", "veth", "peer", "name", "port"});
  runs({"ip", "netns", "del", probe});
  return is_possible ? "" : "needs network namespaces with bridges, which this system refuses";
}

Hosts::Hosts(int num_hosts) : prefix_(new_prefix()), num_hosts_(num_hosts) {
  const std::string hub = prefix_ + "hub";
  must_run({"ip", "netns", "add", hub});
  must_run({"ip", "-n", hub, "link", "add", "name", "bridge", "type", "bridge"});
  must_run({"ip", "-n", hub, "link", "set", "bridge", "up"});
  for (int host = 0; host < num_hosts; ++host)
    add(host);
}

void Hosts::add(int host) const {
  const std::string hub = prefix_ + "hub", name = name_of(host), cable = "cable" + std::to_string(host);
  must_run({"ip", "netns", "add", name});
  must_run({"ip", "-n", name, "link", "set", "lo", "up"});
  must_run(
      {"ip", "-n", hub, "link", "add", "name", cable, "type", "veth", "peer", "name", interface(host), "netns", name});
  must_run({"ip", "-n", hub, "link", "set", cable, "master", "bridge", "up"});
  must_run({"ip", "-n", name, "addr", "add", address(host) + "/24", "dev", interface(host)});
  must_run({"ip", "-n", name, "link", "set", interface(host), "up"});
}

Hosts::~Hosts() {
  for (int host = 0; host < num_hosts_; ++host) {
    runs({"ip", "netns", "del", name_of(host)});
    std::filesystem::remove_all(kFiles / name_of(host));
  }
  runs({"ip", "netns", "del", prefix_ + "hub"});
}

std::vector<std::string> Hosts::on(int host, const std::vector<std::string>& argv) const {
  std::vector<std::string> all = {"ip", "netns", "exec", name_of(host)};
  all.insert(all.end(), argv.begin(), argv.end());
  return all;
}

void Hosts::set_name(int host, const std::string& name, const std::string& address) {
  std::filesystem::create_directories(kFiles / name_of(host));
  std::ofstream(kFiles / name_of(host) / "hosts") << "127.0.0.1 localhost\n" << address << " " << name << "\n";
}

void Hosts::cut_cable(int host) const {
  must_run({"ip", "-n", prefix_ + "hub", "link", "set", "cable" + std::to_string(host), "down"});
}

std::string Hosts::lose_packets(int host) const {
  if (runs({"tc", "-n", name_of(host), "qdisc", "add", "dev", interface(host), "root", "netem", "delay", "3ms", "loss",
            "1%"}))
    return "";
  // Where the kernel has no sch_netem: what arrives is dropped at random.
  const std::string rules =
      "add table ip loss; add chain ip loss in { type filter hook input priority 0; };"
      "add rule ip loss in numgen random mod 100 < 2 drop";
  const CommandResult result = run_command(on(host, {"nft", rules}));
  return result.exit_code == 0 ? "" : "this kernel has neither netem (sch_netem) nor nftables: " + result.err;
}

}  // namespace tessera::testing
