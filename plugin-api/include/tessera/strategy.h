/* SPDX-License-Identifier: Apache-2.0 */
/* Tessera plugin ABI, kind "strategy": a compiler pass over the step program, for one axis of the mesh.
 *
 * The host creates an instance for each axis that a strategy is named for. For the axes of two or more ranks (over one
 * there is nothing to split) it calls layout, builds the base program, and calls lower for every program (init, step,
 * eval), by role and then innermost axis first. layout and lower are pure: their result depends on the view and the
 * options only, and they communicate with no other rank; the host plans other ranks by calling them with other
 * coordinates, on any thread. An instance has one state: what it does never changes. To find the place for a
 * collective, ask which actions bind a parameter, a gradient or a value, and which of them writes it last: the program
 * has no markers. A view is read only: the host compares it with its own after layout and lower, and ends the run,
 * naming the function, where it was written to.
 *
 * What data parallelism does to two lines of a step: after the last action that writes a gradient it inserts its
 * sum,
 *     42    comm.dp.gradient    all_reduce group=dp reduce=sum  a %61 dst  w %87 w:0  # 41
 *     43    compute             sum_squares home=wte.weight  r %61+28928:3072 src  a %17+0:20 x:squares  # 42
 * The workspace and the waits (after #) are the host's; the pass states neither. Since 0.12. */
#ifndef TESSERA_STRATEGY_H
#define TESSERA_STRATEGY_H

#include "program.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TSR_STRATEGY_INTERFACE "tsr.strategy/1"

typedef struct tsr_strategy tsr_strategy;

/* Order of passes: what runs where and when comes first, since it decides which actions there are; then what cuts the
 * work of an action; last what adds collectives to the actions that are left. Other orders would be silently wrong. */
#define TSR_STRATEGY_SCHEDULE 100u      /* pipeline: moves actions to stages, adds sends, sets the order */
#define TSR_STRATEGY_SPLIT_COMPUTE 200u /* tensor: layers are cut, partial results are reduced */
#define TSR_STRATEGY_SPLIT_STORAGE 300u /* ddp, fsdp, zero3: gathers parameters, sums gradients */

/* Splits storage of homes (fsdp) rather than replicating them (ddp); goes first within its role. */
#define TSR_STRATEGY_SHARDS_HOMES 1u

/* What becomes of a strategy's own state where a run is resumed from a checkpoint of another mesh, other strategies, or
 * another version of it. On the same ones each rank goes on with what it had. */
#define TSR_ON_CHANGE_RESET 1u  /* it begins anew, as `init` makes it, and the user is told */
#define TSR_ON_CHANGE_KEEP 2u   /* a rank takes what the rank of its number had, if that has this length and version */
#define TSR_ON_CHANGE_REFUSE 3u /* the run is not resumed, if it was saved under this or is resumed under this */

/* APPENDABLE. */
typedef struct tsr_state_description {
  uint32_t struct_size;
  uint32_t version;   /* of the contents, a number of the strategy's own: state of another version is not loaded */
  uint32_t on_change; /* TSR_ON_CHANGE_* */
  uint32_t reserved;
} tsr_state_description;

#define TSR_BEFORE 1u
#define TSR_AFTER 2u

/* APPENDABLE. Edits on the host's private copy of the program, committed when the pass returns OK. A pass reads the
 * view as it was at its start; new ids are usable at once; inserts at one anchor keep the order of the calls. The table
 * and `ctx` are the host's and end with the call of lower; what it is given is copied, what it returns are numbers.
 * Errors of every function: INVALID_ARGUMENT, in the cases named there. An edit that failed may be half done,
 * so a pass returns the first error it meets, and the host drops its copy. All: [the thread of the lower call] */
