/* SPDX-License-Identifier: Apache-2.0 */
/* Tessera plugin ABI, kind "communicator": collectives and messages over a group of ranks, on the host's streams.
 *
 * submit() enqueues on `stream`: the operation starts after what is already on that stream and later work on it sees
 * the result. All ranks of a group submit the same collectives in the same order. A communicator without native streams
 * enqueues host functions through the device table it was given.
 *
 * Errors come in two ways. What is wrong with the call (a root outside the group, a dtype the communicator does not
 * have) is returned by the call. What goes wrong later fails the stream, and is what async_error returns from then on:
 *   DEADLINE          ranks were missing after timeout_ms; the message names them where that can be known
 *   UNAVAILABLE       the connection to a rank is gone without a word from it, as when its process has ended
 *   INVALID_ARGUMENT  the ranks submitted what does not match (kind, dtype, counts, root); NCCL cannot tell
 *   ABORTED           abort() was called here, or at a peer
 *   INTERNAL          a call of a library under the communicator failed
 * UNAVAILABLE tells the user that a rank has died, ABORTED that the cause is another one. To the other end of a
 * connection both are an end of file, so a communicator over connections sends a goodbye in abort(), without waiting,
 * before it closes them; a rank that reads it fails with ABORTED.
 * After the first of them the communicator is unusable: what is submitted later fails too, and only abort, async_error
 * and destroy may be called. There is no retry. So a communicator is *working*, then after an error or abort *failed*.
 *
 * After an abort and destroy create may be called again in the same process, any number of times, under another
 * `rendezvous`; so may it while communicators that have failed, or work, are there.
 *
 * Counts are elements of `dtype`. n = ranks in the group, r = this rank's coordinate in it. Zero counts are legal.
 *   ALL_REDUCE      recv[0:c] = sum over ranks of send[0:c];       send == recv is in place
 *   REDUCE_SCATTER  recv[0:c_r] = sum of every rank's slice r of send[0:sum c];  recv may be send's own slice r
 *   ALL_GATHER      recv[0:sum c] = concatenation of send[0:c_i];  send may be recv's own slice r
 *   BROADCAST       recv on all = send of root;                    send == recv on the root
 *   REDUCE          recv on root = sum;                            send == recv on the root is in place
 *   ALL_TO_ALL      slice i of send goes to rank i, slice i of recv comes from it; not in place. recv_counts[i] is what
 *                   rank i's counts say of this rank
 *   SEND, RECV      one message to or from `peer`
 *   EXCHANGE        all `transfers` at once; they cannot block one another
 *   BARRIER         no rank leaves before all entered
 * Slices lie one after another: slice i starts at c_0 + ... + c_{i-1}, with c = counts[] or num_elements for each.
 * Nothing reads the send of a BROADCAST but the root's, nor writes the recv of a REDUCE but the root's: the others',
 * and those of no elements, may be NULL.
 *
 * A communicator is for one stream, that of its first submit: another one is refused. A SEND may wait for its RECV, or
 * end before it: that it has ended means only that the data may be written over.
 *
 * A communicator that sets TSR_COMM_CANONICAL_SUM gives, for each element, the balanced tree over the ranks (split at
 * the largest power of two below n) in float32 or wider, rounded once to the output type, whatever the counts and
 * offsets. Since 0.12. */
#ifndef TESSERA_COMMUNICATOR_H
#define TESSERA_COMMUNICATOR_H

#include "device.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TSR_COMMUNICATOR_INTERFACE "tsr.communicator/1"

typedef struct tsr_comm tsr_comm;

/* The kinds; what each reads and writes is in the table above. */
#define TSR_COLL_ALL_REDUCE 1u
#define TSR_COLL_REDUCE_SCATTER 2u
#define TSR_COLL_ALL_GATHER 3u
#define TSR_COLL_BROADCAST 4u
#define TSR_COLL_REDUCE 5u
#define TSR_COLL_ALL_TO_ALL 6u
#define TSR_COLL_SEND 7u
#define TSR_COLL_RECV 8u
#define TSR_COLL_EXCHANGE 9u
#define TSR_COLL_BARRIER 10u

#define TSR_REDUCE_SUM 1u
#define TSR_REDUCE_AVG 2u /* the canonical sum divided by n; floating types only */
#define TSR_REDUCE_MIN 3u
#define TSR_REDUCE_MAX 4u

