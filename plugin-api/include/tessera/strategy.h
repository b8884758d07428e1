/* Tessera plugin ABI, kind "strategy": a compiler pass over the step program, for one axis of the mesh.
 *
 * The host creates one instance per axis. For the axes of two or more ranks (over one there is nothing to split) it
 * calls layout, builds the base program, and calls lower for every program (init, step, eval), by role and then
 * innermost axis first. layout and lower are pure: their result depends on the view and the options only, and they talk
 * to nobody; the host plans other ranks by calling them with other coordinates, on any thread. Finding places: ask
 * which actions bind a parameter, a gradient or a value, and who writes it last; there are no markers. Since 0.9. */
#ifndef TESSERA_STRATEGY_H
#define TESSERA_STRATEGY_H

#include "program.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TSR_STRATEGY_INTERFACE "tsr.strategy/1"

typedef struct tsr_strategy tsr_strategy;

/* Order of passes. */
#define TSR_STRATEGY_SCHEDULE 1u
#define TSR_STRATEGY_SPLIT_COMPUTE 2u
#define TSR_STRATEGY_SPLIT_STORAGE 3u

/* Splits storage of homes (fsdp) rather than replicating them (ddp); goes first within its role. */
#define TSR_STRATEGY_SHARDS_HOMES 1u

#define TSR_BEFORE 1u
#define TSR_AFTER 2u

/* APPENDABLE. Edits on the host's private copy of the program, committed when the pass returns OK. A pass reads the
 * view as it was at its start; new ids are usable at once; inserts at one anchor keep the order of the calls. Every
 * function returns INVALID_ARGUMENT for an unknown id or a range outside its buffer, and copies what it is given; a
 * pass returns the first error it meets. [the thread of the lower call] */
typedef struct tsr_edit {
  uint32_t struct_size;
  uint32_t reserved;
  void* ctx;
  /* The comm stream (axis or TSR_WORLD_AXIS, lane); made on first use. */
  TSR_FN(tsr_status, add_stream)(void* ctx, int32_t axis, tsr_str lane, uint32_t* stream, tsr_error* err) TSR_NOEXCEPT;
  /* The group with these fields; made on first use. A rank outside of it may name it, and inserts no action for it. */
  TSR_FN(tsr_status, add_group)(void* ctx, const tsr_group* group, int32_t* index, tsr_error* err) TSR_NOEXCEPT;
  /* `buffer->id` is ignored. */
  TSR_FN(tsr_status, add_buffer)(void* ctx, const tsr_buffer* buffer, uint64_t* id, tsr_error* err) TSR_NOEXCEPT;
  /* Inserts a copy of `action` (its id is ignored) before or after action `anchor`; anchor 0: before the first or after
   * the last. INVALID_ARGUMENT on a rank outside the action's group. */
  TSR_FN(tsr_status, insert)
  (void* ctx, uint64_t anchor, uint32_t where, const tsr_action* action, uint64_t* id, tsr_error* err) TSR_NOEXCEPT;
  TSR_FN(tsr_status, remove)(void* ctx, uint64_t action, tsr_error* err) TSR_NOEXCEPT;
  /* Sets (or adds) the binding of `binding->slot` in an action. */
  TSR_FN(tsr_status, bind)(void* ctx, uint64_t action, const tsr_binding* binding, tsr_error* err) TSR_NOEXCEPT;
  /* In all actions and homes: buffer `from` becomes buffer `to`, offsets plus `offset`. */
  TSR_FN(tsr_status, rebind)(void* ctx, uint64_t from, uint64_t to, uint64_t offset, tsr_error* err) TSR_NOEXCEPT;
  /* Where a home keeps a role (TSR_HOME_*). */
  TSR_FN(tsr_status, set_role)
  (void* ctx, uint64_t home, uint32_t role, const tsr_home_role* place, tsr_error* err) TSR_NOEXCEPT;
  /* Replaces `homes` by one new home (NULL: by none). Actions that name one of them by `home` are bound
   * to the new home's roles, once per kind and group; the others of them are removed. `id` (may be NULL) gets the new
   * id. */
  TSR_FN(tsr_status, replace_homes)
  (void* ctx, const uint64_t* homes, uint64_t num_homes, const tsr_home* replacement, uint64_t* id,
   tsr_error* err) TSR_NOEXCEPT;
  /* Replaces a BACKWARD by BACKWARD_INPUT then BACKWARD_WEIGHT; an id of 0 says that this half has nothing to do. */
  TSR_FN(tsr_status, split_backward)
  (void* ctx, uint64_t action, uint64_t* input, uint64_t* weight, tsr_error* err) TSR_NOEXCEPT;
  /* Schedule passes: the new order of all actions; every id exactly once. */
  TSR_FN(tsr_status, order)(void* ctx, const uint64_t* actions, uint64_t num_actions, tsr_error* err) TSR_NOEXCEPT;
  /* Removes buffers that no action binds and no home names: transient ones, and what homes used to be. */
  TSR_FN(tsr_status, collect_garbage)(void* ctx, tsr_error* err) TSR_NOEXCEPT;
  /* Makes `action` wait for `earlier`, which must stand before it in the list when all passes have run, though they
   * share no buffer. What the bindings ask for needs no such call: it is for what the pass knows has happened, such as
   * a send whose answer is received, so that the memory of `earlier` may be used again. */
  TSR_FN(tsr_status, wait_for)(void* ctx, uint64_t action, uint64_t earlier, tsr_error* err) TSR_NOEXCEPT;
} tsr_edit;

