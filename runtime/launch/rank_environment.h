// Who this process is among the ranks of its job, from the environment its launcher made.
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

struct RankEnvironment {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;  ///< among the ranks of this machine
  int local_size = 1;  ///< ranks on this machine
  std::string source;  ///< who said so, for the log: "torchrun (RANK, WORLD_SIZE)", "no launcher"
  std::string store_host;
  uint16_t store_port = 0;    ///< 0: a world of one rank needs no store
  std::string secret;         ///< the job's
  bool has_secret = false;    ///< false: made from the job's name, so it keeps jobs apart but nobody out who knows that
  bool serves_store = false;  ///< this rank must run the store's server

  /// All ranks are on this machine: the launcher says so, or the address where they meet is a loopback address.
  bool is_local() const;
};

/// Reads, first found wins:
///   TESSERA_RANK, TESSERA_WORLD_SIZE [TESSERA_LOCAL_RANK, TESSERA_LOCAL_SIZE]   our launcher, or by hand
///   RANK, WORLD_SIZE [LOCAL_RANK, LOCAL_WORLD_SIZE]                             torchrun and its kin
///   SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID, ...                      srun
///   OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE, ...                             Open MPI
///   PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS                        MPICH, Intel MPI
/// Two of them that differ are a UsageError that names both variables, except below TESSERA_RANK and below torchrun
/// itself (TORCHELASTIC_RUN_ID), which may run inside srun or mpirun. So is one variable of a pair without the other,
/// and a rank outside its world.
///
/// The store: our launcher runs it (TESSERA_STORE_SERVED=1), else rank 0, at TESSERA_STORE_ADDR=host:port if set, else
/// MASTER_ADDR and MASTER_PORT + 1 (MASTER_PORT itself may be torchrun's), else the first host of the Slurm step and
/// 29500 + job % 1000, else, when all ranks are on one machine, loopback and a port made from the job's name. The
/// secret is TESSERA_JOB_SECRET (not empty), else the random key that Open MPI gives all ranks of a job, else made from
/// the job's name and address. `parent_pid` names the job where nothing else does.
RankEnvironment read_rank_environment(const Environment& environment, int parent_pid);

/// Throws UsageError when ranks of several machines would meet without a secret that strangers cannot guess, unless
/// `insecure` (--insecure); then rank 0 warns.
void require_secret(const RankEnvironment& environment, bool insecure, const Log& log);

/// How many ranks this process must start: 1 when it is a rank itself. `requested_world` is config/axes.h's. Throws
/// UsageError when the flags and the launcher name different worlds.
int ranks_to_start(int requested_world, const RankEnvironment& environment);

/// The first host of a Slurm node list: "gnode[10,20-25],other" gives "gnode10".
std::string first_slurm_host(const std::string& node_list);
/// The tasks on node `node` by SLURM_STEP_TASKS_PER_NODE: "4(x2),1" is 4, 4, 1. Throws UsageError.
int slurm_tasks_on_node(const std::string& tasks_per_node, int node);

}  // namespace tessera::host
