/* SPDX-License-Identifier: Apache-2.0 */
/* Tessera plugin ABI: a step as a program. Model, mesh, buffers, actions, homes and layouts as arrays of FROZEN
 * structs.
 *
 * A program means: run the list of actions from top to bottom. Every action states all it touches as bindings {buffer,
 * offset, num_elements, mode, slot}. The host derives what must wait for what from the bindings; streams and positions
 * only make a program fast. Nothing crosses a step boundary but persistent buffers.
 *
 * All arrays here are read-only snapshots, valid during the call that received them. Indices (axis, strategy,
 * parameter, unit, value, segment, stream, group) count from 0; ids (buffer, action, home) are 64-bit, never 0, stable
 * over all passes. Kinds of actions, buffers, streams and values, memories, roles of homes, ops and purposes are open
 * sets: what has a number that a pass does not know it leaves alone.
 *
 * The words: a *unit* is the parameters that are sharded together, laid out once as one flat range. A *home* is what
 * this rank owns of some parameters: its shard of the value, of the gradient and of the optimizer's state, one buffer
 * range a role. A *segment* is the smallest compute between two places where a collective may be needed; a *value* is
 * what flows between segments. An *action* is a line of the program: a segment's forward or backward for one
 * micro-batch, a collective, a copy, an optimizer. A line as `tessera plan --print-program` prints it:
 *     13    compute   forward h.0.fc_proj mb=0  r %26+9088:4096 p:mlp.c_proj.weight  r %41 i:hidden  w %43 o:ffn_out
 * action 13 on the stream compute: reads 4096 elements of buffer 26 from 9088 on as parameter 0, buffer 41 as input 0,
 * and writes buffer 43 as output 0. This file has structs only: no function, and so no error, ownership or thread but
 * those of the call that hands them over. Since 0.12. */
#ifndef TESSERA_PROGRAM_H
#define TESSERA_PROGRAM_H

#include "communicator.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- mesh ---------------------------------------------------------------------------------------------------- */

/* What an axis splits: a mask. So far one bit; SEQUENCE, and several, are reserved and refused. */
#define TSR_SPLITS_BATCH 1u    /* ranks see different tokens: ddp, fsdp, zero3 */
#define TSR_SPLITS_LAYERS 2u   /* ranks have different layers: pipeline */
#define TSR_SPLITS_TENSORS 4u  /* ranks have parts of every layer and see the same tokens: tensor */
#define TSR_SPLITS_SEQUENCE 8u /* ranks see different tokens of the same sequences */
#define TSR_WORLD_AXIS (-1)    /* no axis of the mesh: all ranks of the job */

/* FROZEN. One axis of the mesh, outermost first; `coordinate` is this rank's. */
typedef struct tsr_axis {
  tsr_str name;
  int32_t num_ranks;
  int32_t coordinate;
  uint32_t splits; /* TSR_SPLITS_*: what the axis's strategies declare */
  uint32_t reserved;
  TSR_SPARE(2);
} tsr_axis;

/* FROZEN. A strategy of the run: actions and buffers name it by its index. So far one an axis. */
typedef struct tsr_strategy_info {
  tsr_str name;  /* of the plugin */
  int32_t axis;  /* TSR_WORLD_AXIS: of none */
  uint32_t role; /* TSR_STRATEGY_* */
  TSR_SPARE(2);
} tsr_strategy_info;

/* FROZEN. The ranks that differ in one axis, or a listed subset of them, or the world (axis TSR_WORLD_AXIS). */
typedef struct tsr_group {
  int32_t axis;
  uint32_t num_coordinates;   /* 0: all of the axis; of the world so far always */
  const int32_t* coordinates; /* ascending; of the world: world ranks */
  TSR_SPARE(2);
} tsr_group;

/* ---- model --------------------------------------------------------------------------------------------------- */

/* FROZEN. One dim of a tensor: `blocks` equal blocks, each of which may be cut at multiples of `granule` elements. The
 * fused q|k|v of attention has 3 blocks: a rank's heads are a part of each, not a third of the whole. */
typedef struct tsr_dim {
  uint32_t name; /* TSR_DIM_* */
  uint32_t blocks;
  int64_t extent;
  int64_t granule;
  TSR_SPARE(2);
} tsr_dim;

#define TSR_PARAMETER_FROZEN 1u /* no gradient, no optimizer state */

