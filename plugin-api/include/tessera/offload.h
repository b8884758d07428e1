/* SPDX-License-Identifier: Apache-2.0 */
/* Tessera plugin ABI, kind "offload": a policy that decides what leaves device memory, when, and to which memory.
 *
 * A policy moves nothing. The host shows it a finished step as a list of *visits* (actions in a row that belong
 * together: one block's forward, one block's backward, one update) and the *items* they use (buffers in device
 * memory). The policy answers: after this visit the item leaves, to that memory, and is fetched so many visits before
 * its next use. The host turns the answers into copies, leaves out those of data that is still valid, and checks,
 * orders and places the result like any other program. So a policy cannot make a step wrong, only slow or too large,
 * and no policy changes a bit of any result. A policy has one state: what it decides never changes.
 *
 * What `activations` does to a saved tensor of a model of two blocks:
 *     5     compute   forward h.0.attention mb=0  r %28 i:qkv  w %29 o:attended  w %30 s:0  w %31 w:0
 *     %61 = saved h.0.attention mb=0 host f32[128]
 *     23    evict     copy  r %30 src  w %61 dst  # 5
 *     %113 = fetched h.0.attention mb=0 f32[128]
 *     69    fetch     copy  r %61 src  w %113 dst
 * and the backward reads %113 where it would have read %30.
 * Since 0.12. */
#ifndef TESSERA_OFFLOAD_H
#define TESSERA_OFFLOAD_H

#include "program.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TSR_OFFLOAD_INTERFACE "tsr.offload/1"

typedef struct tsr_offload tsr_offload;

#define TSR_VISIT_FORWARD 1u
#define TSR_VISIT_BACKWARD 2u /* recomputation included */
#define TSR_VISIT_LOSS 3u
#define TSR_VISIT_UPDATE 4u /* one home: sum_squares after the last backward, or optimizer */
#define TSR_VISIT_OTHER 5u  /* casts, clip, what comes before the first compute action */

/* FROZEN. Actions in a row: the compute of one block (or of one segment outside of blocks) for one micro-batch in one
 * direction, or the update of one home, and whatever comes between them and the next visit. */
typedef struct tsr_visit {
  uint64_t first_action, last_action; /* indices of program->actions, inclusive */
  uint32_t kind;                      /* TSR_VISIT_* */
  int32_t unit;                       /* of which it uses most parameters; -1: none */
  int32_t micro_batch;                /* -1: of the step */
  uint32_t reserved;
  double operations;   /* floating-point operations of matrix products and attention */
  uint64_t num_bytes;  /* that its actions read and write */
  uint64_t live_bytes; /* most device memory in use during it, as the program is */
  TSR_SPARE(2);
} tsr_visit;

/* FROZEN. One item in one visit. */
typedef struct tsr_use {
  uint32_t visit;
  uint32_t mode;      /* TSR_MODE_READ if no action of the visit writes or adds, else TSR_MODE_ADD */
  uint64_t num_bytes; /* of the range that is used */
  TSR_SPARE(2);
} tsr_use;

/* FROZEN. A buffer in device memory that may leave: parameters, optimizer state, a value, a saved tensor, a gathered or
 * cast copy, a strategy's own. Transient ones are listed if two visits or more use them; what an earlier policy has
 * moved is not listed. */
typedef struct tsr_item {
  uint64_t buffer; /* the buffer's id is the item's */
  tsr_str name;
  uint32_t kind;  /* TSR_BUFFER_* */
  uint32_t flags; /* TSR_BUFFER_PERSISTENT or 0 */
  int32_t unit;   /* whose parameters it belongs to; -1: none, or several */
  uint32_t reserved;
  uint64_t num_bytes;
  const tsr_use* uses; /* by ascending visit */
  uint64_t num_uses;
  TSR_SPARE(2);
} tsr_item;

/* FROZEN. A memory that items may leave for. */
typedef struct tsr_place {
  uint32_t memory; /* TSR_MEMORY_*; a policy leaves those it does not know alone */
  uint32_t reserved;
  uint64_t num_bytes; /* that this rank may use of it; UINT64_MAX: no limit is known */
  TSR_SPARE(2);
} tsr_place;

/* APPENDABLE. All a policy may look at. Borrowed for the call. */
typedef struct tsr_offload_view {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t device_bytes;           /* that may be in use at once on the device; UINT64_MAX: no limit is known */
  const tsr_program_view* program; /* its axis is TSR_WORLD_AXIS */
  const tsr_place* places;
  const tsr_visit* visits;
  const tsr_item* items;
  uint64_t num_places, num_visits, num_items;
} tsr_offload_view;

