/* SPDX-License-Identifier: Apache-2.0 */
/* Tessera plugin ABI, core: what every plugin and the host agree on before anything else.
 *
 * Rules of the whole ABI
 *  - Plain C11, readable as C++11 and later. No enum, bool, bit-field, varargs, C++ type or exception crosses it.
 *  - A struct is FROZEN (its layout never changes) or APPENDABLE (`struct_size` first; grows at the tail only; a field
 *    is read through TSR_HAS). Arrays hold FROZEN structs only. FROZEN is a promise from 1.0 on; until then a minor may
 *    break with those before TSR_OLDEST_MINOR.
 *  - `reserved` and `spare` words are 0, and so are bits of flags that have no name: the host refuses a plugin that
 * sets them, and devices and communicators refuse a host that does. So a later minor may give them a meaning, with 0
 * for what was meant before. Nothing in a tsr_error is refused.
 *  - A plugin is compiled for a minor, TSR_TARGET_MINOR, and runs on every host from that one on. A later host may send
 *    it anything that is the host's: longer structs, and numbers that the plugin does not know. A plugin hands the host
 *    nothing that the effective minor of the two (tsr_host.abi_minor) does not have.
 *  - Numbers (kinds, ops, roles, memories, ...) keep their meaning. Those from TSR_FIRST_PRIVATE on belong to the run:
 *    the host gives them out in the order in which it loads plugins, for names that plugins bring; texts print the
 *    names, and by these ranks agree. Those below are the ABI's, and new ones come with a minor. A number that a pass
 *    or a policy does not know is opaque: it leaves alone what has it, or refuses with UNSUPPORTED.
 *  - Strings are borrowed UTF-8 {ptr, len}, not zero-terminated. Arguments are borrowed for the call: the callee copies
 *    what it keeps. What a call returns by pointer is owned by the callee and lives as long as the object it came from,
 *    unless the function says otherwise. Objects a create, open or prepare returns belong to the caller, who
 *    ends them with the destroy of the same table and with nothing else; no allocator crosses the ABI. Each call
 *    makes an object of its own, and returns none that is in use.
 *  - Errors: a function with a `tsr_error*` returns TSR_OK or a negative code, and then fills *err if err is not NULL.
 *    "Errors:" at a function lists the codes with a meaning of their own. Besides them every function may return
 *    RESOURCE_EXHAUSTED (out of memory) and INTERNAL (a bug in the callee, or a failed call of a library under it).
 *    On an error the function has done nothing: out-parameters keep their values, no object was made, and there is
 *    nothing to destroy, unless the function says otherwise. A function without a `tsr_error*` cannot fail. A status
 *    that the caller does not know counts as UNKNOWN. Pointers are not NULL unless the function says that they may be;
 *    an array of no elements may be NULL. Passing NULL elsewhere is undefined, as is an object of another plugin.
 *  - Time-outs are milliseconds. 0 looks once and does not wait, unless the function says otherwise; a negative one is
 *    INVALID_ARGUMENT.
 *  - `user` and `ctx` are handed back as they were given; they are the giver's, also when the function that was to
 *    receive them is never called.
 *  - Every function carries a tag. [control-thread]: one call at a time per object, may block. [issue-thread]: the one
 *    thread of a rank that issues its program; does not block. [any-thread]: several threads at once; never blocks, so
 *    it waits for no thread, rank, device or file. [any-thread, may block]. A function without an object (query, caps,
 *    describe, create, open) is called by several ranks at once, whatever its tag. A tag may name the states of the
 *    object in which the function is called, which the header's head lists; without, it is called in every state.
 *  - A plugin never calls exit or abort, installs no signal handler nor one for fork, and keeps no mutable global: one
 *    process may hold many ranks. It is never unloaded. Its threads block SIGINT, SIGTERM and SIGPIPE, and have ended
 *    when the destroy or close of what they work for has returned. The host forks only to call exec at once, and so may
 *    a plugin: a child that comes back from the plugin's function is ended, and with it the run.
 *  - Every call leaves the thread's floating-point unit as it was: rounding, flushing of denormals, traps.
 *  - A table of the host with a `ctx` is lent. That of query, an edit table and a sink end with the call that lent
 *    them, the latter two are for its thread alone; a tsr_host and its services end when all that was made with it is
 *    destroyed: a strategy's and communicator's with their epoch, a device's with the process. Other calls end the run.
 * Since 0.12. */