/* FROZEN. One message of an EXCHANGE. */
typedef struct tsr_transfer {
  void* data;
  uint64_t num_elements;
  int32_t peer;
  uint32_t is_receive; /* 1 or 0; others are refused */
  TSR_SPARE(2);
} tsr_transfer;

/* APPENDABLE. One collective. The struct and its arrays are borrowed for the call; the data until the work is done. */
typedef struct tsr_collective {
  uint32_t struct_size;
  uint32_t kind;   /* TSR_COLL_* */
  uint32_t reduce; /* TSR_REDUCE_*; 0 where nothing is reduced */
  tsr_dtype dtype;
  int32_t peer; /* root or peer: coordinate in the group */
  uint32_t reserved;
  const void* send;
  void* recv;
  uint64_t num_elements;       /* c; per rank for scatter, gather and all_to_all when counts is NULL */
  const uint64_t* counts;      /* [n] c_i for REDUCE_SCATTER, ALL_GATHER and what ALL_TO_ALL sends; or NULL */
  const uint64_t* recv_counts; /* [n] what ALL_TO_ALL receives; NULL = as counts */
  const tsr_transfer* transfers;
  uint64_t num_transfers;
  void* workspace; /* as many bytes as describe() asked for; device memory, 256-byte aligned */
  tsr_stream* stream;
  int64_t timeout_ms; /* from the moment the operation starts on the stream; the work then fails with DEADLINE.
                         0: that of create */
  uint64_t sequence;  /* counts the collectives of this communicator from 0; for errors */
  tsr_str label;      /* what it is about, for errors: "all_reduce gradient h.2" */
} tsr_collective;

/* APPENDABLE. Filled by caps() up to struct_size. The host believes it: a program that needs what is not claimed is
 * refused before it starts. */
typedef struct tsr_comm_caps {
  uint32_t struct_size;
  uint32_t flags;       /* TSR_COMM_* */
  uint64_t collectives; /* bit 1 << TSR_COLL_* */
  uint64_t reduces;     /* bit 1 << TSR_REDUCE_* */
  const tsr_dtype* dtypes;
  uint64_t num_dtypes;
  const tsr_str* stream_kinds; /* which devices' streams it takes, best first */
  uint64_t num_stream_kinds;
} tsr_comm_caps;
#define TSR_COMM_CANONICAL_SUM 1u
#define TSR_COMM_ONE_PROCESS 2u /* all ranks must be threads of one process */
/* submit may be called while its stream is captured (tsr.device.capture/1), on all ranks of the group alike. Graphs
 * that hold its work are destroyed before it. */
#define TSR_COMM_CAPTURABLE 4u

/* APPENDABLE. */
typedef struct tsr_comm_create_args {
  uint32_t struct_size;
  int32_t rank;               /* r */
  int32_t size;               /* n */
  uint32_t is_local;          /* 1: all ranks of the job are on this machine; listen on loopback only */
  tsr_str name;               /* "dp.gather": for errors and logs */
  tsr_str rendezvous;         /* key prefix in the host's key-value service, this communicator's alone. It has the
                                 epoch, since keys are never removed: those made again are in another one */
  const int32_t* world_ranks; /* [n] the members' world ranks, for errors; borrowed for the call */
  const tsr_host* host;
  const tsr_device_interface* device_interface;
  tsr_device* device; /* whose streams will be used */
  const tsr_option_value* options;
  uint64_t num_options;
  int64_t timeout_ms; /* for create itself and as default of every collective */
  tsr_str store_host; /* name or number of the machine with the job's store, which every rank reaches; empty: not known.
                         Borrowed for the call */
  const uint32_t* cancel; /* borrowed for the call; NULL: never. Another thread sets it to other than 0 (both sides use
                             __atomic_load_n and __atomic_store_n), and create returns ABORTED within 2 seconds,
                             wherever it waits */
} tsr_comm_create_args;

