/* SPDX-License-Identifier: Apache-2.0 */
/* Tessera plugin ABI, kind "device": memory, streams, events, copies, and kernels prepared once and then launched.
 *
 * Streams are owned by the host and always explicit. Work submitted to a stream starts after everything already on it;
 * later work on the stream sees its result. A stream whose work failed is *failed*: its later work is skipped, events
 * recorded on it complete as failed, streams that wait for such an event fail too, and stream_synchronize returns the
 * first error. So one error ends a step everywhere, without a hang. Errors of the *call* (a wrong argument, a refusal
 * of the driver) are returned by the function that submits; errors of the *work* (a token out of range, a host function
 * that returns other than TSR_OK) fail the stream. A stream is *working* or *failed*, and between begin and end of a
 * capture *capturing*. A failed stream is destroyed, and another may be created on the device, whose memory keeps its
 * content; unless stream_create returns DATA_LOSS: the device is gone for this process, and the process must end.
 *
 * A kernel computes one op: {kind, phase, dtypes, dims, attributes} on operands in *slots*. describe(op) lists the
 * slots (pure: no device is opened, so a plan for CUDA needs no GPU); prepare(op, slots) makes a kernel for the slots
 * as the program binds them; launch(kernel, stream, pointers) runs it. Kernels never allocate: scratch is a slot.
 *
 * Errors of every function with a tsr_error*, where what is under the device fails: INTERNAL for a failed call of its
 * driver or libraries; UNAVAILABLE without a usable driver, device or library; RESOURCE_EXHAUSTED for lack of memory or
 * threads; DATA_LOSS once the device is gone. "driver errors" below means these four. Since 0.12. */
#ifndef TESSERA_DEVICE_H
#define TESSERA_DEVICE_H

#include "core.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TSR_DEVICE_INTERFACE "tsr.device/1"

typedef struct tsr_device tsr_device;
typedef struct tsr_stream tsr_stream;
typedef struct tsr_event tsr_event;
typedef struct tsr_kernel tsr_kernel;

/* ---- slots: how an operand is named -------------------------------------------------------------------------- */

/* slot = role << 16 | index in the segment's list of that role. */
#define TSR_SLOT(role, index) (((uint32_t)(role) << 16) | (uint32_t)(index))
#define TSR_SLOT_ROLE(slot) ((slot) >> 16)
#define TSR_SLOT_INDEX(slot) ((slot)&0xffffu)
#define TSR_ROLE_PARAMETER 1u       /* p:  value of a parameter */
#define TSR_ROLE_GRADIENT 2u        /* g:  gradient of a parameter */
#define TSR_ROLE_INPUT 3u           /* i:  input value */
#define TSR_ROLE_OUTPUT 4u          /* o:  output value */
#define TSR_ROLE_INPUT_GRADIENT 5u  /* di: */
#define TSR_ROLE_OUTPUT_GRADIENT 6u /* do: */
#define TSR_ROLE_SAVED 7u           /* s:  written by forward for backward: the operands after "keep" in ops.inc */
#define TSR_ROLE_CONTEXT 8u         /* c:  written by backward_input for backward_weight */
#define TSR_ROLE_WORKSPACE 9u       /* w:  scratch; undefined before and after */
#define TSR_ROLE_SOURCE 10u         /* src */
#define TSR_ROLE_DESTINATION 11u    /* dst */
#define TSR_ROLE_SCALAR 12u         /* x:  step scalars; index TSR_SCALAR_* */
#define TSR_ROLE_STATE 13u          /* st: optimizer state; index k = TSR_HOME_STATE(k) of the home */
/* 14 and 15 are reserved: the scales of the operand of the same index, and an index. A slot's role has 16 bits, so
 * there are no private ones. */

#define TSR_MODE_READ 1u  /* r: not written */
#define TSR_MODE_WRITE 2u /* w: every element of the range is defined by the action */
#define TSR_MODE_ADD 3u   /* a: read and written; for compute actions, += */

