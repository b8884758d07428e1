// Fibres: calls that pause in the middle, each on a stack of its own, all on the operating system's thread that made
// them.
#pragma once

#include <cstddef>
#include <functional>

namespace cuda_on_cpu {

class Fibre {
 public:
  /// `work` is called at every resume that does not continue one which paused. It throws nothing.
  explicit Fibre(std::function<void()> work);
  /// What a paused call holds on its stack is dropped, not destroyed.
  ~Fibre();
  Fibre(const Fibre&) = delete;
  Fibre& operator=(const Fibre&) = delete;

  /// Runs the work until it pauses or returns. Returns true if it has returned.
  bool resume();
  /// Called from the work: returns in the next resume.
  void pause();

 private:
  static void enter();
  void leave(bool has_returned);

  std::function<void()> work_;
  char* stack_;  // above a page that may not be touched
  void* paused_at_ = nullptr;
  void* resumed_from_ = nullptr;
  bool has_returned_ = true;
  // What the address sanitizer knows the two stacks by.
  [[maybe_unused]] void* own_sanitizer_ = nullptr;
  [[maybe_unused]] const void* resumer_stack_ = nullptr;
  [[maybe_unused]] size_t resumer_stack_bytes_ = 0;
};

}  // namespace cuda_on_cpu