/* APPENDABLE. */
typedef struct tsr_communicator_interface {
  uint32_t struct_size;
  uint32_t reserved;
  /* What this communicator can do with a device's streams of that kind; opens nothing. The caller sets
   * caps->struct_size, to 8 at least: what does not fit is left out. The arrays it gets are the plugin's constants.
   * Errors: UNSUPPORTED when it takes no such streams, in a message that says which it takes. [any-thread] */
  TSR_FN(tsr_status, caps)(tsr_str stream_kind, tsr_comm_caps* caps, tsr_error* err) TSR_NOEXCEPT;
  /* Bytes of workspace that submit needs for this collective (pointers in it are ignored, but for counts) in a group of
   * `size`: an upper bound that depends on the arguments alone, so that memory can be planned without a communicator.
   * Errors: INVALID_ARGUMENT for a size below 1 or a struct_size that is too small; UNSUPPORTED for what caps() claims
   * for no streams. Pure. [any-thread] */
  TSR_FN(tsr_status, describe)
  (const tsr_collective* collective, int32_t size, uint64_t* workspace_bytes, tsr_error* err) TSR_NOEXCEPT;
  /* Joins the group; returns when all members have, or at the deadline with the ranks that are missing. A collective of
   * all members: each calls it with the same size and rendezvous. *comm is the caller's until destroy. `args` is
   * borrowed for the call; args->host and args->device outlive the communicator.
   * Errors: INVALID_ARGUMENT when the arguments contradict one another (rank, size, timeout_ms, which is above 0,
   * struct_size) or those of another member; UNSUPPORTED for a device whose streams it does not take; NOT_FOUND for an
   * option that names what is not there, such as a network interface; FAILED_PRECONDITION when these members cannot
   * form a group (threads wanted and processes found, two ranks on one GPU); DEADLINE, naming the missing ranks;
   * UNAVAILABLE when the key-value store, a library or a member is gone; ABORTED when the job ended meanwhile or
   * *args->cancel was set; RESOURCE_EXHAUSTED for threads or descriptors. [control-thread] */
  TSR_FN(tsr_status, create)(const tsr_comm_create_args* args, tsr_comm** comm, tsr_error* err) TSR_NOEXCEPT;
  /* Enqueues one collective; copies it, but for the data, which is the caller's and stays as it is until the work is
   * done, or until destroy has returned after an error. Where work on a stream cannot fail ("cuda.stream") failed work
   * ends, what it wrote is undefined, and async_error has the error by then: the host asks for it after every wait for
   * such a stream.
   * Errors, with nothing enqueued: INVALID_ARGUMENT for an unknown kind, dtype or reduction, an average of integers, a
   * root or peer outside the group, a peer that is this rank itself, NULL or unaligned data, counts that overflow, send
   * and recv that overlap but not in place, a negative timeout_ms, reserved or spare words that are not 0, an
   * is_receive other than 1 and 0, no stream or another than before; UNSUPPORTED for what caps() does not list; ABORTED
   * after abort(). A communicator that has failed may return its first error here too. [issue-thread; working, failed]
   */
  TSR_FN(tsr_status, submit)(tsr_comm* comm, const tsr_collective* collective, tsr_error* err) TSR_NOEXCEPT;
  /* OK, or the first error of any of this communicator's work, which it returns from then on. Errors: those at the top
   * of this file. Where work cannot fail its stream, the error is here before the failed work ends. [any-thread] */
  TSR_FN(tsr_status, async_error)(tsr_comm* comm, tsr_error* err) TSR_NOEXCEPT;
  /* Aborts all of them; every outstanding and later operation fails with ABORTED within 2 seconds. comms[0] is cut
   * before any other is, the others in any order: the host gives the one that carries the step's sums over the world
   * first, so that nothing passes these sums after another collective was cut short. It waits for no stream: the host
   * aborts first, and then waits for streams. Does not
   * block, cannot fail, may be repeated; with num_comms 0, where `comms` may be NULL, and for NULL in the array it does
   * nothing. They may be of several ranks. Ranks of other processes learn of it: their work fails too, at the latest at
   * its time-out. After it only async_error and destroy are legal, and until destroy has returned the memory of what
   * was submitted may still be touched, as after any error. [any-thread] */
  TSR_FN(void, abort)(tsr_comm* const* comms, uint64_t num_comms) TSR_NOEXCEPT;
  /* Local, never a collective; all submitted work must be done or aborted. NULL is allowed. Waits for threads of the
   * communicator's own, for seconds at most, and 2 after an abort; leaves no thread, descriptor or memory.
   * [control-thread; working, failed] */
  TSR_FN(void, destroy)(tsr_comm* comm) TSR_NOEXCEPT;
  /* May be NULL. Optional tables by id, or NULL; there is none so far. Constants that live as long as the process.
   * [any-thread] */
  TSR_FN(const void*, get_extension)(tsr_str id) TSR_NOEXCEPT;
} tsr_communicator_interface;

#ifdef __cplusplus
}
#endif
#endif