/* FROZEN. One operand of an op. From describe: the mode the op needs (gradients say ADD). To prepare: the mode as bound
 * (ADD may have become WRITE). TSR_SLOT_OPTIONAL: may be left out of prepare; the kernel then does not produce it. */
typedef struct tsr_slot_spec {
  uint32_t slot;
  uint32_t mode;
  tsr_dtype dtype;
  uint32_t flags;
  uint64_t num_elements;
  TSR_SPARE(2);
} tsr_slot_spec;
#define TSR_SLOT_OPTIONAL 1u

/* ---- ops ----------------------------------------------------------------------------------------------------- */
/* ops.inc lists them, with their operands and extents. Matrices are row-major; N = batch * seq rows. p0 is PARAMETER 0,
 * i1 INPUT 1, and so on, as TSR_ROLE_* names them. plugin-abi.md gives every op's formula, slots, dtypes and
 * gradients. */

/* TSR_OP_TOKEN_EMBEDDING = 1 and so on: kinds 1 to 31 are ops of segments, 32 to 47 elementwise ones, 48 to 63 those of
 * the optimizer's step, and later ones of segments from 64 on. */
enum {
#define TSR_OP(number, NAME, entry) TSR_OP_##NAME = number,
#include "ops.inc"
  TSR_OP_NONE = 0
};

#define TSR_PHASE_NONE 0u /* elementwise and step ops */
#define TSR_PHASE_FORWARD 1u
#define TSR_PHASE_BACKWARD 2u /* = BACKWARD_INPUT then BACKWARD_WEIGHT */
#define TSR_PHASE_BACKWARD_INPUT 3u
#define TSR_PHASE_BACKWARD_WEIGHT 4u
/* The halves exist so that a schedule may put other work between them: BACKWARD_INPUT makes what the previous
 * pipeline stage waits for, BACKWARD_WEIGHT what nothing waits for until gradients are summed (zero-bubble pipelines).
 * Run one after the other they give the bits of BACKWARD; what the first leaves for the second is a CONTEXT slot, a
 * WORKSPACE of BACKWARD. LOSS: FORWARD gives the loss alone (eval); BACKWARD the loss, di0 and g0 at once, over chunks
 * of tokens. LOSS_GRAD and CROSS_ENTROPY: FORWARD gives the loss alone (and the count), BACKWARD di0 too.
 * SOFTMAX_STATS has FORWARD only. */

/* A target or label that is not there: LOSS, SOFTMAX_STATS, LOSS_GRAD and CROSS_ENTROPY take the row for one without a
 * loss. It adds nothing to x:LOSS and x:CORRECT, and its gradient is zero. */
#define TSR_NO_TARGET (-1)

/* Dims by what they are about: the name of a tensor's dim (tsr_dim.name, tsr_contraction.dim) and the index of its
 * local extent in op.dims, which is 0 where the op has no such dim. 0 names none. */
#define TSR_DIM_BATCH 1u
#define TSR_DIM_SEQ 2u
#define TSR_DIM_HEADS 3u /* of a tensor: heads * head_dim columns, granule = head_dim; of an op: heads */
#define TSR_DIM_EMBED 4u /* C: width of norms, adds and embeddings */
#define TSR_DIM_FFN 5u
#define TSR_DIM_VOCAB 6u
#define TSR_DIM_POSITIONS 7u /* rows of the position table; >= seq */
#define TSR_DIM_HEAD_DIM 8u
#define TSR_DIM_IN 9u        /* linear */
#define TSR_DIM_OUT 10u      /* linear */
#define TSR_DIM_ELEMENTS 11u /* elementwise and step ops: elements of the largest operand */
#define TSR_DIM_CLASSES 12u  /* cross_entropy: logits of a row */
#define TSR_DIM_ROWS 13u     /* of values, never of an op: batch and seq as one dim, flat */
#define TSR_NUM_DIMS 24      /* from TSR_DIM_OWN on: the op's own, in the order in which its entry names them */
#define TSR_DIM_OWN 16