typedef struct tsr_edit {
  uint32_t struct_size;
  uint32_t reserved;
  void* ctx;
  /* The comm stream (axis or TSR_WORLD_AXIS, lane); made on first use. Collectives on one stream run one after another,
   * so those that should overlap take different lanes. Errors: INVALID_ARGUMENT for no such axis, and for a lane that
   * is empty or has dots or blanks: names of streams are joined with dots. */
  TSR_FN(tsr_status, add_stream)(void* ctx, int32_t axis, tsr_str lane, uint32_t* stream, tsr_error* err) TSR_NOEXCEPT;
  /* The group with these fields; made on first use. A rank outside of it may name it, and inserts no action for it.
   * Errors: INVALID_ARGUMENT for no such axis, coordinates that the axis does not have, that do not ascend or are there
   * twice; the world has no list of coordinates. */
  TSR_FN(tsr_status, add_group)(void* ctx, const tsr_group* group, int32_t* index, tsr_error* err) TSR_NOEXCEPT;
  /* A new buffer, transient unless its flags say otherwise; `buffer->id` and `buffer->strategy` are ignored. Its memory
   * is planned when all passes have run: a pass asks for no address. Errors: INVALID_ARGUMENT for an unknown kind,
   * dtype, memory or flag, and for a name that is not UTF-8 or has control characters. */
  TSR_FN(tsr_status, add_buffer)(void* ctx, const tsr_buffer* buffer, uint64_t* id, tsr_error* err) TSR_NOEXCEPT;
  /* Inserts a copy of `action` (its id is ignored) before or after action `anchor`; anchor 0: before the first or after
   * the last. Errors: INVALID_ARGUMENT when `where` is neither TSR_BEFORE nor TSR_AFTER; for an unknown anchor, kind,
   * stream, segment, home or buffer; for a range outside its buffer or an unknown mode; for a collective without a
   * group that exists; and on a rank outside the action's group, which would wait there for ever. */
  TSR_FN(tsr_status, insert)
  (void* ctx, uint64_t anchor, uint32_t where, const tsr_action* action, uint64_t* id, tsr_error* err) TSR_NOEXCEPT;
  /* Takes an action out; later actions can no longer wait for it. Errors: INVALID_ARGUMENT for an unknown action. */
  TSR_FN(tsr_status, remove)(void* ctx, uint64_t action, tsr_error* err) TSR_NOEXCEPT;
  /* Sets (or adds) the binding of `binding->slot` in an action. Errors: INVALID_ARGUMENT for an unknown action, buffer
   * or mode, or a range outside the buffer. Whether the action may have this slot is checked after all passes. */
  TSR_FN(tsr_status, bind)(void* ctx, uint64_t action, const tsr_binding* binding, tsr_error* err) TSR_NOEXCEPT;
  /* In all actions and homes: buffer `from` becomes buffer `to`, offsets plus `offset`. So several gradients move into
   * one bucket. Errors: INVALID_ARGUMENT for an unknown buffer, another dtype, or when `from` does not fit there. */
  TSR_FN(tsr_status, rebind)(void* ctx, uint64_t from, uint64_t to, uint64_t offset, tsr_error* err) TSR_NOEXCEPT;
  /* Where a home keeps a role; role->buffer 0: it has no such role any more. Errors: INVALID_ARGUMENT for an unknown
   * home, a number that is not a role's, an unknown buffer, or a range outside the buffer; UNSUPPORTED for a granule
   * other than 1. */
  TSR_FN(tsr_status, set_role)(void* ctx, uint64_t home, const tsr_home_role* role, tsr_error* err) TSR_NOEXCEPT;
  /* Replaces `homes` by one new home (NULL: by none). Actions that name one of them by `home` are bound
   * to the new home's roles, once per kind and group; the others of them are removed. `id` (may be NULL) gets the new
   * id. So fsdp makes one optimizer action of a unit's many. Errors: INVALID_ARGUMENT for an unknown home; as set_role
   * for the replacement's roles. */
  TSR_FN(tsr_status, replace_homes)
  (void* ctx, const uint64_t* homes, uint64_t num_homes, const tsr_home* replacement, uint64_t* id,
   tsr_error* err) TSR_NOEXCEPT;
  /* Replaces a BACKWARD by BACKWARD_INPUT then BACKWARD_WEIGHT; an id of 0 means that this half has nothing to do.
   * Buffers for contexts and workspaces of the halves are added. Errors: INVALID_ARGUMENT for an unknown action, one
   * that is not a BACKWARD, or that does not bind what its halves need; UNSUPPORTED when the device does not compute
   * the halves. */
  TSR_FN(tsr_status, split_backward)
  (void* ctx, uint64_t action, uint64_t* input, uint64_t* weight, tsr_error* err) TSR_NOEXCEPT;
  /* Schedule passes: the new order of all actions. Errors: INVALID_ARGUMENT unless every id is there exactly once. */
  TSR_FN(tsr_status, order)(void* ctx, const uint64_t* actions, uint64_t num_actions, tsr_error* err) TSR_NOEXCEPT;
  /* Removes buffers that no action binds and no home names: transient ones, and what homes used to be. Errors: none of
   * its own. */
  TSR_FN(tsr_status, collect_garbage)(void* ctx, tsr_error* err) TSR_NOEXCEPT;
  /* Makes `action` wait for `earlier`, which must come before it in the list when all passes have run, though they
   * share no buffer; if either is removed later, so is the wait. Errors: INVALID_ARGUMENT for an unknown action, or one
   * that would wait for itself. What the bindings ask for needs no such call: it is for what the pass knows has
   * happened, such as a send whose answer is received, so that the memory of `earlier` may be used again. */
  TSR_FN(tsr_status, wait_for)(void* ctx, uint64_t action, uint64_t earlier, tsr_error* err) TSR_NOEXCEPT;
  /* Inserts the sum of a home's gradient over the stages that have its parameters (a tied embedding's), before the
   * first action that reads it: what is inserted after `action` takes the sum. Without this call the host inserts it
   * when all passes have run, so that a pass which reads gradients of its axis must ask for it; all stages alike.
   * `action`: the sum's, also when it is there already; 0 where there is nothing to sum. Errors: INVALID_ARGUMENT for
   * an unknown home, or one of parameters that are on different stages. */
  TSR_FN(tsr_status, complete)(void* ctx, uint64_t home, uint64_t* action, tsr_error* err) TSR_NOEXCEPT;
  /* Says what becomes of the strategy's own state when a run is resumed; without it, TSR_ON_CHANGE_RESET and version 0.
   * In every program that has the buffer, and alike. Errors: INVALID_ARGUMENT for a buffer that is not a persistent
   * TSR_BUFFER_PLUGIN one of this strategy, an unknown on_change, and a second description that differs; ABI when
   * struct_size is too small. */
  TSR_FN(tsr_status, describe_state)
  (void* ctx, uint64_t buffer, const tsr_state_description* state, tsr_error* err) TSR_NOEXCEPT;
} tsr_edit;

