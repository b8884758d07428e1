// Which rank of which job this process is, from the environment that its launcher set. Implemented in
// rank_environment.cc, slurm.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/log.h"

namespace tessera::host {

/// The value of an environment variable; nullopt when it is not set.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;
/// This process's.
Environment process_environment();

/// RankEnvironment::source where no variable names a rank.
inline constexpr const char* kNoLauncher = "no launcher";

struct RankEnvironment {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;  ///< among the ranks of this machine
  int local_size = 1;  ///< ranks on this machine
  std::string source;  ///< where the values come from: "torchrun (RANK, WORLD_SIZE)", "no launcher"
  std::string store_host;
  uint16_t store_port = 0;    ///< 0: a world of one rank needs no store
  std::string secret;         ///< of the job
  bool has_secret = false;    ///< false: `secret` is made from the job's name: it separates jobs but can be guessed
  bool serves_store = false;  ///< this rank must run the store's server

  /// All ranks are on this machine: by the launcher's numbers, or because they meet at a loopback address.
  bool is_local() const;
};

/// Reads these variables; the first pair that is set counts:
///   TESSERA_RANK, TESSERA_WORLD_SIZE [TESSERA_LOCAL_RANK, TESSERA_LOCAL_SIZE]   our launcher, or by hand
///   RANK, WORLD_SIZE [LOCAL_RANK, LOCAL_WORLD_SIZE]                             torchrun and its kin
///   SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID, ...                      srun
///   OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE, ...                             Open MPI
///   PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS                        MPICH, Intel MPI
/// Throws UsageError, naming the variables, for pairs that differ (except after TESSERA_RANK and after torchrun's own,
/// which TORCHELASTIC_RUN_ID marks: both may run inside srun or mpirun), for half a pair, and for a rank outside its
/// world.
///
/// The store is served by our launcher (TESSERA_STORE_SERVED=1), else by rank 0. Its address is TESSERA_STORE_ADDR=
/// host:port if set, else MASTER_ADDR and MASTER_PORT + 1 (MASTER_PORT itself may be torchrun's), else the first host
/// of the Slurm step and 29500 + job % 1000, else, when all ranks are on one machine, loopback and a port made from the
/// job's name. The secret is TESSERA_JOB_SECRET (not empty), else the random key that Open MPI gives all ranks of a
/// job, else made from the job's name and address. `parent_pid` names the job if nothing else does.
RankEnvironment read_rank_environment(const Environment& environment, int parent_pid);

/// This process is a rank that our launcher has started (TESSERA_STORE_SERVED=1).
bool is_started_by_launcher();

/// Why one rank is not what the Slurm job has tasks for: it was started by the batch script, without srun. Empty: it is
/// in a step, or the job has one task.
std::string missing_srun(const Environment& environment);

/// Throws UsageError when ranks on several machines would meet without a secret that strangers cannot guess. With
/// `insecure` (--insecure) rank 0 only warns.
void require_secret(const RankEnvironment& environment, bool insecure, const Log& log);

/// How many ranks this process must start; 1 when it is a rank itself. `requested_world` is that of config/axes.h.
/// Throws UsageError when flags and launcher ask for different numbers of ranks.
int ranks_to_start(int requested_world, const RankEnvironment& environment);

/// The first host of a Slurm node list: "gnode[10,20-25],other" gives "gnode10".
std::string first_slurm_host(const std::string& node_list);
/// The number of tasks on node `node`, by SLURM_STEP_TASKS_PER_NODE: "4(x2),1" means 4, 4, 1. Throws UsageError.
int slurm_tasks_on_node(const std::string& tasks_per_node, int node);

}  // namespace tessera::host