/* op.attributes[TSR_ATTR_*] are shared by ops, op.own[] an op's own in the order in which its entry names them. Flags,
 * tokens and rows are whole numbers, which a double holds exactly up to 2^53; a 64-bit seed is two numbers. An old op
 * may get another attribute or extent if 0 is its old meaning. So the host sends 0 where nothing is meant, and a device
 * answers UNSUPPORTED to what is not 0 in an attribute or extent that it does not know. */
#define TSR_ATTR_EPSILON 0    /* layer norm, AdamW */
#define TSR_ATTR_ACTIVATION 1 /* linear: TSR_ACTIVATION_* */
#define TSR_ATTR_HAS_BIAS 2   /* linear: 1 or 0 */
#define TSR_ATTR_SCALE 3      /* loss: factor of every token's gradient; scale: factor */
#define TSR_ATTR_MAX_NORM 4   /* clip: 0 = off */
#define TSR_ATTR_BETA1 5      /* AdamW; SGD: momentum */
#define TSR_ATTR_BETA2 6
#define TSR_ATTR_VOCAB_BEGIN 7 /* token embedding and split loss: the table's first local row is this token's */
#define TSR_ATTR_VOCAB_COUNT 8 /* so many local rows are tokens'; the rest is padding */
#define TSR_ATTR_VOCAB_TOTAL 9 /* tokens of the whole vocabulary; any other fails the stream */
#define TSR_ATTR_ROW_BEGIN 10  /* position embedding of some rows: the first one's index in its sequence or after it */
#define TSR_ATTR_ROW_PERIOD 11 /* and tokens of a sequence; 0: SEQ */
/* clip: the ranks whose squares ACCUMULATOR is the sum of, compared with its word TSR_WORD_ARRIVALS; 0: not compared */
#define TSR_ATTR_ARRIVALS 12
#define TSR_NUM_ATTRIBUTES 16
#define TSR_NUM_OWN 16
#define TSR_ACTIVATION_NONE 0
#define TSR_ACTIVATION_GELU_TANH 1
#define TSR_ACTIVATION_RELU 2

/* Scalars (slot role SCALAR). Accumulators are int64[20]: [0] counts non-finite addends, limb k >= 1 counts units of
 * 2^(32(k-1)-298), every limb but the last in [0, 2^32) after each action; so sums do not depend on order. */
#define TSR_SCALAR_ACCUMULATOR 0 /* int64[20], squares of gradients; CLIP reads int64[24], with the run words below */
#define TSR_SCALAR_LOSS 1        /* int64[20], float32 losses of tokens (LOSS and CROSS_ENTROPY add them, unscaled) */
#define TSR_SCALAR_CLIP 2        /* float64[3]: coefficient min(1, max_norm / (norm + 1e-6)); ok 1 or 0; norm */
#define TSR_SCALAR_STEP 3        /* int64[1]: optimizer steps taken */
#define TSR_SCALAR_LR 4          /* float64[1] */
/* float64[1], > 0; optional, absent is 1. LOSS multiplies the gradient of every token by it, not the loss, and so do
 * LOSS_GRAD and CROSS_ENTROPY; CLIP divides the norm and then the coefficient by it, so that the optimizer's gradients
 * are unscaled. */
#define TSR_SCALAR_LOSS_SCALE 5
/* int64[1]; optional. CROSS_ENTROPY adds the rows whose label's logit is greater than all before it and not less than
 * any after it: the largest logit wins, and the first of equal ones. NaN is never correct. */
#define TSR_SCALAR_CORRECT 6
/* 7 and 8 are reserved: an int64 count of the targets that count, and a seed. */
#define TSR_ACCUMULATOR_LIMBS 20

/* The accumulator that CLIP reads has four run words after the limbs. The host sets them before each step, and they are
 * summed over the ranks with the limbs: so a rank whose part is missing is missing in ARRIVALS too, and all ranks read
 * in the same step what any of them asks for. The word that is left is 0. */
