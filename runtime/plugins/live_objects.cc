#include "plugins/live_objects.h"

#include "base/concat.h"
#include "guard/known_functions.h"
#include "tessera/error.hpp"

namespace tessera::host {

void LiveObjects::add(const void* object, const void* function) {
  const std::lock_guard lock(mutex_);
  if (!all_.insert(object).second)
    throw Error(TSR_E_INTERNAL, concat(call_text(function),
                                       " returned an object that it has returned before, and that is still in use"));
}

void LiveObjects::remove(const void* object) noexcept {
  const std::lock_guard lock(mutex_);
  all_.erase(object);
}

}  // namespace tessera::host
