// A Slurm cluster of two nodes on this machine: munged, slurmctld and two slurmd, of this user, with files in a folder
// of its own and ports that were free. Needs Debian's munge, slurmctld, slurmd and slurm-client.
#pragma once

#include <list>
#include <map>
#include <string>

#include "support/command.h"
#include "support/temp_folder.h"

namespace tessera::testing {

class SlurmCluster {
 public:
  /// Starts the daemons and waits until both nodes are idle; obstacle() says when they are not.
  SlurmCluster();
  ~SlurmCluster();

  /// Why the cluster does not run; "" if it does.
  const std::string& obstacle() const { return obstacle_; }
  /// What srun, sbatch and scancel find it by.
  std::map<std::string, std::string> environment() const { return {{"SLURM_CONF", conf()}}; }

 private:
  std::string conf() const { return folder_.path("slurm.conf"); }
  std::string find_obstacle();
  void write_configuration() const;
  bool nodes_are_idle() const;

  TempFolder folder_;
  std::list<Command> daemons_;
  std::string obstacle_;
};

}  // namespace tessera::testing
