/* A new activation with a parameter for the CPU: snake, o = x + sin(a x)^2 / a (Ziyin et al. 2020), a per column.
 * One entry, one forward, one backward, in float and double. The host learns from the entry that rows and columns may
 * be split, that a's gradient is then a sum over the rows, what the backward keeps, and checks all of it. */
#include <math.h>
#include <stdlib.h>
#include "helpers.h"

static const tsr_op_entry kSnake = {
    sizeof kSnake,
    0,
    {"example.snake", 13},
    {"p0[C] i0[B,T,C] -> o0[B,T,C] ; reads p0 i0 do0 ; cost 8 B T C ; dtypes f32 f64", 78},
    NULL,
    0};

struct tsr_plugin_kernel {
  uint64_t rows, columns;
  int is_double, a, x, y, dy, dx, da, dx_adds, da_adds;
};

static const tsr_op_entry* op_at(uint64_t index) {
  return index == 0 ? &kSnake : NULL;
}

static tsr_status describe(const tsr_op* op, tsr_str name, tsr_slot_spec* slots, uint64_t* num_slots, tsr_error* err) {
  (void)slots;
  if (!tsr_equals(name, "example.snake") || (op->dtype != TSR_F32 && op->dtype != TSR_F64))
    return tsr_fail(err, TSR_E_UNSUPPORTED, "example", "only example.snake, in float32 and float64");
  *num_slots = 0;
  return TSR_OK;
}

static tsr_status prepare(const tsr_kernels_env* env, const tsr_op* op, tsr_str name, const tsr_slot_spec* slots,
                          uint64_t n, tsr_plugin_kernel** kernel, tsr_error* err) {
  (void)env, (void)name;
  tsr_plugin_kernel* k = calloc(1, sizeof *k);
  if (!k) return tsr_fail(err, TSR_E_RESOURCE_EXHAUSTED, "example", "out of memory");
  k->rows = (uint64_t)(op->dims[TSR_DIM_BATCH] * op->dims[TSR_DIM_SEQ]);
  k->columns = (uint64_t)op->dims[TSR_DIM_EMBED];
  k->is_double = op->dtype == TSR_F64;
  k->a = slot_at(slots, n, TSR_ROLE_PARAMETER, 0), k->x = slot_at(slots, n, TSR_ROLE_INPUT, 0);
  k->y = slot_at(slots, n, TSR_ROLE_OUTPUT, 0), k->dy = slot_at(slots, n, TSR_ROLE_OUTPUT_GRADIENT, 0);
  k->dx = slot_at(slots, n, TSR_ROLE_INPUT_GRADIENT, 0), k->da = slot_at(slots, n, TSR_ROLE_GRADIENT, 0);
  k->dx_adds = k->dx >= 0 && slots[k->dx].mode == TSR_MODE_ADD;
  k->da_adds = k->da >= 0 && slots[k->da].mode == TSR_MODE_ADD;
  *kernel = k;
  return TSR_OK;
}

static void destroy(tsr_plugin_kernel* k) {
  free(k);
}

#define KERNEL(T, NAME)                                                                                     \
  static void NAME(const tsr_plugin_kernel* k, void* const* p) {                                            \
    const T *a = p[k->a], *x = p[k->x], *dy = k->dy < 0 ? NULL : p[k->dy];                                  \
    T *y = k->y < 0 ? NULL : p[k->y], *dx = k->dx < 0 ? NULL : p[k->dx], *da = k->da < 0 ? NULL : p[k->da]; \
    for (uint64_t c = 0; da && !k->da_adds && c < k->columns; ++c)                                          \
      da[c] = 0;                                                                                            \
    for (uint64_t r = 0; r < k->rows; ++r)                                                                  \
      for (uint64_t c = 0; c < k->columns; ++c) {                                                           \
        const uint64_t i = r * k->columns + c;                                                              \
        const double s = sin((double)a[c] * x[i]), s2 = sin(2.0 * a[c] * x[i]);                             \
        if (y) y[i] = (T)(x[i] + s * s / a[c]);                                                             \
        if (dx) dx[i] = (T)((k->dx_adds ? dx[i] : 0) + dy[i] * (1 + s2));                                   \
        if (da) da[c] += (T)(dy[i] * (x[i] * s2 / a[c] - s * s / ((double)a[c] * a[c])));                   \
      }                                                                                                     \
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
PLUGIN("example", TSR_KIND_KERNELS, "org.example.snake", TSR_KERNELS_INTERFACE, kTable)
