#include "fibre.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>
#include <utility>

#ifdef TESSERA_CHECKS_ADDRESSES
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

// Saves the registers that a function keeps and the stack in *from, and goes on where `to` was saved. swapcontext does
// that too, with a system call each time.
extern "C" void cuda_on_cpu_switch(void** from, void* to);
asm(R"(
.text
.type cuda_on_cpu_switch, @function
cuda_on_cpu_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size cuda_on_cpu_switch, .-cuda_on_cpu_switch
)");

namespace cuda_on_cpu {
namespace {

constexpr size_t kPageBytes = 4096;
#ifdef TESSERA_IS_SANITIZED
constexpr size_t kStackBytes = 64 * kPageBytes;
#else
constexpr size_t kStackBytes = 16 * kPageBytes;
#endif

char* make_stack() {
  void* memory = mmap(nullptr, kPageBytes + kStackBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, kPageBytes, PROT_NONE) != 0) throw std::bad_alloc();
  return static_cast<char*>(memory) + kPageBytes;
}

thread_local Fibre* resumed = nullptr;

}  // namespace

Fibre::Fibre(std::function<void()> work) : work_(std::move(work)), stack_(make_stack()) {
  // As cuda_on_cpu_switch leaves it: six registers, and where to return to, with the stack as after a call.
  auto* top = reinterpret_cast<uintptr_t*>(stack_ + kStackBytes);
  *--top = 0;
  *--top = reinterpret_cast<uintptr_t>(&Fibre::enter);
  paused_at_ = top - 6;
}

Fibre::~Fibre() {
#ifdef TESSERA_CHECKS_ADDRESSES
  __asan_unpoison_memory_region(stack_, kStackBytes);
#endif
  munmap(stack_ - kPageBytes, kPageBytes + kStackBytes);
}

bool Fibre::resume() {
  resumed = this;
#ifdef TESSERA_CHECKS_ADDRESSES
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, stack_, kStackBytes);
#endif
  cuda_on_cpu_switch(&resumed_from_, paused_at_);
#ifdef TESSERA_CHECKS_ADDRESSES
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#endif
  return has_returned_;
}

void Fibre::pause() {
  leave(false);
}

void Fibre::leave(bool has_returned) {
  has_returned_ = has_returned;
#ifdef TESSERA_CHECKS_ADDRESSES
  __sanitizer_start_switch_fiber(&own_sanitizer_, resumer_stack_, resumer_stack_bytes_);
#endif
  cuda_on_cpu_switch(&paused_at_, resumed_from_);
#ifdef TESSERA_CHECKS_ADDRESSES
  __sanitizer_finish_switch_fiber(own_sanitizer_, &resumer_stack_, &resumer_stack_bytes_);
#endif
}

void Fibre::enter() {
  Fibre& self = *resumed;
#ifdef TESSERA_CHECKS_ADDRESSES
  __sanitizer_finish_switch_fiber(nullptr, &self.resumer_stack_, &self.resumer_stack_bytes_);
#endif
  for (;;) {
    self.work_();
    self.leave(true);
  }
}

}  // namespace cuda_on_cpu