/* APPENDABLE. Receives the layout entries of one strategy, which may only speak of its own axis; copies them. Every
 * function returns INVALID_ARGUMENT for an entry that is not allowed. [the thread of the layout call] */
typedef struct tsr_layout_sink {
  uint32_t struct_size;
  uint32_t reserved;
  void* ctx;
  TSR_FN(tsr_status, add_split)(void* ctx, const tsr_split* split, tsr_error* err) TSR_NOEXCEPT;
} tsr_layout_sink;

/* APPENDABLE. */
typedef struct tsr_strategy_create {
  uint32_t struct_size;
  uint32_t reserved;
  const tsr_host* host;
  tsr_str axis; /* the axis's name */
  const tsr_option_value* options;
  uint64_t num_options;
} tsr_strategy_create;

/* APPENDABLE. create, destroy and lower must be there; the other functions may be NULL. */
typedef struct tsr_strategy_interface {
  uint32_t struct_size;
  uint32_t role;   /* TSR_STRATEGY_SCHEDULE, ... */
  uint32_t splits; /* TSR_SPLITS_*: what its axis splits */
  uint32_t flags;
  /* An instance for one axis. `args` is borrowed for the call, but args->host outlives the instance. [control-thread]
   */
  TSR_FN(tsr_status, create)(const tsr_strategy_create* args, tsr_strategy** strategy, tsr_error* err) TSR_NOEXCEPT;
  TSR_FN(void, destroy)(tsr_strategy* strategy) TSR_NOEXCEPT; /* NULL is allowed. [control-thread] */
  /* How many step programs the run alternates between (step % variants); NULL: one. Pure. [any-thread] */
  TSR_FN(uint32_t, num_variants)(tsr_strategy* strategy) TSR_NOEXCEPT;
  /* 1: the program differs with this axis's coordinate; NULL or 0: the host plans one coordinate for all, and a rank
   * that plans another program is refused. Pure. [any-thread] */
  TSR_FN(uint32_t, depends_on_coordinate)(tsr_strategy* strategy) TSR_NOEXCEPT;
  /* States how this axis cuts each parameter. The view has model and mesh, and no program yet. NULL: all replicated.
   * Pure. [any-thread] */
  TSR_FN(tsr_status, layout)
  (tsr_strategy* strategy, const tsr_program_view* view, const tsr_layout_sink* sink, tsr_error* err) TSR_NOEXCEPT;
  /* The pass. Pure. [any-thread] */
  TSR_FN(tsr_status, lower)
  (tsr_strategy* strategy, const tsr_program_view* view, const tsr_edit* edit, tsr_error* err) TSR_NOEXCEPT;
  /* Runs a CALL action of this strategy: operands in binding order, in host memory. NULL: the strategy inserts none.
   * [the stream's thread] */
  TSR_FN(tsr_status, call)
  (tsr_strategy* strategy, uint64_t tag, const tsr_tensor_view* operands, uint64_t num_operands,
   tsr_error* err) TSR_NOEXCEPT;
  /* Optional tables by id, or NULL. [any-thread] */
  TSR_FN(const void*, get_extension)(tsr_str id) TSR_NOEXCEPT;
} tsr_strategy_interface;

#ifdef __cplusplus
}
#endif
#endif