/* APPENDABLE. Receives the layout entries of one strategy, which may only speak of its own axis; copies them. The table
 * and `ctx` end with the call of layout. */
typedef struct tsr_layout_sink {
  uint32_t struct_size;
  uint32_t reserved;
  void* ctx;
  /* Adds an entry after those that are there. Errors: INVALID_ARGUMENT for another axis than the strategy's own and for
   * no such parameter; UNSUPPORTED for parameter -1 unless it is a SPLIT of ROWS by a strategy that splits tensors.
   * Entries that do not go together are found when all layouts are there. [the thread of the layout call] */
  TSR_FN(tsr_status, add_entry)(void* ctx, const tsr_layout_entry* entry, tsr_error* err) TSR_NOEXCEPT;
} tsr_layout_sink;

/* APPENDABLE. */
typedef struct tsr_strategy_create_args {
  uint32_t struct_size;
  uint32_t reserved;
  const tsr_host* host;
  tsr_str axis; /* the axis's name; empty: for none */
  const tsr_option_value* options;
  uint64_t num_options;
} tsr_strategy_create_args;

/* APPENDABLE. What a CALL is run with; all of it is borrowed for the call. Gradients have the loss scale of the step
 * (TSR_SCALAR_LOSS_SCALE, which an action may bind), and CALLs of a step that is skipped since a gradient is not finite
 * run too (TSR_SCALAR_CLIP tells, after the action `clip`): the strategy's own state must not take either. */
