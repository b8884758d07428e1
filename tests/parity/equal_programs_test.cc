// One rank of each class is planned for all. Tests which ranks form a class, and that each rank would compile the
// program that was planned for it.
#include <gtest/gtest.h>

#include "support/compiled_job.h"

namespace tessera::testing {
namespace {

/// Without the coordinates in the first line of each.
std::string texts_of(const RankPrograms& programs) {
  std::string text;
  for (const Program* program : programs.all()) {
    Program anywhere = *program;
    anywhere.coordinates.assign(anywhere.coordinates.size(), 0);
    text += print_program(anywhere);
  }
  return text;
}

void expect_classes(const std::vector<std::string>& flags, int num_ranks, size_t num_classes) {
  const CompiledJob job(flags, num_ranks);
  EXPECT_EQ(job.diagnostics(), Diagnostics());
  EXPECT_EQ(job.classes().members().size(), num_classes);
  for (int rank = 0; rank < num_ranks; ++rank)
    EXPECT_EQ(texts_of(job.of(rank)), texts_of(job.compile(rank))) << flags.back() << ", rank " << rank;
}

// An mlp of three layers has six parameters.
const std::string kModel = "--model=mlp:6,5,4,3";

TEST(EqualPrograms, RanksThatOwnNothingAreOneClass) {
  expect_classes({kModel, "--strategy=zero3"}, 9, 7);
  expect_classes({kModel, "--zero3.stage=1", "--strategy=zero3"}, 8, 7);
  expect_classes({kModel, "--strategy=zero3"}, 6, 6);
}

TEST(EqualPrograms, OfEachStageTheSameCoordinates) {
  const std::string strategies = "--strategy=pp=pipeline,dp=zero3";
  // Owners are assigned over all parameters, of which a stage has some: what a rank owns on one stage alone counts.
  expect_classes({kModel, "--grad-accum=2", "--mesh=pp=3,dp=8", strategies}, 24, 3 * 7);
  expect_classes({kModel, "--grad-accum=2", "--mesh=dp=8,pp=3", strategies}, 24, 3 * 7);
}

TEST(EqualPrograms, WhatStrategiesDeclareStays) {
  expect_classes({kModel, "--mesh=a=7,b=2", "--strategy=a=zero3,b=ddp"}, 14, 7);
  expect_classes({kModel, "--strategy=fsdp"}, 4, 1);
  expect_classes({kModel, "--fsdp.sharding=optimizer_only", "--strategy=fsdp"}, 2, 2);
}

}  // namespace
}  // namespace tessera::testing
