// What no action shows: numbers that kernels take from the configuration, the layout that homes were held against, and
// buffers that the host knows by name. For example
//
//     rank 0: its step program has max_norm 0.005, where the job has 0.01
//
// Cost: linear in the buffers and the entries of the layout.

#include "verify/verify_common.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/concat.h"
#include "program/text_words.h"

namespace tessera::host {
namespace {

bool equal(const LayoutEntry& a, const LayoutEntry& b) {
  const auto fields = [](const LayoutEntry& e) {
    return std::tie(e.parameter, e.axis, e.roles, e.kind, e.dim, e.parts, e.blocks, e.coordinates, e.padded_size,
                    e.name);
  };
  return fields(a) == fields(b);
}

class CommonChecker {
 public:
  CommonChecker(const Program& program, DiagnosticList& diagnostics) : program_(program), diagnostics_(diagnostics) {}

  void check_config(const StepConfig& job) {
    const StepConfig& own = program_.shape;
    const auto expect = [&](const char* name, auto has, auto wanted) {
      if (has != wanted) report(concat("has ", name, " ", has, ", where the job has ", wanted));
    };
    expect("micro_batches", own.num_micro_batches, job.num_micro_batches);
    expect("reduce_every", own.reduce_every, job.reduce_every);
    expect("dtype", dtype_name(own.dtype), dtype_name(job.dtype));
    expect("reduce_dtype", dtype_name(own.reduce_dtype), dtype_name(job.reduce_dtype));
    expect("optimizer", own.optimizer, job.optimizer);
    expect("beta1", own.beta1, job.beta1);
    expect("beta2", own.beta2, job.beta2);
    expect("epsilon", own.epsilon, job.epsilon);
    expect("weight_decay", own.weight_decay, job.weight_decay);
    expect("max_norm", own.max_norm, job.max_norm);
  }

  void check_layout(const Layout& first) {
    if (!std::ranges::equal(program_.layout, first, equal))
      report("has another layout than the init program of rank 0");
  }

  void check_persistent(const Program& init) {
    std::map<Key, const Buffer*> own;
    for (const Buffer& buffer : program_.buffers)
      own.emplace(key_of(buffer), &buffer);
    for (const Buffer& buffer : init.buffers) {
      if (!buffer.persistent || buffer.kind == TSR_BUFFER_PLUGIN) continue;
      const auto found = own.find(key_of(buffer));
      const Buffer* same = found == own.end() ? nullptr : found->second;
      if (!same || !same->persistent || same->dtype != buffer.dtype || same->memory != buffer.memory ||
          same->num_elements != buffer.num_elements)
        report(concat("does not keep ", buffer_text(buffer), " as the init program does"));
    }
  }

 private:
  using Key = std::pair<uint32_t, std::string_view>;
  static Key key_of(const Buffer& buffer) { return {buffer.kind, buffer.name}; }
  void report(const std::string& what) {
    diagnostics_.add(concat("rank ", program_.mesh->rank(program_.coordinates), ": its ",
                            text_of(kPurposeNames, program_.purpose, "purpose"), " program ", what));
  }

  const Program& program_;
  DiagnosticList& diagnostics_;
};

}  // namespace

void verify_common(const Program& program, const Program& init, const Program& first, const StepConfig& config,
                   DiagnosticList& diagnostics) {
  CommonChecker checker(program, diagnostics);
  checker.check_config(config);
  checker.check_layout(first.layout);
  checker.check_persistent(init);
}

}  // namespace tessera::host
