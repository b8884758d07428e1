/* What a plugin can do to the process that it runs in, by name, for plugins of this folder. The name is that of the
 * environment variable TESSERA_TEST_FAULT: "<place>-<fault>", so "lower-crash" makes faults_at("lower") crash. */
#ifndef TESSERA_TESTS_FAULTS_H
#define TESSERA_TESTS_FAULTS_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <locale.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

/* The fault of this place, or "". */
static inline const char* fault_at(const char* place) {
  const char* fault = getenv("TESSERA_TEST_FAULT");
  const size_t length = strlen(place);
  return fault && strncmp(fault, place, length) == 0 && fault[length] == '-' ? fault + length + 1 : "";
}
static inline int is_fault(const char* place, const char* name) {
  return strcmp(fault_at(place), name) == 0;
}

static volatile int faults_zero = 0;
static inline void faults_crash(void) {
  *(volatile int*)(size_t)(16 + faults_zero) = 1;
}
static inline void* faults_crash_thread(void* user) {
  (void)user;
  faults_crash();
  return NULL;
}
static inline void* faults_abort_thread(void* user) {
  (void)user;
  abort();
}
static inline int faults_recurse(volatile char* above) {
  volatile char here[4096];
  here[0] = above[0];
  if (faults_zero) return 0;
  return faults_recurse(here) + here[0];
}
static inline void faults_hang(void) {
  for (;;)
    pause();
}

/* Makes a second process that goes on here; once, whatever happens. */
static inline void faults_fork(int is_bare) {
  static volatile int has_forked = 0;
  if (__sync_lock_test_and_set(&has_forked, 1)) return;
  if ((is_bare ? syscall(SYS_fork) : fork()) < 0) abort();
}

/* Lets the process die of a timer in a moment. */
static inline void faults_set_timer(void) {
  const struct itimerval soon = {{0, 0}, {0, 20000}};
  setitimer(ITIMER_REAL, &soon, NULL);
}
static inline void faults_block(int signal) {
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, signal);
  pthread_sigmask(SIG_BLOCK, &one, NULL);
}
/* Holds the locks of the C library's files for ever. */
static inline void* faults_holding_thread(void* is_held) {
  flockfile(stdout);
  flockfile(stderr);
  __atomic_store_n((int*)is_held, 1, __ATOMIC_RELEASE);
  for (;;)
    pause();
  return NULL;
}
static inline void faults_hold_output(void) {
  static int is_held = 0;
  pthread_t thread;
  if (__atomic_load_n(&is_held, __ATOMIC_ACQUIRE) ||
      pthread_create(&thread, NULL, faults_holding_thread, &is_held) != 0)
    return;
  while (!__atomic_load_n(&is_held, __ATOMIC_ACQUIRE))
    sched_yield();
}
/* A stack overflow then ends the process without a word. */
static inline void faults_take_handler_stack(void) {
  const stack_t none = {NULL, SS_DISABLE, 0};
  sigaltstack(&none, NULL);
}
static inline void faults_limit_files(void) {
  const struct rlimit few = {16, 16};
  setrlimit(RLIMIT_NOFILE, &few);
}
/* The thread does not end: its data has a destructor that does not return. */
static inline void faults_hang_at_end(void* data) {
  (void)data;
  faults_hang();
}
static inline void faults_keep_thread(void) {
  pthread_key_t key;
  if (pthread_key_create(&key, faults_hang_at_end) == 0) pthread_setspecific(key, "");
}
/* Returns into a function that has ended. */
static inline void faults_jump(int is_start) {
  static jmp_buf start;
  if (is_start) (void)setjmp(start);
  if (!is_start) longjmp(start, 1);
}

/* With the fault "fails-beside-hang" rank 1 is to fail, while rank 0 does not return. */
static inline int faults_beside_hang(const char* place, int rank) {
  if (!is_fault(place, "fails-beside-hang")) return 0;
  if (rank == 0) faults_hang();
  return 1;
}