/* FROZEN. */
typedef struct tsr_parameter {
  tsr_str name; /* Hugging Face's, without prefix */
  const tsr_dim* dims;
  uint32_t num_dims;
  int32_t unit;
  uint64_t num_elements; /* of the whole parameter */
  uint64_t unit_offset;  /* where it starts in its unit: a multiple of 128 elements; trainable ones come first, and have
                            buffers of their own */
  uint64_t partial_axes; /* bit a: a rank's gradient is an addend of the sum over axis a, as that of its rows is where
                            rows are split. Axes that split the batch are not listed */
  uint32_t flags;        /* TSR_PARAMETER_* */
  uint32_t reserved;
  TSR_SPARE(4);
} tsr_parameter;

/* FROZEN. Parameters that are sharded together. */
typedef struct tsr_unit {
  tsr_str name;
  uint64_t num_elements; /* of its flat buffers, pads included */
  TSR_SPARE(2);
} tsr_unit;

#define TSR_VALUE_ACTIVATION 1u
#define TSR_VALUE_INPUT 2u /* read from the data; `input` says what */

#define TSR_PLACEMENT_REPLICATED 1u /* whole on each rank that has it */
#define TSR_PLACEMENT_SPLIT 2u      /* a rank has a part of the dim of that name */
#define TSR_PLACEMENT_PARTIAL 3u    /* a rank has an addend of it */

/* FROZEN. Where a value is, over one axis. */
typedef struct tsr_placement {
  uint32_t kind;   /* TSR_PLACEMENT_* */
  uint32_t dim;    /* SPLIT: TSR_DIM_*, which may be ROWS; else 0 */
  uint32_t reduce; /* PARTIAL: TSR_REDUCE_* that completes it; else 0 */
  uint32_t reserved;
  TSR_SPARE(2);
} tsr_placement;

/* FROZEN. What flows between segments, one buffer a micro-batch. */
typedef struct tsr_value {
  tsr_str name;
  const tsr_dim* dims;
  uint32_t num_dims;
  uint32_t kind;       /* TSR_VALUE_* */
  int32_t gradient_of; /* its gradient is the buffer of that value's gradient; -1: it has its own */
  tsr_dtype dtype;
  uint64_t num_elements; /* of this rank and micro-batch */
  int32_t same_as;       /* this value is that one in another placement: a strategy makes one of the other; -1: none */
  uint32_t reserved;
  const tsr_placement* placements; /* [num_axes], once the value is complete */
  tsr_str input; /* INPUT: "tokens", "targets", "features", "labels", or what the model calls it; else empty */
  TSR_SPARE(4);
} tsr_value;

/* FROZEN. A contracted dim: split it and the segment's outputs are partial until they are reduced. */
typedef struct tsr_contraction {
  uint32_t dim;    /* TSR_DIM_* */
  uint32_t reduce; /* TSR_REDUCE_* that completes the outputs */
  TSR_SPARE(2);
} tsr_contraction;

/* APPENDABLE. What follows from the entry of a segment's op for who splits its dims. */
typedef struct tsr_segment_rule {
  uint32_t struct_size;
  uint32_t reserved;
  const tsr_contraction* contractions;
  uint64_t num_contractions;
} tsr_segment_rule;

#define TSR_SEGMENT_TAIL 1u /* of the model's end, from the head to the loss: stays in one piece, on one stage */

/* FROZEN. The smallest compute between two places where a collective may be needed: fusion happens within a segment,
 * never across one. Slot indices are positions in `parameters`, `inputs`, `outputs`. */
typedef struct tsr_segment {
  tsr_str name;
  const tsr_op* op; /* without phase; extents of this rank and micro-batch */
  const tsr_segment_rule* rule;
  const int32_t* parameters;
  const int32_t* inputs; /* values */
  const int32_t* outputs;
  uint32_t num_parameters;
  uint32_t num_inputs;
  uint32_t num_outputs;
  uint32_t flags; /* TSR_SEGMENT_* */
  int32_t block;  /* segments of one block are recomputed together; -1: of none */
  uint32_t reserved;
  TSR_SPARE(4);
} tsr_segment;

/* ---- layout: which rank owns which part of a parameter ------------------------------------------------------- */

/* Roles of a home: numbers below 32. A strategy that splits homes treats the roles that it does not know like the
 * states of the optimizer that it does. */
