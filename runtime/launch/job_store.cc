#include "launch/job_store.h"

namespace tessera {

JobStore join_job(const RankEnvironment& environment, int64_t timeout_ms, const Log& log) {
  JobStore job;
  if (environment.world_size == 1) {
    job.store = std::make_shared<MemoryStore>();
    return job;
  }
  if (environment.serves_store) {
    const char* address = environment.is_local() ? "127.0.0.1" : "0.0.0.0";
    if (!environment.is_local() && !environment.has_secret)
      log.warning("TESSERA_JOB_SECRET is not set, so whoever reaches port ", environment.store_port,
                  " of this machine can join the job; set it on all ranks");
    job.server = std::make_unique<TcpStoreServer>(address, environment.store_port, environment.secret);
  }
  job.store =
      std::make_shared<TcpStoreClient>(environment.store_host, environment.store_port, environment.secret, timeout_ms);
  return job;
}

}  // namespace tessera
