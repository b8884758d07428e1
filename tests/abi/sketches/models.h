/* A sketch, not shipped: what the kinds "kernels", "model" and "optimizer" would append to the ABI. Nothing of it needs
 * another layout of a FROZEN struct, or another meaning of a number: that it compiles against the installed headers is
 * the test (headers_test.sh). */
#ifndef TESSERA_MODELS_H
#define TESSERA_MODELS_H
#include <tessera/program.h>

/* ---- an op as data ------------------------------------------------------------------------------------------- */

/* FROZEN. An attribute of an op: 0 is what it is when it is not set. */
typedef struct tsr_attribute_spec {
  tsr_str name;
  double min, max;
  uint32_t flags; /* 1: an integer */
  uint32_t reserved;
  TSR_SPARE(2);
} tsr_attribute_spec;

/* APPENDABLE. Everything the host, strategies, planner and checkers know of an op. `text` is one line of the grammar of
 * docs/ops.md: "p0[C] i0[B,T,C] -> o0[B,T,C] s0[B,T]:f32 ; whole C ; reads p0 i0 s0 do0 ; cost 3 B T C ; dtypes f32
 * f64" */
typedef struct tsr_op_entry {
  uint32_t struct_size;
  uint32_t number; /* of the ABI's ops; private ones say 0 */
  tsr_str name;    /* "rms_norm"; private: "<plugin>.<name>" */
  tsr_str text;
  const tsr_attribute_spec* attributes; /* in the order of tsr_op.own */
  uint64_t num_attributes;
} tsr_op_entry;

/* ---- kind "kernels": ops for a device that is there ---------------------------------------------------------- */

#define TSR_KIND_KERNELS "kernels"
#define TSR_KERNELS_INTERFACE "tsr.kernels/1"
typedef struct tsr_plugin_kernel tsr_plugin_kernel;

/* APPENDABLE. The device a kernel runs on. */
typedef struct tsr_kernels_env {
  uint32_t struct_size;
  uint32_t num_threads; /* a CPU's team; 1 elsewhere */
  void* ctx;
  /* On a CPU: body(user, begin, end) on the team, cut by n, grain and num_threads only. [the stream's thread] */
  TSR_FN(void, parallel_for)
  (void* ctx, uint64_t n, uint64_t grain, void (*body)(void* user, uint64_t begin, uint64_t end) TSR_NOEXCEPT,
   void* user) TSR_NOEXCEPT;
} tsr_kernels_env;

/* APPENDABLE. Asked before the device, in the order of --kernels A,B; UNSUPPORTED passes the op on. */
typedef struct tsr_kernels_interface {
  uint32_t struct_size;
  uint32_t reserved;
  tsr_str stream_kind; /* "cpu.queue", "cuda.stream" */
  /* New ops, NULL past the last one. May be NULL: kernels for existing ops only. [any-thread] */
  TSR_FN(const tsr_op_entry*, op)(uint64_t index) TSR_NOEXCEPT;
  /* Workspaces and contexts beside what the entry says; *num_slots: capacity in, count out. Pure. [any-thread] */
  TSR_FN(tsr_status, describe)
  (const tsr_op* op, tsr_str name, tsr_slot_spec* slots, uint64_t* num_slots, tsr_error* err) TSR_NOEXCEPT;
  TSR_FN(tsr_status, prepare)
  (const tsr_kernels_env* env, const tsr_op* op, tsr_str name, const tsr_slot_spec* slots, uint64_t num_slots,
   tsr_plugin_kernel** kernel, tsr_error* err) TSR_NOEXCEPT;
  TSR_FN(void, destroy)(tsr_plugin_kernel* kernel) TSR_NOEXCEPT;
  /* "cpu.queue": computes, on the stream's thread (stream NULL). "cuda.stream": enqueues on `stream`. [issue-thread] */
  TSR_FN(tsr_status, launch)
  (tsr_plugin_kernel* kernel, void* stream, void* const* pointers, uint64_t num_pointers, tsr_error* err) TSR_NOEXCEPT;
} tsr_kernels_interface;

/* ---- kind "model" -------------------------------------------------------------------------------------------- */

#define TSR_KIND_MODEL "model"
#define TSR_MODEL_INTERFACE "tsr.model/1"

/* FROZEN. A dim by its logical name; may be cut at multiples of `granule`. */
typedef struct tsr_named_dim {
  tsr_str name; /* "embed", "heads", "ffn", "vocab", or the model's own */
  int64_t extent, granule;
  TSR_SPARE(2);
} tsr_named_dim;

#define TSR_INIT_CONSTANT 1u /* a */
#define TSR_INIT_NORMAL 2u   /* mean a, deviation b */
#define TSR_INIT_UNIFORM 3u  /* in [a, b) */

