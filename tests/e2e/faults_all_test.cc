// What faults_test samples, at fifty moments for each rank.
#include "e2e/faults.h"

namespace tessera::testing {
namespace {

TEST(FaultsAll, AKilledRankAtFiftyMoments) {
  kill_at(50);
}

TEST(FaultsAll, AStoppedRankAtFiftyMoments) {
  stop_at(50);
}

}  // namespace
}  // namespace tessera::testing