#define TSR_HOME_VALUE 0u              /* the parameters; float32, unless there is a master */
#define TSR_HOME_MASTER 1u             /* float32 values where VALUE is a copy of 16 bits */
#define TSR_HOME_GRADIENT 2u           /* transient, float32 */
#define TSR_HOME_STATE(k) (16u + (k))  /* state k of the optimizer: view.states[k] */
#define TSR_HOME_M TSR_HOME_STATE(0u)  /* AdamW's first moment, SGD's momentum */
#define TSR_HOME_V TSR_HOME_STATE(1u)  /* AdamW's second moment */
#define TSR_ALL_HOME_ROLES 0xffffffffu /* of a mask: later ones too */

#define TSR_LAYOUT_REPLICATED 1u /* whole on the listed coordinates, all if none is */
#define TSR_LAYOUT_SPLIT 2u      /* each coordinate has a part; the parts are the whole, and padding */
/* Each coordinate has its own whole (local SGD): of an axis that splits the batch, all trainable parameters in all
 * roles or none. The host then scales the loss by 1/(tokens of the ranks that share parameters), so that gradients,
 * which are not summed over the axis, are those of these ranks' mean; and it sums squares over the other axes only. */
#define TSR_LAYOUT_DIVERGENT 3u

/* FROZEN. One entry of a parameter's layout; the order of entries is the order of application. Entries of one parameter
 * and axis are for different roles. No entry for an axis means replicated over all its coordinates. */
typedef struct tsr_layout_entry {
  int32_t parameter; /* -1: none, but the dim `name` of values, SPLIT wherever the ops allow. So far ROWS over a tensors
                        axis, of values that pass between segments which work row by row: sequence parallelism */
  int32_t axis;
  uint32_t roles; /* bit 1 << TSR_HOME_* */
  uint32_t kind;  /* TSR_LAYOUT_* */
  int32_t dim;    /* SPLIT: which dim, or -1: of the flat elements */
  uint32_t parts;
  uint32_t blocks;
  uint32_t num_coordinates;   /* REPLICATED over a subset; 0: all */
  const int32_t* coordinates; /* REPLICATED: the subset; SPLIT into whole owners: the owner */
  uint64_t padded_size;       /* SPLIT: extent that is cut into `parts`, >= the dim's */
  uint32_t name;              /* parameter -1: TSR_DIM_*; else 0 */
  uint32_t reserved;
  TSR_SPARE(2);
} tsr_layout_entry;

/* FROZEN. The range in which a home keeps one role: one element of it for `granule` elements of the home. */
typedef struct tsr_home_role {
  uint32_t number;  /* TSR_HOME_* */
  uint32_t granule; /* 1; others, for states of blocks, are reserved and refused so far */
  uint64_t buffer;
  uint64_t offset;
  uint64_t num_elements;
  TSR_SPARE(2);
} tsr_home_role;

/* FROZEN. num_elements of `parameter`, from parameter_offset on, are at home_offset of every role of the home. */
typedef struct tsr_piece {
  int32_t parameter;
  uint32_t reserved;
  uint64_t parameter_offset;
  uint64_t num_elements;
  uint64_t home_offset;
  TSR_SPARE(2);
} tsr_piece;

/* FROZEN. What this rank owns of some parameters; `unit` is the first one's. Pieces ascend by home_offset; elements in
 * no piece are padding, which is zero and stays zero. */
typedef struct tsr_home {
  uint64_t id;
  tsr_str name;
  int32_t unit;
  uint32_t num_pieces;
  const tsr_piece* pieces;
  uint64_t num_elements;
  const tsr_home_role* roles; /* that it has, by ascending number */
  uint32_t num_roles;
  uint32_t reserved;
  TSR_SPARE(2);
} tsr_home;

/* ---- program ------------------------------------------------------------------------------------------------- */

/* What a buffer is for: reports add memory up by kind, and a pass finds its way by it. */
#define TSR_BUFFER_HOME 1u       /* values of parameters, float32 masters */
#define TSR_BUFFER_GRADIENT 2u   /* gradients of parameters; transient */
#define TSR_BUFFER_OPTIMIZER 3u  /* states of the optimizer */
#define TSR_BUFFER_GATHERED 4u   /* parameters gathered from shards, compute copies */
#define TSR_BUFFER_ACTIVATION 5u /* values and their gradients */
#define TSR_BUFFER_SAVED 6u      /* written by forward for backward, context of split backwards */
#define TSR_BUFFER_STAGING 7u
#define TSR_BUFFER_WORKSPACE 8u
#define TSR_BUFFER_INPUT 9u   /* tokens, targets: written by the host before the program */
#define TSR_BUFFER_SCALAR 10u /* learning rate, clip result, step: fixed, read and written by the host */
#define TSR_BUFFER_ACCUMULATOR 11u
#define TSR_BUFFER_PLUGIN 12u  /* a strategy's own: a persistent one is (strategy, name), the same in all programs */
#define TSR_BUFFER_FETCHED 13u /* a copy, in device memory, of what is kept in another memory */