/* Does what the fault of this place says; nothing without one. */
static inline void faults_at(const char* place) {
  volatile char top = 0;
  pthread_t thread;
  if (is_fault(place, "crash")) faults_crash();
  if (is_fault(place, "abort")) abort();
  if (is_fault(place, "exit")) exit(0);
  if (is_fault(place, "quick-exit")) quick_exit(0);
  if (is_fault(place, "exit-at-once")) _exit(0);
  if (is_fault(place, "exit-at-once-with-7")) _exit(7);
  if (is_fault(place, "exit-by-call")) syscall(SYS_exit_group, 0);
  if (is_fault(place, "kill")) kill(getpid(), SIGKILL);
  if (is_fault(place, "crash-unhandled")) signal(SIGSEGV, SIG_DFL), faults_crash();
  if (is_fault(place, "hang")) faults_hang();
  if (is_fault(place, "end-thread")) pthread_exit(NULL);
  if (is_fault(place, "recursion")) faults_zero = faults_recurse(&top);
  if (is_fault(place, "own-thread") && pthread_create(&thread, NULL, faults_crash_thread, NULL) == 0) faults_hang();
  if (is_fault(place, "aborting-thread") && pthread_create(&thread, NULL, faults_abort_thread, NULL) == 0)
    faults_hang();
  if (is_fault(place, "cancel")) pthread_cancel(pthread_self());
  if (is_fault(place, "jump")) faults_jump(0);
  if (is_fault(place, "trap")) raise(SIGTRAP);
  if (is_fault(place, "timer")) faults_set_timer();
  if (is_fault(place, "thread-data")) faults_keep_thread();
  if (is_fault(place, "send-term")) kill(getpid(), SIGTERM);
  if (is_fault(place, "send-term-to-parent")) kill(getppid(), SIGTERM);
  if (is_fault(place, "kill-in-real-time")) kill(getpid(), SIGRTMAX);
  if (is_fault(place, "close-all")) syscall(SYS_close_range, 0u, ~0u, 0u);
  if (is_fault(place, "timer-and-hang")) faults_set_timer(), faults_hang();
  if (is_fault(place, "mask")) faults_block(SIGUSR2);
  if (is_fault(place, "handler-stack")) faults_take_handler_stack();
  if (is_fault(place, "limits")) faults_limit_files();
  if (is_fault(place, "close-files")) syscall(SYS_close_range, 3u, ~0u, 0u);
  if (is_fault(place, "environment")) clearenv();
  if (is_fault(place, "fork-handler")) pthread_atfork(faults_hang, NULL, NULL);
  if (is_fault(place, "fork")) faults_fork(0);
  if (is_fault(place, "bare-fork")) faults_fork(1);
#if defined(__x86_64__)
  if (is_fault(place, "exit-by-instruction")) __asm__ volatile("syscall" : : "a"(SYS_exit_group), "D"(0));
  if (is_fault(place, "exit-by-instruction-with-40")) __asm__ volatile("syscall" : : "a"(SYS_exit_group), "D"(40));
  const unsigned short single = 0x007f;
  if (is_fault(place, "precision")) __asm__ volatile("fldcw %0" : : "m"(single));
  if (is_fault(place, "traps")) _mm_setcsr(_mm_getcsr() & ~0x0800u); /* of underflow */
  if (is_fault(place, "flush")) _mm_setcsr(_mm_getcsr() | 0x8040);   /* as crtfastmath.o does */
  if (is_fault(place, "rounding")) _mm_setcsr(_mm_getcsr() | 0x6000);
#endif
  if (is_fault(place, "signals")) signal(SIGINT, SIG_IGN);
  if (is_fault(place, "locale")) setlocale(LC_ALL, "C.UTF-8");
  if (is_fault(place, "folder") && chdir("/") != 0) abort();
  if (is_fault(place, "umask")) umask(0);
  if (is_fault(place, "hold-output")) faults_hold_output();
  if (is_fault(place, "output")) close(STDOUT_FILENO);
  if (is_fault(place, "error-output")) close(STDERR_FILENO);
  if (is_fault(place, "other-output")) dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
}
#endif
