/* A new norm for the CPU: o = p0 x / mean(|x|) of a row, s0 = 1 / mean(|x|). "whole C": a row cannot be split, so the
 * host refuses or gathers where a layout would; rows may be. */
#include <math.h>
#include <stdlib.h>
#include "helpers.h"

static const char kText[] =
    "p0[C] i0[B,T,C] -> o0[B,T,C] s0[B,T]:own ; whole C ; reads p0 i0 s0 do0 ; cost 6 B T C ; dtypes f32 f64";
static const tsr_op_entry kEntry = {sizeof kEntry, 0, {"example.l1_norm", 15}, {kText, sizeof kText - 1}, NULL, 0};

enum { P, X, S, Y, DY, DX, DP, NUM };
struct tsr_plugin_kernel {
  uint64_t rows, columns;
  int is_double, is_forward, at[NUM], adds[NUM];
};

static const tsr_op_entry* op_at(uint64_t index) {
  return index == 0 ? &kEntry : NULL;
}

static tsr_status describe(const tsr_op* op, tsr_str name, tsr_slot_spec* slots, uint64_t* num_slots, tsr_error* err) {
  (void)slots;
  if (!tsr_equals(name, "example.l1_norm") || (op->dtype != TSR_F32 && op->dtype != TSR_F64))
    return tsr_fail(err, TSR_E_UNSUPPORTED, "example", "only example.l1_norm, in float32 and float64");
  *num_slots = 0;
  return TSR_OK;
}

static tsr_status prepare(const tsr_kernels_env* env, const tsr_op* op, tsr_str name, const tsr_slot_spec* slots,
                          uint64_t n, tsr_plugin_kernel** kernel, tsr_error* err) {
  static const uint32_t kRoles[NUM] = {TSR_ROLE_PARAMETER, TSR_ROLE_INPUT,           TSR_ROLE_SAVED,
                                       TSR_ROLE_OUTPUT,    TSR_ROLE_OUTPUT_GRADIENT, TSR_ROLE_INPUT_GRADIENT,
                                       TSR_ROLE_GRADIENT};
  (void)env, (void)name;
  tsr_plugin_kernel* k = calloc(1, sizeof *k);
  if (!k) return tsr_fail(err, TSR_E_RESOURCE_EXHAUSTED, "example", "out of memory");
  k->rows = (uint64_t)(op->dims[TSR_DIM_BATCH] * op->dims[TSR_DIM_SEQ]);
  k->columns = (uint64_t)op->dims[TSR_DIM_EMBED];
  k->is_double = op->dtype == TSR_F64, k->is_forward = op->phase == TSR_PHASE_FORWARD;
  for (int i = 0; i < NUM; ++i) {
    k->at[i] = slot_at(slots, n, kRoles[i], 0);
    k->adds[i] = k->at[i] >= 0 && slots[k->at[i]].mode == TSR_MODE_ADD;
  }
  *kernel = k;
  return TSR_OK;
}

static void destroy(tsr_plugin_kernel* k) {
  free(k);
}

#define KERNEL(T, NAME)                                                                                     \
  static void NAME(const tsr_plugin_kernel* k, void* const* q) {                                            \
    T* v[NUM];                                                                                              \
    for (int i = 0; i < NUM; ++i)                                                                           \
      v[i] = k->at[i] < 0 ? NULL : q[k->at[i]];                                                             \
    for (uint64_t c = 0; v[DP] && !k->adds[DP] && c < k->columns; ++c)                                      \
      v[DP][c] = 0;                                                                                         \
    for (uint64_t r = 0; r < k->rows; ++r) {                                                                \
      const T* x = v[X] + r * k->columns;                                                                   \
      double sum = 0, s, dot = 0;                                                                           \
      for (uint64_t c = 0; c < k->columns; ++c)                                                             \
        sum += fabs(x[c]);                                                                                  \
      s = k->is_forward ? (double)k->columns / sum : (double)v[S][r];                                       \
      if (k->is_forward && v[S]) v[S][r] = (T)s;                                                            \
      for (uint64_t c = 0; v[Y] && c < k->columns; ++c)                                                     \
        v[Y][r * k->columns + c] = (T)(v[P][c] * x[c] * s);                                                 \
      if (k->is_forward) continue;                                                                          \
      const T* dy = v[DY] + r * k->columns;                                                                 \
      for (uint64_t c = 0; v[DX] && c < k->columns; ++c)                                                    \
        dot += (double)dy[c] * v[P][c] * x[c];                                                              \
      for (uint64_t c = 0; v[DX] && c < k->columns; ++c) {                                                  \
        T* dx = v[DX] + r * k->columns + c;                                                                 \
        const double sign = x[c] > 0 ? 1 : x[c] < 0 ? -1 : 0;                                               \
        *dx = (T)((k->adds[DX] ? *dx : 0) + s * dy[c] * v[P][c] - dot * s * s * sign / (double)k->columns); \
      }                                                                                                     \
      for (uint64_t c = 0; v[DP] && c < k->columns; ++c)                                                    \
        v[DP][c] += (T)(dy[c] * x[c] * s);                                                                  \
    }                                                                                                       \
  }
KERNEL(float, run_float)
KERNEL(double, run_double)

static tsr_status launch(tsr_plugin_kernel* k, void* stream, void* const* pointers, uint64_t n, tsr_error* err) {
  (void)stream, (void)n, (void)err;
  (k->is_double ? run_double : run_float)(k, pointers);
  return TSR_OK;
}

static const tsr_kernels_interface kTable = {sizeof kTable, 0,       {"cpu.queue", 9}, op_at,
                                             describe,      prepare, destroy,          launch};
PLUGIN("example-norm", TSR_KIND_KERNELS, "org.example.l1-norm", TSR_KERNELS_INTERFACE, kTable)
