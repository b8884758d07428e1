// The sentence about a table that was used after its loan, or on a thread that it was not lent to, such as
//
//     the plugin fsdp (...) used insert of the edit table after its function lower had returned, so the run ends
//
// It names the lender: the function that was given the table. The run ends rather than the call, since a plugin that
// ignores the status would go on with half of its edits.

#include "guard/lent_table.h"

#include <atomic>

#include "base/concat.h"
#include "guard/call_watch.h"
#include "guard/known_functions.h"

namespace tessera::host {

void end_by_stray_use(const Loan& loan, const char* function) noexcept {
  const KnownFunction* lender = find_function(loan.lender);
  const std::string place = lender ? lender->place : "the call";
  const bool is_late = !loan.target.load(std::memory_order_acquire);
  const std::string how = !is_late      ? concat("on another thread than that of ", place)
                          : loan.thread ? concat("after ", place, " had returned")
                                        : concat("after ", loan.until);
  end_run(concat(plugin_text(loan.lender), " used ", function, " of ", loan.what, " ", how, ", so the run ends"),
          loan.rank);
}

}  // namespace tessera::host
