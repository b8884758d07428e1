#include "cli/exhaustion.h"

#include <execinfo.h>

#include <new>

namespace tessera::host {
namespace {

struct OutOfMemory : std::bad_alloc {
  const char* what() const noexcept override {
    return "out of memory: the system has no more for this process; make the run smaller (--batch-size, --grad-accum, "
           "a smaller model), raise ulimit -v where it is set, or use a machine with more";
  }
};

}  // namespace

void prepare_for_exhaustion() {
  void* frame = nullptr;
  ::backtrace(&frame, 1);
  std::set_new_handler([] { throw OutOfMemory(); });
}

}  // namespace tessera::host
