// Checks the programs of a whole job, one rank of each class, program by program. A program whose ranks do not fit one
// another is not held against the model: it cannot be walked.

#include "base/concat.h"
#include "base/progress.h"
#include "compile/compile.h"
#include "compile/compile_homes.h"
#include "verify/model/verify_described.h"
#include "verify/model/verify_model.h"

namespace tessera::host {

Diagnostics verify_job(const CompileInput& input, const JobPrograms& job) {
  Diagnostics diagnostics;
  Progress progress(input.log, concat("checking ", input.mesh.num_ranks(), " ranks against one another"));
  HomesCompiler homes(input);
  ModelVerifier model(input.mesh, job.classes, [&](int rank) { return homes.compile(input.mesh.coordinates(rank)); });
  const size_t num_programs = job.of(0).all().size();
  for (size_t i = 0; i < num_programs; ++i) {
    progress.at(i, num_programs);
    const ProgramOf program = [&](int r) -> const Program& { return *job.of(r).all()[i]; };
    DiagnosticList described;
    for (const auto& [rank, programs] : job.by_representative)
      verify_described(*programs.all()[i], input.describe_op, described);
    Diagnostics found = described.take();
    if (found.empty()) found = verify_ranks(input.mesh, job.classes, program);
    if (found.empty()) found = model.check(program);
    diagnostics.insert(diagnostics.end(), found.begin(), found.end());
  }
  return diagnostics;
}

}  // namespace tessera::host