#define TSR_BUFFER_PERSISTENT 1u /* lives across programs, at one address in all of them */

/* FROZEN. */
typedef struct tsr_buffer {
  uint64_t id;
  uint64_t num_elements;
  tsr_str name; /* for printing: what it is about, "h.0" or "h.0.mid mb=1" */
  uint32_t kind;
  uint32_t memory; /* TSR_MEMORY_* */
  tsr_dtype dtype;
  uint32_t flags;
  int32_t strategy; /* PLUGIN: whose it is, which add_buffer fills in; else -1 */
  uint32_t reserved;
  TSR_SPARE(2);
} tsr_buffer;

/* FROZEN. One operand of an action, and all that dependencies, memory and checks are derived from: an action that
 * touches what it does not bind is a race that no check can see. */
typedef struct tsr_binding {
  uint64_t buffer;
  uint64_t offset; /* elements */
  uint64_t num_elements;
  uint32_t slot; /* TSR_SLOT; collectives and elementwise: SOURCE 0, DESTINATION 0 */
  uint32_t mode; /* TSR_MODE_* */
  TSR_SPARE(2);
} tsr_binding;

#define TSR_STREAM_COMPUTE 0u /* indices of the streams every program has; what others are for, their kind says */
#define TSR_STREAM_COPY_IN 1u
#define TSR_STREAM_COPY_OUT 2u

#define TSR_STREAM_KIND_DEVICE 1u /* of the device that computes: kernels and copies */
#define TSR_STREAM_KIND_COMM 2u   /* collectives of one (axis or world, lane), with a communicator for each group */
#define TSR_STREAM_KIND_HOST 3u   /* of the host's processor: reads and writes of files */

/* FROZEN. A pass leaves streams of a kind it does not know alone. */
typedef struct tsr_stream_info {
  tsr_str name;  /* "compute", "comm.dp.gradient" */
  int32_t axis;  /* of a comm stream; else TSR_WORLD_AXIS */
  uint32_t kind; /* TSR_STREAM_KIND_* */
  TSR_SPARE(2);
} tsr_stream_info;

#define TSR_ACTION_FORWARD 1u
#define TSR_ACTION_BACKWARD 2u
#define TSR_ACTION_BACKWARD_INPUT 3u
#define TSR_ACTION_BACKWARD_WEIGHT 4u
#define TSR_ACTION_RECOMPUTE 5u
#define TSR_ACTION_LOSS 6u
/* collectives: 16 + TSR_COLL_*. In place: one binding, DESTINATION with mode ADD (broadcast: on every rank). */
#define TSR_ACTION_COLLECTIVE(coll) (16u + (coll))
#define TSR_ACTION_ALL_REDUCE 17u
#define TSR_ACTION_REDUCE_SCATTER 18u
#define TSR_ACTION_ALL_GATHER 19u
#define TSR_ACTION_BROADCAST 20u
#define TSR_ACTION_REDUCE 21u
#define TSR_ACTION_ALL_TO_ALL 22u
#define TSR_ACTION_SEND 23u
#define TSR_ACTION_RECV 24u
#define TSR_ACTION_EXCHANGE 25u /* SOURCE i goes to, DESTINATION i comes from, peers[i] */
#define TSR_ACTION_BARRIER 26u
/* elementwise: the op's number */
#define TSR_ACTION_COPY 32u
#define TSR_ACTION_CAST 33u
#define TSR_ACTION_ADD_INTO 34u
#define TSR_ACTION_SCALE 35u
#define TSR_ACTION_ZERO 36u /* DESTINATION 0, 1, ...: any number */
/* step */
#define TSR_ACTION_SUM_SQUARES 48u
#define TSR_ACTION_CLIP 49u
#define TSR_ACTION_OPTIMIZER 50u
/* The strategy's own arithmetic; never communicates. What it makes of an addend of a sum over the strategy's axis:
 *   neither reduce nor group  a *code* of the addend, which COPY, ALL_GATHER, ALL_TO_ALL, messages and an ALL_REDUCE by
 *                             MIN or MAX may carry, and nothing else may take for a number of the sum
 *   reduce SUM                an addend of that sum again, which a collective by SUM may take
 *   reduce SUM and a group    the sum itself, made of the codes that were gathered from all ranks of that group; of a
 *                             slice of it, where ALL_TO_ALL brought them
 * Without an addend its results are what its operands are. It may write a range again: that overwrites it. */
