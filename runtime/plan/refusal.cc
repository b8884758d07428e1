// The last check before ranks are started, or before a started rank joins the others.

#include "plan/refusal.h"

#include "plan/memory_advisor.h"

namespace tessera::host {

std::optional<Error> refusal_of(const Job& job, const CompileInput& input, const JobPrograms& programs) {
  const Diagnostics diagnostics = verify_job(input, programs);
  if (!diagnostics.empty()) {
    std::string text = "the ranks' programs do not fit one another:";
    for (const std::string& diagnostic : diagnostics)
      text += "\n  " + diagnostic;
    return Error(TSR_E_INTERNAL, text);
  }
  // Last, as it plans other jobs when this one does not fit.
  if (const auto shortfall = find_shortfall(job, programs, input.log))
    return Error(TSR_E_RESOURCE_EXHAUSTED, shortfall_text(*shortfall));
  return std::nullopt;
}

}  // namespace tessera::host