#define TSR_WORD_ARRIVALS 20 /* 1 of each rank; where ARRIVALS of CLIP is another number, CLIP gives {0, 0, norm} */
#define TSR_WORD_STOP 21     /* ranks that ask the run to end after this step */
#define TSR_WORD_SAVE 22     /* ranks that ask for a checkpoint after this step */
#define TSR_SQUARES_WORDS 24 /* limbs and run words */

/* FROZEN. A part of a flat home with its own hyper-parameters. */
typedef struct tsr_op_range {
  uint64_t offset;
  uint64_t num_elements;
  double weight_decay;
  double lr_scale; /* factor of the learning rate; 1: as it is */
  TSR_SPARE(2);
} tsr_op_range;

/* APPENDABLE. */
typedef struct tsr_op {
  uint32_t struct_size;
  uint32_t kind;
  uint32_t phase;
  tsr_dtype dtype;             /* values and parameters; elementwise: source */
  tsr_dtype gradient_dtype;    /* of parameters: float32 */
  tsr_dtype destination_dtype; /* cast */
  int64_t dims[TSR_NUM_DIMS];
  double attributes[TSR_NUM_ATTRIBUTES];
  double own[TSR_NUM_OWN];
  const tsr_op_range* ranges; /* optimizer, sum_squares: what of the home is meant; borrowed for the call */
  uint64_t num_ranges;
} tsr_op;

/* ---- the table ----------------------------------------------------------------------------------------------- */

/* Runs on the stream, after what was before it, on a thread of the device, and may block it unless the device shares
 * that thread among its streams (host_function). Any code but TSR_OK fails the stream with that code and *err, which
 * the function must fill then; without a message the device writes one. It submits no work to the device's streams. */
typedef tsr_status (*tsr_host_function)(void* user, tsr_error* err) TSR_NOEXCEPT;

/* APPENDABLE. */
typedef struct tsr_device_open_args {
  uint32_t struct_size;
  uint32_t index;       /* which device of this kind: the rank's local rank, which may be beyond the last */
  uint32_t num_threads; /* team of one rank on a CPU; >= 1 */
  uint32_t reserved;
  const tsr_host* host;
  const tsr_option_value* options;
  uint64_t num_options;
} tsr_device_open_args;

#define TSR_MEMORY_DEVICE 1u
#define TSR_MEMORY_HOST 2u /* pinned where that exists */
#define TSR_MEMORY_FILE 3u /* files of --offload-dir; of buffers only: no device allocates it */
/* Numbers from here on are reserved for memories that a run has besides: only COPY touches what is there. */
#define TSR_MEMORY_OTHER 16u