#define TSR_ACTION_CALL 64u

#define TSR_ACTION_PREDICATED 1u /* skipped when clip's `ok` is 0; OPTIMIZER only so far */

/* FROZEN. Fields that a kind does not use are 0; segment, micro_batch, group, peer and strategy -1. */
typedef struct tsr_action {
  uint64_t id;
  uint32_t kind;
  uint32_t stream;
  int32_t segment; /* those from num_segments on are reserved for ops that passes add */
  int32_t micro_batch;
  int32_t group;
  int32_t peer;    /* root or peer: a coordinate of the group, never a rank */
  uint32_t reduce; /* TSR_REDUCE_* */
  uint32_t flags;
  uint64_t home; /* sum_squares, optimizer, and what must follow a home when homes are replaced; a CALL's, if any */
  uint64_t tag;  /* call; send and recv: must be equal on both sides */
  double scale;  /* TSR_ACTION_SCALE */
  const tsr_binding* bindings;
  uint64_t num_bindings;
  const uint64_t* counts; /* uneven slices of a collective, one per member, or NULL; ALL_TO_ALL: what each member is
                             sent, then what each sends here */
  const int32_t* peers;   /* EXCHANGE: one per SOURCE, then one per DESTINATION, or NULL */
  uint64_t num_counts;
  uint64_t num_peers;
  int32_t strategy; /* CALL: which is called */
  uint32_t code;    /* CALL: the code that it makes or, with a group, takes: a number of the strategy's own */
  TSR_SPARE(4);
} tsr_action;

/* INIT runs at each start: after values are filled or restored, and before a strategy's saved state is. It leaves
 * values as they are. */
#define TSR_PURPOSE_INIT 1u /* what a strategy needs to start */
#define TSR_PURPOSE_STEP 2u /* forward, backward, optimizer, over all micro-batches */
#define TSR_PURPOSE_EVAL 3u /* forward and loss alone: nothing is saved, no gradient is bound */
/* 4 to 15 are reserved for the host, which asks no strategy for them. A strategy refuses those it does not know. */
#define TSR_EVERY_STEP 1u
#define TSR_EVERY_MICRO_BATCH 2u

/* APPENDABLE. Everything a pass may look at. */
typedef struct tsr_program_view {
  uint32_t struct_size;
  uint32_t purpose;
  uint32_t variant;      /* < the strategy's number of variants; asked for in any order, and perhaps more than once */
  uint32_t reduce_every; /* TSR_EVERY_*: when gradients are reduced */
  uint32_t num_micro_batches;
  tsr_dtype dtype;        /* values and compute copies */
  tsr_dtype reduce_dtype; /* gradients on the wire */
  int32_t axis;           /* the axis this strategy is for; TSR_WORLD_AXIS: a pass without an axis */
  const tsr_axis* axes;
  const tsr_unit* units;
  const tsr_parameter* parameters;
  const tsr_value* values;
  const tsr_segment* segments;
  const tsr_layout_entry* layout; /* of all strategies so far, in the order of application */
  const tsr_buffer* buffers;
  const tsr_home* homes;
  const tsr_stream_info* streams;
  const tsr_group* groups;
  const tsr_action* actions;
  uint64_t num_axes, num_units, num_parameters, num_values, num_segments, num_layout_entries;
  uint64_t num_buffers, num_homes, num_streams, num_groups, num_actions;
  const tsr_strategy_info* strategies;
  uint64_t num_strategies;
  int32_t strategy;       /* this one's index; -1: none, for a policy */
  uint32_t slice_granule; /* slices of homes begin and end at its multiples: 1 so far */
  const tsr_str* states;  /* names of the optimizer's states: "m", "v" */
  uint64_t num_states;
  const tsr_str* names; /* of the run's private numbers, from TSR_FIRST_PRIVATE on */
  uint64_t num_names;
  const int32_t* data_ranks; /* whose tokens this rank computes: indices among the ranks that read different tokens. One
                                so far; there may be more, and then more micro-batches than --grad-accum says */
  uint64_t num_data_ranks;
  const tsr_op* optimizer; /* of every OPTIMIZER action: kind and attributes, without dims and ranges */
} tsr_program_view;

#ifdef __cplusplus
}
#endif
#endif