#ifndef TESSERA_CORE_H
#define TESSERA_CORE_H

#include <stddef.h>
#include <stdint.h>

#if defined(__cplusplus) && __cplusplus >= 201703L
#define TSR_NOEXCEPT noexcept
#else
#define TSR_NOEXCEPT
#endif
#ifdef __cplusplus
#define TSR_STATIC_ASSERT(holds, text) static_assert(holds, text)
#else
#define TSR_STATIC_ASSERT(holds, text) _Static_assert(holds, text)
#endif
/* The spare words at the end of a FROZEN struct. C++ sets them to 0 where a list of values ends before them. */
#if defined(__cplusplus) && __cplusplus >= 201402L
#define TSR_SPARE(n) uint64_t spare[n] = {}
#else
#define TSR_SPARE(n) uint64_t spare[n]
#endif
#define TSR_EXPORT __attribute__((visibility("default")))
/* A slot of a function table: `ret (*name)` with the table's calling convention. */
#define TSR_FN(ret, name) ret(*name)

#ifdef __cplusplus
extern "C" {
#endif

#define TSR_ABI_MAJOR 0u
#define TSR_ABI_MINOR 12u
/* The first minor that this one only adds to: hosts accept plugins from it on. From 1.0 on it is 0. */
#define TSR_OLDEST_MINOR 12u
/* The first minor that the plugin needs, defined before these headers are included. What later minors have added is
 * hidden, so a plugin that is built again with later headers needs no later host: a host of this minor or any after it
 * loads it, and its handshake offers [TSR_TARGET_MINOR, TSR_ABI_MINOR]. */
#ifndef TSR_TARGET_MINOR
#define TSR_TARGET_MINOR TSR_OLDEST_MINOR
#endif
#if TSR_TARGET_MINOR < TSR_OLDEST_MINOR || TSR_TARGET_MINOR > TSR_ABI_MINOR
#error "TSR_TARGET_MINOR is not a minor of these headers: give one from TSR_OLDEST_MINOR to TSR_ABI_MINOR"
#endif
#define TSR_FIRST_PRIVATE 0x10000u
TSR_STATIC_ASSERT(sizeof(void*) == 8, "the ABI is for 64-bit machines");

#define TSR_END_OF(type, field) (offsetof(type, field) + sizeof(((type*)0)->field))
/* True when the APPENDABLE struct at `p` is long enough to hold `field`. */
#define TSR_HAS(p, type, field) ((p)->struct_size >= TSR_END_OF(type, field))
/* True when the function table at `p` holds `field` and it is not NULL. */
#define TSR_HAS_FN(p, type, field) (TSR_HAS(p, type, field) && (p)->field != NULL)

/* ---- status and error ---------------------------------------------------------------------------------------- */

typedef int32_t tsr_status; /* 0, a negative canonical code (gRPC's numbers, negated), or TSR_IN_PROGRESS */
#define TSR_OK 0
#define TSR_IN_PROGRESS 1              /* only where a function says so: its own time-out passed, nothing failed */
#define TSR_E_CANCELLED (-1)           /* the user stopped the run */
#define TSR_E_UNKNOWN (-2)             /* an error of a library that gives no reason */
#define TSR_E_INVALID_ARGUMENT (-3)    /* wrong in itself: an unknown id, a range outside its buffer, a bad option */
#define TSR_E_DEADLINE (-4)            /* a wait timed out; the message names the ranks that are missing */
#define TSR_E_NOT_FOUND (-5)           /* a key, an option, a file, a network interface */
#define TSR_E_ALREADY_EXISTS (-6)      /* another one has it: a rank, an address */
#define TSR_E_RESOURCE_EXHAUSTED (-8)  /* out of memory, threads or descriptors; the caller's array is too small */
#define TSR_E_FAILED_PRECONDITION (-9) /* right call, wrong time or place */
#define TSR_E_ABORTED (-10)            /* abort was called; a consequence, never the cause */
#define TSR_E_UNSUPPORTED (-12)        /* valid, and not done here; the message says what is */
#define TSR_E_INTERNAL (-13)           /* a bug in the callee, or a failed call of a library or driver */
#define TSR_E_UNAVAILABLE (-14)        /* a peer, a server, a device or a library is not there */
#define TSR_E_DATA_LOSS (-15)          /* bytes arrived, or lie in memory, that cannot be right */
#define TSR_E_ABI (-20)                /* another ABI, or a struct too short for it */

/* FROZEN, 512 bytes. Owned by the caller, who zeroes it; filled by the callee when it returns other than TSR_OK.
 * `rank` is the peer or own world rank the error is about, -1 if none. Strings are zero-terminated. */
typedef struct tsr_error {
  int32_t code;        /* equal to the returned status */
  int32_t native_code; /* errno, cudaError_t, ...; 0 if none or not kept */
  int32_t rank;
  uint32_t reserved;
  char domain[32];   /* the plugin's file without .so, "gloo-comm", or its name, "gloo". The user reads "[domain] " and
                        the message, which is not repeated where the message begins so itself: so take the file's,
                        and begin messages that name the plugin with the same */
  char message[464]; /* one sentence: what, where, which value, what to do */
} tsr_error;

/* ---- small values -------------------------------------------------------------------------------------------- */

typedef struct tsr_str { /* FROZEN; borrowed UTF-8, not zero-terminated */
  const char* ptr;
  uint64_t len;
} tsr_str;

/* Element type: DLPack's {code:8, bits:8, lanes:16} in one word; 0 is invalid. Elements may be less than a byte: a
 * range of them is whole bytes all the same, from its offset to its end. Hosts of this minor have no buffers of them:
 * add_buffer takes the types with a name below alone, so smaller elements are packed into TSR_U8. */
typedef uint32_t tsr_dtype;
#define TSR_DTYPE_OF(code, bits) ((tsr_dtype)(code) | ((tsr_dtype)(bits) << 8) | ((tsr_dtype)1 << 16))
#define TSR_DTYPE_BITS(dtype) (((dtype) >> 8 & 0xffu) * ((dtype) >> 16))
#define TSR_NUM_BYTES(dtype, num_elements)                 \
  ((uint64_t)(num_elements) / 8u * TSR_DTYPE_BITS(dtype) + \
   ((uint64_t)(num_elements) % 8u * TSR_DTYPE_BITS(dtype) + 7u) / 8u)
#define TSR_I8 TSR_DTYPE_OF(0, 8)
#define TSR_I32 TSR_DTYPE_OF(0, 32)
#define TSR_I64 TSR_DTYPE_OF(0, 64)
#define TSR_U8 TSR_DTYPE_OF(1, 8)
#define TSR_U16 TSR_DTYPE_OF(1, 16)
#define TSR_U32 TSR_DTYPE_OF(1, 32)
#define TSR_F16 TSR_DTYPE_OF(2, 16)
#define TSR_F32 TSR_DTYPE_OF(2, 32)
#define TSR_F64 TSR_DTYPE_OF(2, 64)
#define TSR_BF16 TSR_DTYPE_OF(4, 16)

/* FROZEN. A dense row-major tensor in some memory; borrowed for the call. */
typedef struct tsr_tensor_view {
  void* data;
  const int64_t* shape; /* [num_dims] */
  uint32_t num_dims;
  tsr_dtype dtype;
  TSR_SPARE(2);
} tsr_tensor_view;

/* ---- options ------------------------------------------------------------------------------------------------- */

#define TSR_OPTION_INT 1u    /* int64 in [min, max] */
#define TSR_OPTION_FLOAT 2u  /* double in [min, max] */
#define TSR_OPTION_BOOL 3u   /* true|false, carried as int 0 or 1 */
#define TSR_OPTION_STRING 4u /* one of `choices` (separated by '|') unless that is empty */

/* A flag, of a communicator's options: about a rank's own place, so ranks may differ in it. Of another kind's plugin it
 * has no effect: ranks that differ in the option are refused. */
#define TSR_OPTION_PER_RANK 1u

/* FROZEN. One option of a plugin; on the command line `--<plugin>.<name>=<value>`. Known before any instance exists. */
typedef struct tsr_option {
  tsr_str name; /* lower case, dashes */
  tsr_str default_value;
  tsr_str choices;
  tsr_str help;    /* one line */
  double min, max; /* inclusive; ignored when min > max */
  uint32_t type;
  uint32_t flags; /* TSR_OPTION_PER_RANK, or 0 */
  TSR_SPARE(2);
} tsr_option;

/* FROZEN. One resolved option, validated by the host against the schema. `s` is set for every type (its text). */
typedef struct tsr_option_value {
  tsr_str name;
  tsr_str s;
  int64_t i;
  double d;
  TSR_SPARE(2);
} tsr_option_value;

/* ---- host services ------------------------------------------------------------------------------------------- */

#define TSR_LOG_DEBUG 1
#define TSR_LOG_INFO 2
#define TSR_LOG_WARNING 3
#define TSR_LOG_ERROR 4

/* APPENDABLE. The host of one plugin of one rank. Given to every create and open; outlives what they made. */
typedef struct tsr_host {
  uint32_t struct_size;
  uint32_t abi_minor; /* the effective minor of this host and plugin; in query, which settles it, the host's highest */
  void* ctx;
  /* Writes one log line; `level` is TSR_LOG_*, and one outside of the range counts as the nearest. A line that cannot
   * be written is dropped, and one of more than 4,096 bytes is cut. [any-thread, may block for as long as writing
   * takes] */
  TSR_FN(void, log)(void* ctx, int32_t level, tsr_str message) TSR_NOEXCEPT;
  /* A service table by id (for instance TSR_KV_SERVICE), or NULL when the host has none: while a program is only
   * planned there is no key-value store. The table is the host's and lives as long as it. [any-thread] */
  TSR_FN(const void*, get_service)(void* ctx, tsr_str id) TSR_NOEXCEPT;
} tsr_host;

/* "tsr.kv/1": the job's key-value store, for rendezvous. Keys of 1 byte to 8 KiB, values up to 8 MiB. Keys are never
 * removed; values and counters are apart, so get does not see what add counts. Every function copies what it is given.
 * `ctx` is tsr_host.ctx. APPENDABLE.
 * Errors of every function: INVALID_ARGUMENT for a key or value of another length; UNAVAILABLE when the store's server
 * is gone, which is the end of the job; whether the call had an effect is then unknown. */
#define TSR_KV_SERVICE "tsr.kv/1"
typedef struct tsr_kv_service {
  uint32_t struct_size;
  uint32_t reserved;
  /* Stores a copy of `value`; a later set replaces it. Errors: those above, no others. [any-thread, may block for the
   * service's own time-out] */
  TSR_FN(tsr_status, set)(void* ctx, tsr_str key, const void* value, uint64_t num_bytes, tsr_error* err) TSR_NOEXCEPT;
  /* Waits for the key, then copies its value to `value`, which is the caller's, NULL if the capacity is 0. *num_bytes:
   * capacity in, length out. A wait that must end sooner than at its time-out, as when create is cancelled, is cut into
   * short ones. Errors, beside those above: INVALID_ARGUMENT for a negative timeout_ms; RESOURCE_EXHAUSTED when the
   * value is longer than the capacity (*num_bytes then is its length, nothing is copied); DEADLINE when the key was not
   * set within timeout_ms; ABORTED when it was not set and the job has ended. [any-thread, may block for timeout_ms] */
  TSR_FN(tsr_status, get)
  (void* ctx, tsr_str key, void* value, uint64_t* num_bytes, int64_t timeout_ms, tsr_error* err) TSR_NOEXCEPT;
  /* Adds to a counter (made at 0) and returns the new value; delta 0 reads it. Errors, beside those above:
   * INVALID_ARGUMENT when the sum does not fit, and the counter stays as it was. [any-thread, may block like set] */
  TSR_FN(tsr_status, add)(void* ctx, tsr_str key, int64_t delta, int64_t* result, tsr_error* err) TSR_NOEXCEPT;
} tsr_kv_service;

/* ---- the plugin's entry -------------------------------------------------------------------------------------- */

/* APPENDABLE. What the plugin is; constant for the life of the process. */
typedef struct tsr_descriptor {
  uint32_t struct_size;
  uint32_t reserved;
  tsr_str name;    /* the name used on the command line, for instance "ddp" */
  tsr_str kind;    /* TSR_KIND_* */
  tsr_str id;      /* reverse-domain, never changes: "org.tessera.ddp" */
  tsr_str version; /* the plugin's own, free form */
  tsr_str vendor;
  tsr_str summary; /* one line */
  const tsr_option* options;
  uint64_t num_options;
} tsr_descriptor;
/* Kinds are an open set: a host refuses a plugin of a kind that it does not know, and names the kind. Names without a
 * dot are the ABI's. */
#define TSR_KIND_STRATEGY "strategy"
#define TSR_KIND_COMMUNICATOR "communicator"
#define TSR_KIND_DEVICE "device"
#define TSR_KIND_OFFLOAD "offload"

/* APPENDABLE. */
typedef struct tsr_factory {
  uint32_t struct_size;
  uint32_t reserved;
  const tsr_descriptor* descriptor;
  /* The plugin's table for an interface id (TSR_STRATEGY_INTERFACE, ...), or NULL for any id it does not know. The
   * table is a constant that lives as long as the process. Must not fail: the host refuses a plugin without a
   * table for its kind. [any-thread] */
  TSR_FN(const void*, get_interface)(tsr_str interface_id) TSR_NOEXCEPT;
} tsr_factory;

/* FROZEN. The plugin checks magic, abi_major, pointer_bits and that [host_minor_min, host_minor_max] meets its own
 * range, writes its own range, and returns TSR_E_ABI when they do not meet. The effective minor is the smaller
 * maximum. */
typedef struct tsr_handshake {
  uint64_t magic;
  uint32_t struct_size;
  uint32_t abi_major;
  uint32_t host_minor_min, host_minor_max;     /* in */
  uint32_t plugin_minor_min, plugin_minor_max; /* out */
  uint32_t pointer_bits;                       /* in */
  uint32_t plugin_abi_major;                   /* out */
} tsr_handshake;
#define TSR_MAGIC UINT64_C(0x3161726573736554) /* "Tessera1", first letter in the lowest byte */

/* The one exported symbol. Fast; starts no thread, opens no device, keeps none of its arguments. May be called again,
 * by several threads at once, and then returns the same factory, which is the plugin's and lives as long as the
 * process. `host` may be NULL, where only the descriptor is wanted. Errors: ABI when magic, major or pointer width are
 * wrong or the ranges of minors do not meet. Unless the magic is wrong, the plugin writes its own range into *io all
 * the same: the host's message quotes both. The host refuses a plugin whatever code it returns. [any-thread] */
#define TSR_ENTRY_SYMBOL "tsr_plugin_query_v1"
typedef tsr_status (*tsr_plugin_query_fn)(tsr_handshake* io, const tsr_host* host, const tsr_factory** factory,
                                          tsr_error* err) TSR_NOEXCEPT;
TSR_EXPORT tsr_status tsr_plugin_query_v1(tsr_handshake* io, const tsr_host* host, const tsr_factory** factory,
                                          tsr_error* err) TSR_NOEXCEPT;

#ifdef __cplusplus
}
#endif
#endif