/* APPENDABLE. */
typedef struct tsr_device_interface {
  uint32_t struct_size;
  uint32_t reserved;
  /* "cpu.queue", "cuda.stream": a name for those of its streams, by which communicators say whose they take.
   * "cpu.queue" promises that streams run on threads of the process, and that memory of kind TSR_MEMORY_DEVICE is the
   * process's own too: communicators, the host and calls of strategies touch it from any thread. With a device of any
   * other kind they work on copies in memory of kind TSR_MEMORY_HOST, unless a communicator takes its streams. */
  tsr_str stream_kind;

  /* Lists the op's slots in launch order, in the caller's array. *num_slots: capacity in, count out, also when the call
   * returns RESOURCE_EXHAUSTED because the array is too small; nothing is written to it then. With a capacity of 0
   * `slots` may be NULL.
   * Errors: INVALID_ARGUMENT when struct_size is too small, or an extent the op needs is not positive (ELEMENTS may be
   * 0) or too large; UNSUPPORTED, naming it, for a kind, phase or dtype the device does not compute, and an attribute
   * or extent that is not 0 and that it does not know or cannot mean. No driver errors. Pure. [any-thread] */
  TSR_FN(tsr_status, describe)
  (const tsr_op* op, tsr_slot_spec* slots, uint64_t* num_slots, tsr_error* err) TSR_NOEXCEPT;

  /* Opens a device for one rank; *device is the caller's until close, and all that is made with it is destroyed or
   * released before. `args` is borrowed for the call; args->host outlives the device.
   * Errors: INVALID_ARGUMENT when struct_size is too small, num_threads is 0, or an option's value is refused;
   * UNAVAILABLE when there is no driver or no device `index`; UNSUPPORTED for a device older than the kernels;
   * RESOURCE_EXHAUSTED when the system grants no team of num_threads. May be called again after close.
   * [control-thread] */
  TSR_FN(tsr_status, open)(const tsr_device_open_args* args, tsr_device** device, tsr_error* err) TSR_NOEXCEPT;
  TSR_FN(void, close)
  (tsr_device* device) TSR_NOEXCEPT; /* NULL is allowed, here and in every destroy. [control-thread] */

  /* `num_bytes` of memory (TSR_MEMORY_*), 4096-aligned, contents undefined; with 0 bytes a pointer to be released and
   * not followed. *pointer is the caller's until release.
   * Errors: INVALID_ARGUMENT for another kind of memory; RESOURCE_EXHAUSTED when there is not that much, in a message
   * that says what was asked for; driver errors. [control-thread] */
  TSR_FN(tsr_status, allocate)
  (tsr_device* device, uint32_t memory, uint64_t num_bytes, void** pointer, tsr_error* err) TSR_NOEXCEPT;
  /* Ends what allocate gave, with `memory` as it was allocated; NULL is allowed. No work that uses it is in flight.
   * Cannot fail. [control-thread] */
  TSR_FN(void, release)(tsr_device* device, uint32_t memory, void* pointer) TSR_NOEXCEPT;

  /* A stream, independent of all others; the caller's until stream_destroy. `name` ("compute", "comm.dp.gradient") is
   * copied, for messages and tools; names that start with "comm" may be given priority. Errors: driver errors.
   * [control-thread] */
  TSR_FN(tsr_status, stream_create)(tsr_device* device, tsr_str name, tsr_stream** stream, tsr_error* err) TSR_NOEXCEPT;
  /* Waits for work in flight. NULL is allowed. [control-thread; working, failed] */
  TSR_FN(void, stream_destroy)(tsr_stream* stream) TSR_NOEXCEPT;
  /* Waits until all work submitted so far is done: OK, or the stream's first error, with its code and message, again at
   * every call, since a failed stream stays failed. After timeout_ms (0 looks once): the error if it is known by then,
   * though work may still be in flight, which stream_destroy waits for; else TSR_IN_PROGRESS.
   * Errors, beside those that host functions and collectives brought: INVALID_ARGUMENT for a negative timeout_ms and
   * for data out of range (a token, a target), FAILED_PRECONDITION for an optimizer that ran at step count 0, driver
   * errors. [control-thread; working, failed] */
  TSR_FN(tsr_status, stream_synchronize)(tsr_stream* stream, int64_t timeout_ms, tsr_error* err) TSR_NOEXCEPT;

  /* An event stands for the work before its last record, on whatever stream; recording it again is allowed once nothing
   * waits for it. The caller's until event_destroy. Errors: driver errors. [control-thread] */
  TSR_FN(tsr_status, event_create)(tsr_device* device, tsr_event** event, tsr_error* err) TSR_NOEXCEPT;
  TSR_FN(void, event_destroy)(tsr_event* event) TSR_NOEXCEPT; /* NULL is allowed. [control-thread] */
  /* The event now stands for the work submitted to `stream` so far. A record always completes, as failed if the stream
   * has failed: otherwise streams that wait for it would hang. Errors: driver errors. [issue-thread] */
  TSR_FN(tsr_status, event_record)(tsr_event* event, tsr_stream* stream, tsr_error* err) TSR_NOEXCEPT;
  /* Later work on `stream` starts after the work before the event's last record; at once if it was never recorded. If
   * that work failed, `stream` fails. Does not block.
   * Errors: FAILED_PRECONDITION when that record was in a capture that has ended; driver errors. [issue-thread] */
  TSR_FN(tsr_status, stream_wait)(tsr_stream* stream, tsr_event* event, tsr_error* err) TSR_NOEXCEPT;

  /* dst = src. They do not overlap and may be in any memory of this device or the host's. Both are in use until the
   * stream has done the copy. With memory of the host that the device did not allocate the call may wait for the
   * stream. Errors: driver errors. [issue-thread] */
  TSR_FN(tsr_status, copy)
  (tsr_stream* stream, void* dst, const void* src, uint64_t num_bytes, tsr_error* err) TSR_NOEXCEPT;
  /* Sets num_bytes bytes of memory of this device to the low 8 bits of `byte`. Errors: driver errors. [issue-thread] */
  TSR_FN(tsr_status, fill)
  (tsr_stream* stream, void* dst, uint32_t byte, uint64_t num_bytes, tsr_error* err) TSR_NOEXCEPT;
  /* Runs `function(user)` in stream order, exactly once, or not at all if the stream has failed. It waits for no other
   * stream of the device: one thread may run them all. `user` is the caller's and lives until the function has run or
   * the stream was synchronized or destroyed; in a capture, until the graph is destroyed. Where the function is skipped
   * nothing says so: the caller learns of it from stream_synchronize. Errors: driver errors; what the function returns
   * is not among them, it fails the stream. [any-thread] */
  TSR_FN(tsr_status, host_function)
  (tsr_stream* stream, tsr_host_function function, void* user, tsr_error* err) TSR_NOEXCEPT;
  /* The native handle ("cuda.stream": cudaStream_t), or NULL for a kind that the stream is not. It is the stream's.
   * [any-thread] */
  TSR_FN(void*, native_handle)(tsr_stream* stream, tsr_str kind) TSR_NOEXCEPT;

  /* A kernel for `op` with operands in the order and modes of `slots`. Copies what it keeps; *kernel is the caller's
   * until kernel_destroy. What is slow or may be refused is done here, so that launch only enqueues.
   * Errors: INVALID_ARGUMENT when struct_size is too small, a slot is not the op's, is missing though not optional, is
   * there twice or has another dtype, num_elements or mode than described, or a range of op.ranges is beyond ELEMENTS;
   * UNSUPPORTED as describe, and when the libraries an option asks for have no way to compute the op; driver errors.
   * [control-thread] */
  TSR_FN(tsr_status, prepare)
  (tsr_device* device, const tsr_op* op, const tsr_slot_spec* slots, uint64_t num_slots, tsr_kernel** kernel,
   tsr_error* err) TSR_NOEXCEPT;
  TSR_FN(void, kernel_destroy)
  (tsr_kernel* kernel) TSR_NOEXCEPT; /* none of its launches is in flight. [control-thread] */
  /* Enqueues the kernel; pointers[i] is the operand of slots[i] given to prepare, 4-byte aligned or better; the array
   * is copied, the operands are in use until the stream has run it. One kernel may be launched again before an earlier
   * launch has ended, on the same stream only.
   * Errors: INVALID_ARGUMENT for another number of pointers than slots; driver errors. [issue-thread] */
  TSR_FN(tsr_status, launch)
  (tsr_kernel* kernel, tsr_stream* stream, void* const* pointers, uint64_t num_pointers, tsr_error* err) TSR_NOEXCEPT;

  /* May be NULL. The tables below by id, or NULL for one the device does not have. Constants that live as long as the
   * process. [any-thread] */
  TSR_FN(const void*, get_extension)(tsr_str id) TSR_NOEXCEPT;
} tsr_device_interface;