typedef struct tsr_call {
  uint32_t struct_size;
  uint32_t num_threads; /* that it may use, its own included: those of a rank */
  uint64_t tag;
  const tsr_tensor_view* operands; /* in binding order, each of one dim, in host memory */
  uint64_t num_operands;
  int32_t coordinate;      /* of this rank on the strategy's axis */
  int32_t num_ranks;       /* of that axis */
  const tsr_op* optimizer; /* as in the view; with the ranges of the home that the action names */
} tsr_call;

/* APPENDABLE. create, destroy and lower must be there; the other functions may be NULL. */
typedef struct tsr_strategy_interface {
  uint32_t struct_size;
  uint32_t role;   /* TSR_STRATEGY_SCHEDULE, ... */
  uint32_t splits; /* mask of TSR_SPLITS_*: what its axis splits */
  uint32_t flags;  /* TSR_STRATEGY_SHARDS_HOMES, or 0 */
  /* An instance for one axis, also one of a single rank. `args` is borrowed for the call, but args->host outlives the
   * instance; *strategy is the caller's until destroy. What it is depends on the options alone and never changes.
   * Errors: INVALID_ARGUMENT for options that do not go together, naming them; ABI when struct_size is too small.
   * [control-thread] */
  TSR_FN(tsr_status, create)
  (const tsr_strategy_create_args* args, tsr_strategy** strategy, tsr_error* err) TSR_NOEXCEPT;
  TSR_FN(void, destroy)(tsr_strategy* strategy) TSR_NOEXCEPT; /* NULL is allowed. [control-thread] */
  /* How many step programs the run alternates between (step % variants); 0, 1 and NULL: one. At most one strategy of a
   * run may have more: the host refuses a second. Equal programs are one to it. Cannot fail. Pure. [any-thread] */
  TSR_FN(uint32_t, num_variants)(tsr_strategy* strategy) TSR_NOEXCEPT;
  /* 1: the program differs with this axis's coordinate; NULL or 0: the host plans one coordinate for all, and a rank
   * that plans another program is refused. Cannot fail. Pure. [any-thread] */
  TSR_FN(uint32_t, depends_on_coordinate)(tsr_strategy* strategy) TSR_NOEXCEPT;
  /* States how this axis splits each parameter. The view has model and mesh, and no program yet. NULL: all replicated.
   * View and sink are borrowed for the call. Errors: those of the sink; INVALID_ARGUMENT for an option that does not
   * fit the model (more stages than layers, heads that do not divide); UNSUPPORTED for a mesh or model that the
   * strategy cannot split; ABI when a struct_size is too small. The host puts strategy and axis before the message and
   * stops. Pure. [any-thread] */
  TSR_FN(tsr_status, layout)
  (tsr_strategy* strategy, const tsr_program_view* view, const tsr_layout_sink* sink, tsr_error* err) TSR_NOEXCEPT;
  /* The pass. View and edit table are borrowed for the call. Errors: the first one of the edit table; UNSUPPORTED for a
   * view it cannot work on (another strategy has split its homes; a purpose, a reduce_every or, if it slices homes, a
   * slice_granule that it does not know); INVALID_ARGUMENT
   * for an option that does not fit the program; ABI when a struct_size is too small. Then the host drops all its
   * edits, puts strategy and axis before the message and stops before step 1. Pure. [any-thread] */
  TSR_FN(tsr_status, lower)
  (tsr_strategy* strategy, const tsr_program_view* view, const tsr_edit* edit, tsr_error* err) TSR_NOEXCEPT;
  /* Runs a CALL action of this strategy, which may write the operands that are bound with write or add. NULL: the
   * strategy inserts none. Deterministic, whatever num_threads: all ranks must go on alike.
   * Errors: UNSUPPORTED for an unknown tag; any code fails the stream and so ends the step. [the stream's thread] */
  TSR_FN(tsr_status, call)(tsr_strategy* strategy, const tsr_call* call, tsr_error* err) TSR_NOEXCEPT;
  /* Optional tables by id, or NULL; there is none so far. Constants that live as long as the process. [any-thread] */
  TSR_FN(const void*, get_extension)(tsr_str id) TSR_NOEXCEPT;
} tsr_strategy_interface;

#ifdef __cplusplus
}
#endif
#endif