/* FROZEN. After visit `after`, which uses it, the item leaves device memory, and it is back `ahead` visits before the
 * visit that uses it next. What was written meanwhile is copied out, on a stream of its own; the device memory is free
 * `linger` visits later, or when the item's next fetch begins. A persistent item that leaves rests in the other memory
 * between programs: it leaves after its last use too, and all its answers name one memory. */
typedef struct tsr_leave {
  uint64_t buffer;
  uint32_t after;  /* visit */
  uint32_t memory; /* TSR_MEMORY_* of one of the view's places */
  uint32_t ahead;
  uint32_t linger;
  TSR_SPARE(2);
} tsr_leave;

/* APPENDABLE. Receives a policy's answers, and copies them. An answer that failed is dropped; a policy returns the
 * first error it meets. The table and `ctx` are the host's and end with the call of plan. */
typedef struct tsr_offload_sink {
  uint32_t struct_size;
  uint32_t reserved;
  void* ctx;
  /* Errors: INVALID_ARGUMENT for a buffer that is not an item, a visit that does not use it, a transient item's last
   * use, a memory that is not one of the places, and a second answer for the same item and visit. That a persistent
   * item's answers go together is checked when plan has returned. [the thread of the plan call] */
  TSR_FN(tsr_status, leave)(void* ctx, const tsr_leave* leave, tsr_error* err) TSR_NOEXCEPT;
  /* Runs an action of the program, by its id, on the host's processor, on a stream of its own. It works on its items in
   * host memory: each has left for it after the last visit before that uses the item on the device; a persistent one
   * rests there. The host copies the scalars that it reads, and adds up what it sums. May be NULL or missing, where
   * nothing runs on the host (TSR_HAS_FN). Errors: INVALID_ARGUMENT for an id that is not an action's, an action that
   * is not COPY, CAST, ADD_INTO, SCALE, ZERO, SUM_SQUARES or OPTIMIZER, which have the same bits on every device, an
   * operand that is neither an item nor a scalar of the step, an action that runs there already, and where the device
   * cannot wait for the host. That the items are there is checked when plan has returned. [the thread of the plan call]
   */
  TSR_FN(tsr_status, run_on_host)(void* ctx, uint64_t action, tsr_error* err) TSR_NOEXCEPT;
} tsr_offload_sink;

/* APPENDABLE. */
typedef struct tsr_offload_create_args {
  uint32_t struct_size;
  uint32_t reserved;
  const tsr_host* host;
  const tsr_option_value* options;
  uint64_t num_options;
} tsr_offload_create_args;

/* The homes that updates name are cut into chunks of --offload-chunk bytes before policies are asked, so that optimizer
 * state can come and go piece by piece. */
#define TSR_OFFLOAD_CUTS_HOMES 1u
/* Compute copies of 16 bits are cast for every run of uses, not once a program, so that parameters can leave between
 * them. */
#define TSR_OFFLOAD_CASTS_ANEW 2u

/* APPENDABLE. create, destroy and plan must be there; get_extension may be NULL. */
typedef struct tsr_offload_interface {
  uint32_t struct_size;
  uint32_t flags; /* TSR_OFFLOAD_* */
  /* A policy with these options. `args` is borrowed for the call, but args->host outlives the policy; *policy is the
   * caller's until destroy. Errors: INVALID_ARGUMENT for options that do not go together, naming them; ABI when
   * struct_size is too small. [control-thread] */
  TSR_FN(tsr_status, create)
  (const tsr_offload_create_args* args, tsr_offload** policy, tsr_error* err) TSR_NOEXCEPT;
  TSR_FN(void, destroy)(tsr_offload* policy) TSR_NOEXCEPT; /* NULL is allowed. [control-thread] */
  /* Decides, once for each step program of each rank that the host plans; where the placed programs need more than
   * device_bytes, again with device_bytes lowered by the excess. View and sink are borrowed for the call. With nothing
   * to gain a policy says nothing and succeeds. Errors: the first one of the sink; INVALID_ARGUMENT for what it cannot
   * decide with these options, saying what to give; RESOURCE_EXHAUSTED when no answer is enough for device_bytes,
   * naming the visit; either before its first answer. ABI when a struct_size is too small. The host puts the policy's
   * name before the message and stops before step 1. Pure: equal views and options, equal answers, on any rank.
   * [any-thread] */
  TSR_FN(tsr_status, plan)
  (tsr_offload* policy, const tsr_offload_view* view, const tsr_offload_sink* sink, tsr_error* err) TSR_NOEXCEPT;
  /* Optional tables by id, or NULL; there is none so far. Constants that live as long as the process. [any-thread] */
  TSR_FN(const void*, get_extension)(tsr_str id) TSR_NOEXCEPT;
} tsr_offload_interface;

#ifdef __cplusplus
}
#endif
#endif
