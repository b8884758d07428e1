// One queue, one thread:
//
//     rank's threads    append(part) | append(part) | ...     never wait; drop the part when 64 MiB are queued
//     writer thread     write(part) ... write(part)           may wait for the disk for as long as that takes
//
// A part that was not written whole is removed by truncating the file to its former size, which also works on a full
// disk; later parts are tried again, since space may become free. A file that has no name any more gets none. The
// destructor does not join a thread that hangs in a system call: it detaches it, with the state that they share.

#include "record/background_writer.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <utility>

#include "base/concat.h"
#include "base/small_thread.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

constexpr size_t kMaxQueuedBytes = 64 << 20;

struct OpenFile {
  std::string path;
  int descriptor = -1;  // of one that could not be opened
  bool is_regular = false;
};

struct Part {
  size_t file = 0;
  std::string bytes;
};

/// Returns the system's error, or 0.
int write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::write(descriptor, bytes.data(), bytes.size());
    if (done < 0 && errno != EINTR) return errno;
    if (done > 0) bytes.remove_prefix(static_cast<size_t>(done));
  }
  return 0;
}

/// Returns what is wrong, or nothing.
std::string write_whole(const OpenFile& file, std::string_view bytes) {
  struct stat before {};
  const bool known = file.is_regular && ::fstat(file.descriptor, &before) == 0;
  if (known && before.st_nlink == 0) return concat(file.path, " was removed");
  const int error = write_all(file.descriptor, bytes);
  if (error == 0) return "";
  // Where that fails too, half a line stays.
  [[maybe_unused]] const int left = known ? ::ftruncate(file.descriptor, before.st_size) : 0;
  return concat(file.path, " cannot be written: ", std::strerror(error));
}

bool ends_in_half_line(int descriptor, off_t size) {
  char last = '\n';
  return size > 0 && ::pread(descriptor, &last, 1, size - 1) == 1 && last != '\n';
}

}  // namespace

struct BackgroundWriter::State {
  State(std::string name, Log warnings) : what(std::move(name)), log(std::move(warnings)) {}
  ~State() {
    for (const OpenFile& file : files)
      if (file.descriptor >= 0) ::close(file.descriptor);
  }

  /// Without the lock: a warning may be slow.
  void warn_once(const std::string& problem) {
    if (has_warned.exchange(true)) return;
    log.warning(what, ": ", problem, "; the run continues, and the file lacks what could not be written");
  }

  const std::string what;
  const Log log;
  std::atomic<bool> has_warned = false;

  std::mutex mutex;
  std::condition_variable changed;
  // Guarded by mutex:
  std::deque<OpenFile> files;  // a deque: elements do not move
  std::deque<Part> parts;
  size_t queued_bytes = 0;
  uint64_t num_lost = 0;
  bool is_full = false;  // parts were dropped, which the thread has yet to report
  bool stops = false, has_ended = false;
};

BackgroundWriter::BackgroundWriter(std::string what, Log log, std::chrono::milliseconds patience)
    : state_(std::make_shared<State>(std::move(what), std::move(log))), patience_(patience) {
  if (const int error = start_small_thread(thread_, [state = state_] { write_until_stopped(state); }))
    throw Error(
        TSR_E_RESOURCE_EXHAUSTED,
        concat(state_->what, ": cannot start a thread that writes: ", std::strerror(error), "; raise ulimit -u"));
}

BackgroundWriter::~BackgroundWriter() {
  std::unique_lock lock(state_->mutex);
  state_->stops = true;
  state_->changed.notify_all();
  if (state_->changed.wait_for(lock, patience_, [&] { return state_->has_ended; })) {
    const uint64_t num_lost = state_->num_lost;
    lock.unlock();
    pthread_join(thread_, nullptr);
    if (num_lost > 0)
      state_->log.warning(state_->what, ": ", num_lost, num_lost == 1 ? " line or record is" : " lines and records are",
                          " missing, which could not be written");
    return;
  }
  const size_t num_waiting = state_->parts.size();
  lock.unlock();
  pthread_detach(thread_);
  state_->log.warning(state_->what, ": the disk does not answer; ", num_waiting, " lines and records were not written");
}

int BackgroundWriter::open(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0666);
  if (descriptor < 0) warn(concat("cannot open ", path, ": ", std::strerror(errno)));
  struct stat file {};
  const bool is_regular = ::fstat(descriptor, &file) == 0 && S_ISREG(file.st_mode);
  int number = 0;
  {
    const std::lock_guard lock(state_->mutex);
    number = static_cast<int>(state_->files.size());
    state_->files.push_back({path, descriptor, is_regular});
  }
  if (is_regular && ends_in_half_line(descriptor, file.st_size)) append(number, "\n");
  return number;
}

void BackgroundWriter::warn(const std::string& problem) {
  state_->warn_once(problem);
}

void BackgroundWriter::append(int file, std::string part) {
  const std::lock_guard lock(state_->mutex);
  if (state_->queued_bytes + part.size() > kMaxQueuedBytes) {
    ++state_->num_lost;
    state_->is_full = true;
    return;
  }
  state_->queued_bytes += part.size();
  state_->parts.push_back({static_cast<size_t>(file), std::move(part)});
  state_->changed.notify_all();
}

void BackgroundWriter::write_until_stopped(const std::shared_ptr<State>& state) {
  std::unique_lock lock(state->mutex);
  while (true) {
    state->changed.wait(lock, [&] { return state->stops || !state->parts.empty(); });
    if (state->parts.empty()) break;
    const Part part = std::move(state->parts.front());
    state->parts.pop_front();
    const OpenFile& file = state->files[part.file];
    lock.unlock();
    const std::string problem = write_whole(file, part.bytes);
    if (!problem.empty()) state->warn_once(problem);
    lock.lock();
    state->queued_bytes -= part.bytes.size();
    if (!problem.empty()) ++state->num_lost;
    if (std::exchange(state->is_full, false)) {
      lock.unlock();
      state->warn_once(concat(file.path, " is written more slowly than the run produces it"));
      lock.lock();
    }
  }
  state->has_ended = true;
  state->changed.notify_all();
}

}  // namespace tessera::host
