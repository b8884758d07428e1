#include "train/agree.h"

#include <chrono>
#include <thread>

#include "program/text.h"
#include "tessera/error.hpp"

namespace tessera {

void agree_on_job(const Job&, const TokenSource&, const RankPlace&, int) {}

void agree_on_programs(const CompileInput&, const RankPrograms&, const RankPlace&, int64_t) {}

void wait_for_all(const RankPlace& place, int num_ranks, int64_t timeout_ms) {
  if (place.store->add("end/arrived", 1) == num_ranks) place.store->set("end/all", "1");
  place.store->get("end/all", timeout_ms);
}

}  // namespace tessera