/* APPENDABLE. */
typedef struct tsr_model_parameter {
  uint32_t struct_size;
  uint32_t init; /* TSR_INIT_* */
  tsr_str name;  /* Hugging Face's, and its file's tensor unless `tensor` says otherwise */
  const tsr_named_dim* dims;
  uint64_t num_dims;
  double a, b;
  tsr_str tensor;         /* "" or the tensor it is a part of (fused q|k|v, experts) */
  uint64_t tensor_offset; /* in elements */
} tsr_model_parameter;

/* APPENDABLE. One op applied. Shapes of outputs follow from the entry. */
typedef struct tsr_model_segment {
  uint32_t struct_size;
  uint32_t num_parameters;
  tsr_str name;
  tsr_str op; /* "linear", "example.snake" */
  const int32_t* parameters;
  const int32_t* inputs;
  uint32_t num_inputs, num_attributes;
  const tsr_str* attribute_names;
  const double* attributes;
} tsr_model_segment;

/* APPENDABLE. [the thread of the build call] */
typedef struct tsr_model_sink {
  uint32_t struct_size;
  uint32_t reserved;
  void* ctx;
  /* An input by what the data gives: "tokens", "targets", "positions"; its dims follow. */
  TSR_FN(tsr_status, input)(void* ctx, tsr_str what, int32_t* value, tsr_error* err) TSR_NOEXCEPT;
  /* What follows belongs to this unit (sharded together) and block (recomputed together; -1: none). */
  TSR_FN(tsr_status, unit)(void* ctx, tsr_str name, int32_t block, tsr_error* err) TSR_NOEXCEPT;
  TSR_FN(tsr_status, parameter)(void* ctx, const tsr_model_parameter* p, int32_t* index, tsr_error* err) TSR_NOEXCEPT;
  /* `outputs`: room for as many as the op has. */
  TSR_FN(tsr_status, segment)(void* ctx, const tsr_model_segment* s, int32_t* outputs, tsr_error* err) TSR_NOEXCEPT;
} tsr_model_sink;

/* APPENDABLE. config.json: the host parses, and refuses keys that were not asked for and that are not known to be idle.
 */
typedef struct tsr_model_config {
  uint32_t struct_size;
  uint32_t reserved;
  void* ctx;
  /* NOT_FOUND when it is not there; a dot goes inside: "rope_parameters.rope_theta". */
  TSR_FN(tsr_status, number)(void* ctx, tsr_str key, double* value) TSR_NOEXCEPT;
  TSR_FN(tsr_status, text)(void* ctx, tsr_str key, tsr_str* value) TSR_NOEXCEPT;
} tsr_model_config;

/* APPENDABLE. */
typedef struct tsr_model_interface {
  uint32_t struct_size;
  uint32_t reserved;
  tsr_str architectures; /* '|' between them: "LlamaForCausalLM|MistralForCausalLM" */
  /* Pure: config, batch and seq decide. The tail (head and loss) is the host's: returns the value it starts from and
   * the head's parameter in `out`. [any-thread] */
  TSR_FN(tsr_status, build)
  (const tsr_model_config* config, int64_t batch, int64_t seq, const tsr_model_sink* sink, int32_t out[2],
   tsr_error* err) TSR_NOEXCEPT;
} tsr_model_interface;

/* ---- kind "optimizer" ---------------------------------------------------------------------------------------- */

#define TSR_KIND_OPTIMIZER "optimizer"
#define TSR_OPTIMIZER_INTERFACE "tsr.optimizer/1"

/* FROZEN. A state, per element or per `granule` elements of the parameter, beside its value and cut with it. */
typedef struct tsr_state_spec {
  tsr_str name; /* "m", "v", "scale": its name in checkpoints */
  tsr_dtype dtype;
  uint32_t granule; /* 1: one per element; 256: one per block of 256 */
  double initial;
  TSR_SPARE(2);
} tsr_state_spec;

/* APPENDABLE. How one group of parameters is updated: update(slice); or before(slice), matrix(whole), after(slice). */
typedef struct tsr_update_rule {
  uint32_t struct_size;
  uint32_t num_states;
  const tsr_state_spec* states;
  tsr_op_entry before; /* dst value, src gradient, st0.., x -> and, with `matrix`, the direction */
  tsr_op_entry matrix; /* "" or an op of the whole matrix: direction in, direction out */
  tsr_op_entry after;  /* "" or: dst value, src direction, x */
} tsr_update_rule;

/* APPENDABLE. */
typedef struct tsr_optimizer_interface {
  uint32_t struct_size;
  uint32_t reserved;
  TSR_FN(const tsr_update_rule*, rule)(uint64_t index) TSR_NOEXCEPT; /* NULL past the last one */
  /* The rule of a parameter. Pure. [any-thread] */
  TSR_FN(uint64_t, choose)(tsr_str parameter, const int64_t* shape, uint64_t num_dims, uint32_t is_table) TSR_NOEXCEPT;
} tsr_optimizer_interface;
#endif
