// A table that the host lends to a plugin: functions with a `ctx`, for the duration of a call or for the lifetime of
// what the plugin made with it. Using it later, or on a thread that it was not lent to, ends the run with the plugin's
// name; to detect that, the memory of such a table is never freed.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>

#include "guard/process_copy.h"
#include "guard/thread_calls.h"

namespace tessera::host {

/// What `ctx` points to. `thread` and `lender` are those of the last loan.
struct Loan {
  std::atomic<void*> target{nullptr};   ///< null: the loan has ended
  const ThreadCalls* thread = nullptr;  ///< the only thread that may use it; null: any
  const void* lender = nullptr;         ///< the function of the plugin that it was lent to
  int rank = -1;
  const char* what = "";
  const char* until = "";  ///< what ended the loan, for a table that is for any thread
};

/// Ends the run: `function` of that table was used after its loan, or on another thread.
[[noreturn]] void end_by_stray_use(const Loan& loan, const char* function) noexcept;

/// The host's object that `ctx` refers to, for a call of `function` of a table. Costs two loads.
template <class T>
T& borrowed(void* ctx, const char* function) noexcept {
  const Loan& loan = *static_cast<const Loan*>(ctx);
  if (is_copy_of_host()) [[unlikely]]
    end_copy();
  void* const target = loan.target.load(std::memory_order_acquire);
  if (!target || (loan.thread && loan.thread != &this_thread_calls)) [[unlikely]]
    end_by_stray_use(loan, function);
  return *static_cast<T*>(target);
}

/// While this object lives, the plugin of `lender` may use table().
template <class Table>
class LentTable {
 public:
  /// For this thread, during a call of `lender`. `what` as in "the edit table"; it and `functions` are equal for all
  /// loans of one lender.
  LentTable(const Table& functions, void* target, const char* what, const void* lender)
      : LentTable(functions, target, Loan{{}, &this_thread_calls, lender, this_thread_calls.rank, what, ""}) {}
  /// For all threads, until the named event, such as "what was made with it had been destroyed".
  LentTable(const Table& functions, void* target, const char* what, const void* lender, const char* until)
      : LentTable(functions, target, Loan{{}, nullptr, lender, this_thread_calls.rank, what, until}) {}
  ~LentTable() {
    slot_.loan.target.store(nullptr, std::memory_order_release);
    Shelf& shelf = all();
    const std::lock_guard lock(shelf.mutex);
    shelf.ended[slot_.loan.lender].push_back(&slot_);
  }
  LentTable(const LentTable&) = delete;
  LentTable& operator=(const LentTable&) = delete;

  const Table& table() const { return slot_.table; }

 private:
  struct Slot {
    Table table{};
    Loan loan;
  };
  /// Slots whose loan has ended, by lender, so that a late use names the right plugin. Once there are several, the
  /// oldest is reused.
  struct Shelf {
    std::mutex mutex;
    std::map<const void*, std::deque<Slot*>> ended;
  };
  static constexpr size_t kMinEnded = 64;

  static Shelf& all() {
    static Shelf& one = *new Shelf;
    return one;
  }
  static Slot& take(const Table& functions, const void* lender) {
    {
      const std::lock_guard lock(all().mutex);
      std::deque<Slot*>& ended = all().ended[lender];
      if (ended.size() >= kMinEnded) {
        Slot& oldest = *ended.front();
        ended.pop_front();
        return oldest;
      }
    }
    auto& made = *new Slot;
    made.table = functions;
    made.table.ctx = &made.loan;
    return made;
  }
  LentTable(const Table& functions, void* target, const Loan& loan) : slot_(take(functions, loan.lender)) {
    slot_.loan.thread = loan.thread;
    slot_.loan.lender = loan.lender;
    slot_.loan.rank = loan.rank;
    slot_.loan.what = loan.what;
    slot_.loan.until = loan.until;
    slot_.loan.target.store(target, std::memory_order_release);
  }

  Slot& slot_;
};

}  // namespace tessera::host
