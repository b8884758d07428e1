// Requests in flight on threads, with pread and pwrite.
#pragma once

#include <memory>

#include "storage/io_queue.h"

namespace tessera::host {

/// Throws std::system_error when the system grants no thread.
std::unique_ptr<IoQueue> make_thread_queue();

}  // namespace tessera::host
