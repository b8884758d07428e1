// `tessera doctor`: checks this machine. Anything that may crash or hang runs in a process of its own, with a time
// limit. Under a launcher every rank tries to reach every other; rank 0 reports for all. They meet in the job's store:
//
//     rank r    sets doctor/place/r      "40123 10.0.0.7 127.0.0.1": its port and addresses
//               gets doctor/place/s      of every other rank, and connects to the first of these that answers
//               sets doctor/found/r/i/   name, level, value, remedy of its i-th finding
//     barrier
//     rank 0    gets all findings
//     barrier                            until then rank 0 may still ask the store
//
// That a rank cannot be reached is a finding, not an error: the report has all pairs.

#include <iostream>

#include "base/concat.h"
#include "base/log.h"
#include "cli/bench/bench_ranks.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "config/text_values.h"
#include "config/usage_error.h"
#include "doctor/finding.h"
#include "doctor/reach.h"
#include "guard/supervisor.h"
#include "launch/process_setup.h"
#include "train/consistency.h"

namespace tessera::host {
namespace {

constexpr CommandFlag kFlags[] = {
    {"peers", "HOST[:PORT],...", "connect to these machines, and compare clocks where tessera doctor --listen runs"},
    {"listen", "PORT",
     "only answer tessera doctor --peers of other machines, until interrupted; the usual port is 29400"},
    {"plugin-dir", "FOLDER", "search this folder for plugins too"},
    {"insecure", "", "let ranks on several machines connect without TESSERA_JOB_SECRET; for trusted networks only"},
    {"json", "", "print one JSON object"},
};
constexpr CommandSyntax kSyntax = {
    "usage: tessera doctor [--peers HOST[:PORT],...] [--json]",
    "Checks this machine: processor, memory, limits, plugins, devices, communicators, clock and which machines it can "
    "reach, with one sentence on how to fix each problem. Under a launcher every rank connects to every other. The "
    "exit code is 0 if training on the CPU works, else 1.",
    kFlags, 0, "tessera doctor --peers node1,node2"};

constexpr int64_t kMeetMs = 60'000;

void check_only_listens(const CommandLine& line) {
  for (const CommandFlag& flag : kFlags)
    if (flag.name != "listen" && line.has(flag.name))
      throw UsageError(concat(
          "--", flag.name, " has no effect with --listen, which only answers other machines; leave one of them out"));
}

int listen_for_others(uint16_t port) {
  announce_ending_signals();
  const Answerer answerer(port);
  Log().info("answering doctors on port ", answerer.port());
  for (;;)
    ::pause();
}

/// How the others reach this rank: "PORT ADDRESS ADDRESS ...".
std::string own_place(uint16_t port) {
  std::string place = std::to_string(port);
  for (const std::string& address : own_addresses())
    place += " " + address;
  return place;
}

/// The rank counts as reached if one of its addresses is.
Finding examine_rank(int rank, const std::string& place, const std::string& section) {
  const auto words = split(place, ' ');
  const auto port = static_cast<uint16_t>(parse_integer("peers", words[0], 1, 65535));
  Finding finding{section, "", Finding::Level::failure, "has no address",
                  "Configure a network interface on that machine."};
  for (size_t i = 1; i < words.size(); ++i) {
    finding = examine_peer({std::string(words[i]), port}, section);
    if (finding.level != Finding::Level::failure) break;
  }
  finding.name = concat("rank ", rank, ", ", finding.name);
  return finding;
}

/// This rank's findings about the others, as lines in the store; rank 0 collects those of all ranks.
Findings examine_ranks(const RankInfo& info, int num_ranks) {
  const Log log(LogLevel::warning, info.rank, num_ranks);
  const Answerer answerer(0);
  info.store->set(concat("doctor/place/", info.rank), own_place(answerer.port()));
  Findings own;
  // Each begins with the rank after it: otherwise all would ask rank 0 at once.
  for (int step = 1; step < num_ranks; ++step) {
    const int other = (info.rank + step) % num_ranks;
    own.push_back(examine_rank(other, info.store->get(concat("doctor/place/", other), kMeetMs),
                               concat("reached from rank ", info.rank)));
  }
  for (size_t i = 0; i < own.size(); ++i) {
    const std::string key = concat("doctor/found/", info.rank, "/", i, "/");
    info.store->set(key + "name", own[i].name);
    info.store->set(key + "level", std::to_string(static_cast<int>(own[i].level)));
    info.store->set(key + "value", own[i].value);
    info.store->set(key + "remedy", own[i].remedy);
  }
  barrier(info, num_ranks, "try to reach the other ranks", num_ranks * kMeetMs, log);
  Findings all;
  for (int rank = 0; info.rank == 0 && rank < num_ranks; ++rank)
    for (int i = 0; i + 1 < num_ranks; ++i) {
      const auto of = [&](const char* what) {
        return info.store->get(concat("doctor/found/", rank, "/", i, "/", what), kMeetMs);
      };
      all.push_back({concat("reached from rank ", rank), of("name"),
                     static_cast<Finding::Level>(parse_integer("level", of("level"), 0, 3)), of("value"),
                     of("remedy")});
    }
  barrier(info, num_ranks, "end", kMeetMs, log);
  return all;
}

/// All checks of this machine itself.
Findings examine_here(const CommandLine& line, bool& works) {
  Findings findings = examine_machine();
  const auto add = [&](Findings&& more) { std::ranges::move(more, std::back_inserter(findings)); };
  add(examine_limits());
  add(examine_plugins(line.has("plugin-dir") ? std::vector{line.value("plugin-dir")} : std::vector<std::string>(),
                      works));
  return findings;
}

int report(const Findings& findings, bool works, bool as_json) {
  if (as_json)
    std::cout << findings_json(findings, works);
  else
    std::cout << findings_text(findings) << '\n'
              << (works ? "training on the CPU works here\n" : "training on the CPU does not work here\n");
  return works ? 0 : 1;
}

}  // namespace

const CommandSyntax& doctor_syntax() {
  return kSyntax;
}

int doctor_command(std::span<const std::string> arguments, const std::vector<std::string>& argv) {
  const CommandLine line(kSyntax, arguments);
  if (line.wants_help()) {
    std::cout << help_of(kSyntax);
    return 0;
  }
  if (line.has("listen")) {
    check_only_listens(line);
    return listen_for_others(static_cast<uint16_t>(line.integer("listen", kDoctorPort, 1, 65535)));
  }
  const std::vector<Peer> peers = line.has("peers") ? parse_peers(line.value("peers")) : std::vector<Peer>();
  const RankEnvironment environment = read_rank_environment(process_environment(), starter_of_program());
  bool works = false;
  Findings findings;
  if (environment.rank == 0) findings = examine_here(line, works);
  for (const Peer& peer : peers)
    findings.push_back(examine_peer(peer, "peers"));
  if (environment.world_size == 1) return report(findings, works, line.has("json"));
  BenchRanks ranks{environment.world_size, false, line.has("insecure")};
  ranks.argv = &argv;
  ranks.start_timeout_ms = 10 * kMeetMs;  // rank 0 examines its machine first
  int exit_code = 0;
  const Log log(LogLevel::warning, environment.rank, environment.world_size);
  const int ended = run_bench_ranks(ranks, environment, log, [&](const RankInfo& info) {
    std::ranges::move(examine_ranks(info, environment.world_size), std::back_inserter(findings));
    if (info.rank == 0) exit_code = report(findings, works, line.has("json"));
  });
  return ended != 0 ? ended : exit_code;
}

}  // namespace tessera::host
