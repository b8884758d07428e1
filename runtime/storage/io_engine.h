// What carries the requests of the file store.
#pragma once

namespace tessera::host {

/// io_uring, or threads with pread and pwrite. automatic: io_uring where the system has it.
enum class IoEngine { automatic, uring, threads };

}  // namespace tessera::host
