// What `tessera doctor` finds out, one line each. The checks are implemented in machine.cc, limits.cc and plugins.cc,
// the texts in report.cc.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::host {

struct Finding {
  /// note: a fact, possibly intended; warning: something that Tessera can use is missing or slow; failure: something
  /// does not work.
  enum class Level { ok, note, warning, failure };

  std::string section;  ///< "machine", "limits", "devices", ...
  std::string name;     ///< "/dev/shm", "gloo"
  Level level = Level::ok;
  std::string value;   ///< what was found, as text
  std::string remedy;  ///< one sentence; empty where nothing need be done
};
using Findings = std::vector<Finding>;

/// Aligned lines in their sections, with the remedies below.
std::string findings_text(const Findings& findings);
/// One object: "works", and "findings".
std::string findings_json(const Findings& findings, bool works);

/// The processor, memory, cgroup, pages, clock, shared memory, disk, io_uring. All are quick.
Findings examine_machine();
/// What the process may use: memory locks, files, processes, memory.
Findings examine_limits();
/// Each plugin in the folders, loaded in a process of its own; each device opened and tested, and each communicator
/// between two ranks on this machine, in processes of their own that have a limit of time. `works` becomes false
/// unless the default device and the default communicator do.
Findings examine_plugins(const std::vector<std::string>& plugin_dirs, bool& works);

}  // namespace tessera::host
