// pthread_create, since std::thread takes no size of stack. The promise makes the caller wait until the thread runs: a
// thread in its making holds locks, which a child that is forked at that moment would find locked for ever.

#include "base/small_thread.h"

#include <future>
#include <memory>
#include <utility>

namespace tessera::host {
namespace {

constexpr size_t kStackBytes = 256 << 10;

struct Start {
  std::function<void()> body;
  std::promise<void> has_begun;
};

void* run(void* argument) {
  const std::unique_ptr<Start> start(static_cast<Start*>(argument));
  start->has_begun.set_value();
  start->body();
  return nullptr;
}

}  // namespace

int start_small_thread(pthread_t& thread, std::function<void()> body) {
  auto start = std::make_unique<Start>(Start{std::move(body), {}});
  const std::future<void> has_begun = start->has_begun.get_future();
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  const int error = pthread_create(&thread, &attributes, run, start.get());
  pthread_attr_destroy(&attributes);
  if (error) return error;
  static_cast<void>(start.release());  // run() has it
  has_begun.wait();
  return 0;
}

}  // namespace tessera::host
