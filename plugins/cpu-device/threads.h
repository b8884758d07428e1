// Threads that the system may refuse.
#pragma once

#include <cstdint>
#include <functional>
#include <thread>

namespace tessera::cpu {

/// Throws RESOURCE_EXHAUSTED, saying what to do, when the system grants no thread.
std::thread start_thread(std::function<void()> body);

/// Throws RESOURCE_EXHAUSTED unless that many more threads can be there at once. OpenMP would end the process when it
/// cannot have its team; so the threads are made here first, and ended.
void require_threads(uint32_t num_threads);

}  // namespace tessera::cpu