/* ---- optional tables ----------------------------------------------------------------------------------------- */

/* Graphs: work of streams captured once and run again with one call (CUDA graphs). A graph holds the calls with their
 * pointers, not the data. */
#define TSR_DEVICE_CAPTURE "tsr.device.capture/1"
typedef struct tsr_graph tsr_graph;

/* APPENDABLE. */
typedef struct tsr_device_capture {
  uint32_t struct_size;
  uint32_t reserved;
  /* From now to end, work submitted to `stream`, and to streams that wait for an event recorded on a stream of the
   * capture since, is captured and not run. Errors: FAILED_PRECONDITION when `stream` is in a capture already; driver
   * errors. [issue-thread; working, failed] */
  TSR_FN(tsr_status, begin)(tsr_stream* stream, tsr_error* err) TSR_NOEXCEPT;
  /* Ends it, also when a call since has failed. Every other stream of the capture has an event after its last work that
   * `stream` waits for. *graph is the caller's until destroy. Events of the capture are recorded again before their
   * next use.
   * Errors: FAILED_PRECONDITION when no capture was begun on `stream`; INTERNAL when something was submitted that
   * cannot be captured; driver errors. Then there is no graph, nothing was run, and the streams take work as
   * before. [issue-thread; capturing] */
  TSR_FN(tsr_status, end)(tsr_stream* stream, tsr_graph** graph, tsr_error* err) TSR_NOEXCEPT;
  /* Runs what was captured, as one piece of work on `stream`: where one of its host functions fails, the others may be
   * skipped and `stream` has failed. Kernels and pointers in it are alive until it is done. Errors: FAILED_PRECONDITION
   * when `stream` is in a capture; driver errors. [issue-thread; working, failed] */
  TSR_FN(tsr_status, launch)(tsr_graph* graph, tsr_stream* stream, tsr_error* err) TSR_NOEXCEPT;
  /* None of its launches is in flight. NULL is allowed. [control-thread] */
  TSR_FN(void, destroy)(tsr_graph* graph) TSR_NOEXCEPT;
} tsr_device_capture;

