// Requests in flight on io_uring.
#pragma once

#include <memory>

#include "storage/io_queue.h"

namespace tessera::host {

/// Throws std::system_error where the kernel, or a filter of the container, refuses io_uring.
std::unique_ptr<IoQueue> make_uring_queue();

}  // namespace tessera::host
