/* The smallest communicator: groups of one rank, where a collective copies what is sent to what is received, on the
 * device's stream. For tests of versions: it reads every struct and calls every table that a communicator is given. */
#include <stdlib.h>
#include <tessera/communicator.h>
#include <tessera/helpers.h>

#define NAME "alone"

struct tsr_comm {
  const tsr_device_interface* device;
  uint64_t num_aborts;
};

static tsr_status fail(tsr_error* err, tsr_status code, const char* sentence) {
  return tsr_fail(err, code, NAME, sentence);
}

static const tsr_dtype kDtypes[] = {TSR_F32};
static const tsr_str kStreamKinds[] = {TSR_STR("tests.at-once"), TSR_STR("cpu.queue")};

static tsr_status caps(tsr_str stream_kind, tsr_comm_caps* result, tsr_error* err) {
  if (!tsr_equals(stream_kind, "tests.at-once") && !tsr_equals(stream_kind, "cpu.queue"))
    return fail(err, TSR_E_UNSUPPORTED, "caps: takes streams of the kinds tests.at-once and cpu.queue");
  const tsr_comm_caps all = {.struct_size = result->struct_size,
                             .flags = TSR_COMM_CANONICAL_SUM | TSR_COMM_ONE_PROCESS,
                             .collectives = UINT64_C(1) << TSR_COLL_ALL_REDUCE,
                             .reduces = UINT64_C(1) << TSR_REDUCE_SUM,
                             .dtypes = kDtypes,
                             .num_dtypes = 1,
                             .stream_kinds = kStreamKinds,
                             .num_stream_kinds = 2};
  memcpy(result, &all, result->struct_size < sizeof all ? result->struct_size : sizeof all);
  return TSR_OK;
}

static tsr_status describe(const tsr_collective* collective, int32_t size, uint64_t* workspace_bytes, tsr_error* err) {
  if (!TSR_HAS(collective, tsr_collective, label) || size < 1)
    return fail(err, TSR_E_INVALID_ARGUMENT, "describe: the collective is too short, or the group is empty");
  *workspace_bytes = sizeof(void*) * 3;
  return TSR_OK;
}

/* Leaves a trace in the key-value store, and reads it again. */
static tsr_status rendezvous(const tsr_comm_create_args* args, tsr_error* err) {
  const tsr_str id = TSR_STR(TSR_KV_SERVICE);
  const tsr_host* const host = args->host;
  const tsr_kv_service* kv = host->get_service(host->ctx, id);
  if (kv == NULL) return fail(err, TSR_E_UNAVAILABLE, "create: the host has no key-value store");
  int64_t members = 0;
  tsr_status status = kv->add(host->ctx, args->rendezvous, 1, &members, err);
  if (status == TSR_OK) status = kv->set(host->ctx, args->rendezvous, &members, sizeof members, err);
  uint64_t num_bytes = sizeof members;
  if (status == TSR_OK) status = kv->get(host->ctx, args->rendezvous, &members, &num_bytes, args->timeout_ms, err);
  return status;
}

static tsr_status create(const tsr_comm_create_args* args, tsr_comm** comm, tsr_error* err) {
  if (!TSR_HAS(args, tsr_comm_create_args, cancel) || args->timeout_ms <= 0)
    return fail(err, TSR_E_INVALID_ARGUMENT, "create: the arguments are too short, or the time-out is");
  if (args->size != 1 || args->rank != 0) return fail(err, TSR_E_UNSUPPORTED, "create: groups have one rank");
  if (args->cancel && __atomic_load_n(args->cancel, __ATOMIC_ACQUIRE))
    return fail(err, TSR_E_ABORTED, "create: was cancelled");
  const tsr_status status = rendezvous(args, err);
  if (status != TSR_OK) return status;
  *comm = calloc(1, sizeof **comm);
  (*comm)->device = args->device_interface;
  return TSR_OK;
}

static tsr_status submit(tsr_comm* comm, const tsr_collective* c, tsr_error* err) {
  if (!TSR_HAS(c, tsr_collective, label) || c->reserved != 0)
    return fail(err, TSR_E_INVALID_ARGUMENT, "submit: the collective is too short, or has a reserved word");
  if (comm->num_aborts != 0) return fail(err, TSR_E_ABORTED, "submit: was aborted");
  if (c->kind != TSR_COLL_ALL_REDUCE || c->reduce != TSR_REDUCE_SUM || c->dtype != TSR_F32)
    return fail(err, TSR_E_UNSUPPORTED, "submit: there is the sum of float32 over all, alone");
  return comm->device->copy(c->stream, c->recv, c->send, TSR_NUM_BYTES(c->dtype, c->num_elements), err);
}

static tsr_status async_error(tsr_comm* comm, tsr_error* err) {
  return comm->num_aborts ? fail(err, TSR_E_ABORTED, "was aborted") : TSR_OK;
}
static void abort_all(tsr_comm* const* comms, uint64_t num_comms) {
  for (uint64_t i = 0; i < num_comms; ++i)
    if (comms[i]) ++comms[i]->num_aborts;
}
static void destroy(tsr_comm* comm) {
  free(comm);
}

static const tsr_descriptor kDescriptor = {
    .struct_size = sizeof(tsr_descriptor),
    .name = TSR_STR(NAME),
    .kind = TSR_STR(TSR_KIND_COMMUNICATOR),
    .id = TSR_STR("org.tessera.tests.alone"),
    .version = TSR_STR("1"),
};
static const tsr_communicator_interface kInterface = {
    .struct_size = sizeof(tsr_communicator_interface),
    .caps = caps,
    .describe = describe,
    .create = create,
    .submit = submit,
    .async_error = async_error,
    .abort = abort_all,
    .destroy = destroy,
};

TSR_DEFINE_PLUGIN(NAME, kDescriptor, TSR_COMMUNICATOR_INTERFACE, kInterface)