/* Timeline semaphores as in Vulkan: how a stream waits for the host, or for a stream of another device, without
 * holding up a thread. A semaphore is a counter that the host raises. Signaling it needs nothing from the thread that
 * issues, which a full stream may hold up; and where the signal follows from work of this device, the waiting stream
 * waits for that work's event first, so that the device never puts the two into one queue the wrong way round. */
#define TSR_DEVICE_SEMAPHORE "tsr.device.semaphore/1"
typedef struct tsr_semaphore tsr_semaphore;

/* APPENDABLE. */
typedef struct tsr_device_semaphore {
  uint32_t struct_size;
  uint32_t reserved;
  /* A semaphore at 0, the caller's until destroy. Errors: UNSUPPORTED when the driver has no such wait; driver errors.
   * [control-thread] */
  TSR_FN(tsr_status, create)(tsr_device* device, tsr_semaphore** semaphore, tsr_error* err) TSR_NOEXCEPT;
  /* No stream waits for it; NULL is allowed. [control-thread] */
  TSR_FN(void, destroy)(tsr_semaphore* semaphore) TSR_NOEXCEPT;
  /* Later work on `stream` starts once the semaphore is at `value` or above (compared as int32 of the difference, so it
   * may wrap around). Such a wait has no time-out: a caller that fails signals the semaphore all the same.
   * Errors: driver errors. [issue-thread] */
  TSR_FN(tsr_status, wait)
  (tsr_stream* stream, tsr_semaphore* semaphore, uint32_t value, tsr_error* err) TSR_NOEXCEPT;
  /* Raises the semaphore to `value`; one that is above stays. What this thread wrote to memory before is seen by what
   * was waiting. Does not block, cannot fail. [any-thread] */
  TSR_FN(void, signal)(tsr_semaphore* semaphore, uint32_t value) TSR_NOEXCEPT;
} tsr_device_semaphore;

/* Memory of a device that has its own. */
#define TSR_DEVICE_MEMORY_INFO "tsr.device.memory_info/1"

/* APPENDABLE. */
typedef struct tsr_device_memory_info {
  uint32_t struct_size;
  uint32_t reserved;
  /* Bytes of the whole device, and of it in use by anyone, the driver and its libraries included. Errors: driver
   * errors. [control-thread] */
  TSR_FN(tsr_status, query)
  (tsr_device* device, uint64_t* total_bytes, uint64_t* used_bytes, tsr_error* err) TSR_NOEXCEPT;
} tsr_device_memory_info;

#ifdef __cplusplus
}
#endif
#endif
