// Programs of whole jobs with one fault each, of which one rule of verify/model or verify_common must say so.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "mutation_job.h"
#include "program_edits.h"
#include "support/expect_diagnostic.h"
#include "support/paths.h"
#include "verify/diagnostics.h"

namespace tessera::testing {

struct JobFlags {
  int num_ranks;
  std::vector<std::string> flags;
};

inline const std::map<std::string, JobFlags>& jobs() {
  static const std::map<std::string, JobFlags> all = {
      {"one", {1, {"--grad-accum=2"}}},
      {"every", {1, {"--grad-accum=2", "--reduce-every=micro-batch"}}},
      {"frozen", {1, {"--freeze=wte.*,wpe.*,h.0.*"}}},
      {"fp16", {1, {"--dtype=fp16"}}},
      {"ddp", {2, {"--mesh=dp=2", "--strategy=dp=ddp"}}},
      {"ddp_in_buckets", {2, {"--mesh=dp=2", "--strategy=dp=ddp", "--ddp.bucket-mb=0.02"}}},
      {"ddp_of_three", {3, {"--mesh=dp=3", "--strategy=dp=ddp"}}},
      {"ddp_of_four", {4, {"--mesh=dp=4", "--strategy=dp=ddp"}}},
      {"ddp_of_twenty", {20, {"--mesh=dp=20", "--strategy=dp=ddp"}}},
      {"fsdp", {2, {"--mesh=dp=2", "--strategy=dp=fsdp"}}},
      {"fsdp_of_twenty", {20, {"--mesh=dp=20", "--strategy=dp=fsdp"}}},
      {"fsdp_of_twenty_twice", {20, {"--mesh=dp=20", "--strategy=dp=fsdp", "--grad-accum=2"}}},
      {"each_in_bf16",
       {2,
        {"--mesh=dp=2", "--strategy=dp=ddp", "--reduce-dtype=bf16", "--reduce-every=micro-batch", "--grad-accum=3"}}},
      {"whole_outside", {4, {"--mesh=rep=2,dp=2", "--strategy=rep=fsdp,dp=ddp", "--fsdp.sharding=no_shard"}}},
      {"frozen_fsdp", {2, {"--mesh=dp=2", "--strategy=dp=fsdp", "--freeze=wte.*,wpe.*,h.0.*"}}},
      {"zero3", {2, {"--mesh=dp=2", "--strategy=dp=zero3"}}},
      {"tensor", {2, {"--mesh=tp=2", "--strategy=tp=tensor"}}},
      {"ring", {2, {"--mesh=tp=2", "--strategy=tp=ring", "--plugin-dir=" + binary_dir("tests/mutation_strategies")}}},
      {"rows", {4, {"--mesh=dp=2,tp=2", "--strategy=dp=ddp,tp=tensor", "--tensor.sequence-parallel=true"}}},
      {"rows_with_a_policy",
       {4,
        {"--mesh=dp=2,tp=2", "--strategy=dp=ddp,tp=tensor", "--tensor.sequence-parallel=true",
         "--offload=optimizer-state"}}},
      {"tensor_with_a_policy", {4, {"--mesh=dp=2,tp=2", "--strategy=dp=ddp,tp=tensor", "--offload=optimizer-state"}}},
      {"stages_in_rows",
       {4,
        {"--mesh=pp=2,tp=2", "--strategy=pp=pipeline,tp=tensor", "--tensor.sequence-parallel=true",
         "--pipeline.cut=even"}}},
      {"ddp_twice", {4, {"--mesh=x=2,dp=2", "--strategy=x=ddp,dp=ddp"}}},
      {"ddp_twice_in_bf16", {4, {"--mesh=x=2,dp=2", "--strategy=x=ddp,dp=ddp", "--reduce-dtype=bf16"}}},
      {"ddp_in_bf16", {2, {"--mesh=dp=2", "--strategy=dp=ddp", "--reduce-dtype=bf16"}}},
      {"local_sgd",
       {2,
        {"--mesh=dp=2", "--strategy=dp=local-sgd", "--local-sgd.every=1",
         "--plugin-dir=" + binary_dir("tests/mutation_strategies")}}},
      {"pipeline_and_ddp", {4, {"--mesh=pp=2,dp=2", "--strategy=pp=pipeline,dp=ddp", "--grad-accum=2"}}},
      {"ddp_in_fp16", {2, {"--mesh=dp=2", "--strategy=dp=ddp", "--reduce-dtype=fp16"}}},
      {"local_sgd_of_slices",
       {6,
        {"--mesh=x=2,dp=3", "--strategy=x=local-sgd,dp=fsdp", "--fsdp.sharding=optimizer_only", "--local-sgd.every=1",
         "--plugin-dir=" + binary_dir("tests/mutation_strategies")}}},
      {"local_sgd_in_stages",
       {4,
        {"--mesh=pp=2,x=2", "--strategy=pp=pipeline,x=local-sgd", "--local-sgd.every=1", "--grad-accum=2",
         "--plugin-dir=" + binary_dir("tests/mutation_strategies")}}},
      {"quantized_in_stages",
       {4,
        {"--mesh=pp=2,x=2", "--strategy=pp=pipeline,x=quantized", "--grad-accum=2",
         "--plugin-dir=" + binary_dir("tests/quantized_strategy")}}},
      {"quantized",
       {2, {"--mesh=dp=2", "--strategy=dp=quantized", "--plugin-dir=" + binary_dir("tests/quantized_strategy")}}},
      {"all",
       {8,
        {"--mesh=pp=2,dp=2,tp=2", "--strategy=pp=pipeline,dp=fsdp,tp=tensor", "--pipeline.cut=even",
         "--grad-accum=2"}}}};
  return all;
}

inline const MutationJob& job(const std::string& name) {
  static std::map<std::string, MutationJob> made;
  const auto found = made.find(name);
  if (found != made.end()) return found->second;
  std::vector<std::string> flags = {"--model=" + source_dir("tests/golden/programs/two-blocks"), "--batch-size=1",
                                    "--seq-len=8", "--clip=0.01"};
  const JobFlags& own = jobs().at(name);
  flags.insert(flags.end(), own.flags.begin(), own.flags.end());
  return made.try_emplace(name, std::move(flags), own.num_ranks).first->second;
}

inline constexpr uint32_t kSource = TSR_SLOT(TSR_ROLE_SOURCE, 0), kDestination = TSR_SLOT(TSR_ROLE_DESTINATION, 0),
                          kOutput = TSR_SLOT(TSR_ROLE_OUTPUT, 0), kInput = TSR_SLOT(TSR_ROLE_INPUT, 0),
                          kSaved = TSR_SLOT(TSR_ROLE_SAVED, 0), kFirstState = TSR_SLOT(TSR_ROLE_STATE, 0),
                          kLossScaleSlot = TSR_SLOT(TSR_ROLE_SCALAR, TSR_SCALAR_LOSS_SCALE),
                          kRate = TSR_SLOT(TSR_ROLE_SCALAR, TSR_SCALAR_LR),
                          kWeightGradient = TSR_SLOT(TSR_ROLE_GRADIENT, 0),
                          kBiasGradient = TSR_SLOT(TSR_ROLE_GRADIENT, 1);
inline constexpr std::string_view kWeight = "h.0.attn.c_attn.weight";

struct Fault {
  const char* name;
  const char* job;
  int rank;
  std::function<void(Program&)> make;
  const char* finding;
};
inline void PrintTo(const Fault& fault, std::ostream* out) {
  *out << fault.name;
}

/// Its test is in model_rules_test.cc.
class ModelRule : public ::testing::TestWithParam<Fault> {};

inline std::string name_of(const ::testing::TestParamInfo<Fault>& info) {
  return info.param.name;
}

}  // namespace tessera::testing
