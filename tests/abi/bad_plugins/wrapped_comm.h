/* The functions of a communicator with faults in front of them: a part of wrapped.c. */
#ifndef TESSERA_TESTS_WRAPPED_COMM_H
#define TESSERA_TESTS_WRAPPED_COMM_H

#define TEST_INTERFACE TSR_COMMUNICATOR_INTERFACE
typedef tsr_communicator_interface Table;
static Table inner;

static const tsr_device_interface* device;
static int num_members;
static tsr_comm* of_second = NULL; /* of member 1 */

/* What a collective has received, to be spoilt when it is done. */
typedef struct Result {
  float* numbers;
  uint64_t num_elements;
} Result;
static tsr_status spoil(void* user, tsr_error* err) {
  (void)err;
  const Result result = *(const Result*)user;
  free(user);
  const float first = result.numbers[0];
  if (is_fault("result", "order")) result.numbers[0] = result.numbers[result.num_elements - 1];
  if (is_fault("result", "order")) result.numbers[result.num_elements - 1] = first;
  if (is_fault("result", "range")) result.numbers[result.num_elements] = 0;
  return TSR_OK;
}
static tsr_status spoil_all_reduce(void* user, tsr_error* err) {
  (void)err;
  const Result result = *(const Result*)user;
  free(user);
  if (is_fault("result", "beside")) result.numbers[result.num_elements] = 0;
  if (is_fault("result", "rounded")) result.numbers[result.num_elements - 1] *= 1 + 1e-7f;
  if (is_fault("result", "narrow")) *(uint16_t*)result.numbers = 0;
  if (is_fault("result", "of-second")) ++result.numbers[0];
  return TSR_OK;
}
static tsr_status spoil_integer(void* user, tsr_error* err) {
  (void)err;
  ++*(int64_t*)user;
  return TSR_OK;
}
static tsr_status zero_four_bytes(void* user, tsr_error* err) {
  (void)err;
  memset(user, 0, 4);
  return TSR_OK;
}
static tsr_status change_rounding(void* user, tsr_error* err) {
  (void)user, (void)err;
#if defined(__x86_64__)
  _mm_setcsr(_mm_getcsr() | 0x6000);
#endif
  return TSR_OK;
}
static uint64_t total_of(const tsr_collective* c) {
  const uint64_t* const counts = c->recv_counts ? c->recv_counts : c->counts;
  uint64_t total = 0;
  for (int i = 0; counts && i < num_members; ++i)
    total += counts[i];
  return counts ? total : c->num_elements * (c->kind == TSR_COLL_ALL_GATHER ? (uint64_t)num_members : 1);
}
static int is_in_place(const tsr_collective* c) {
  const uint64_t num_bytes = TSR_NUM_BYTES(c->dtype, total_of(c));
  return (size_t)c->recv <= (size_t)c->send && (size_t)c->send < (size_t)c->recv + num_bytes;
}
/* Whether the fault is that of this form of collective, on the rank that receives it. */
static int spoils_form(const tsr_collective* c) {
  if (c->kind == TSR_COLL_ALL_GATHER) return is_fault("result", "narrow-gather") && c->dtype == TSR_BF16;
  if (c->kind == TSR_COLL_REDUCE) return is_fault("result", "of-root-0") && c->peer == 0 && c->recv;
  return c->kind == TSR_COLL_BROADCAST && is_fault("result", "own-copy") && !is_in_place(c);
}
/* Submits it, and spoils what it gives. */
static tsr_status submit_spoilt(tsr_comm* comm, const tsr_collective* collective, tsr_error* err) {
  static const float kZeros[128] = {0};
  tsr_collective changed = *collective;
  const int sends = changed.kind == TSR_COLL_ALL_GATHER || changed.kind == TSR_COLL_SEND;
  if (is_fault("result", "own-part") && sends) changed.send = kZeros;
  const int is_all_reduce = changed.kind == TSR_COLL_ALL_REDUCE;
  if (is_fault("result", "averages") && changed.reduce == TSR_REDUCE_AVG) changed.reduce = TSR_REDUCE_SUM;
  if (is_fault("result", "aside") && is_all_reduce && changed.send != changed.recv) return TSR_OK;
  const int is_even_gather = changed.kind == TSR_COLL_ALL_GATHER && !changed.counts;
  if (is_fault("result", "gather-aside") && is_even_gather && !is_in_place(&changed)) return TSR_OK;
  const tsr_status status = inner.submit(comm, &changed, err);
  if (status == TSR_OK && is_fault("result", "integers") && changed.dtype == TSR_I64)
    return device->host_function(changed.stream, spoil_integer, changed.recv, err);
  if (status == TSR_OK && is_fault("result", "late-integers") && changed.dtype == TSR_I64 && changed.num_elements > 10)
    return device->host_function(changed.stream, spoil_integer, (int64_t*)changed.recv + 10, err);
  if (status == TSR_OK && spoils_form(&changed))
    return device->host_function(changed.stream, zero_four_bytes, changed.recv, err);
  const tsr_dtype spoilt = is_fault("result", "narrow") ? TSR_BF16 : TSR_F32;
  const int is_second = comm == __atomic_load_n(&of_second, __ATOMIC_RELAXED);
  const int spoils = is_fault("result", "beside") || is_fault("result", "rounded") || is_fault("result", "narrow") ||
                     (is_fault("result", "of-second") && is_second);
  if (status == TSR_OK && spoils && is_all_reduce && changed.dtype == spoilt) {
    Result* sum = malloc(sizeof *sum);
    if (!sum) abort();
    sum->numbers = changed.recv;
    sum->num_elements = changed.num_elements;
    return device->host_function(changed.stream, spoil_all_reduce, sum, err);
  }
  const int gives = changed.kind == TSR_COLL_ALL_GATHER || changed.kind == TSR_COLL_ALL_TO_ALL;
  if (status != TSR_OK || !gives || is_fault("result", "own-part")) return status;
  Result* result = malloc(sizeof *result);
  if (!result) abort();
  result->numbers = changed.recv;
  result->num_elements = total_of(&changed);
  return device->host_function(changed.stream, spoil, result, err);
}

/* Says in the words of the host that all is well, under the names that the host uses. */
static void forge_failures(const tsr_host* host) {
  static const char kWell[] =
      "{\"rank\":0,\"pid\":1,\"host\":\"here\",\"code\":-13,\"about\":-1,\"step\":-1,"
      "\"order\":0,\"exit_code\":0,\"sentence\":\"all is well\"}";
  static const tsr_str kService = {TSR_KV_SERVICE, sizeof(TSR_KV_SERVICE) - 1};
  static const tsr_str kKeys[] = {{"failure/0", 9}, {"failure/1", 9}};
  const tsr_kv_service* const store = host->get_service(host->ctx, kService);
  tsr_error err = {0};
  for (int i = 0; i < 2; ++i)
    store->set(host->ctx, kKeys[i], kWell, sizeof kWell - 1, &err);
}

static tsr_status describe_collective(const tsr_collective* collective, int32_t size, uint64_t* workspace_bytes,
                                      tsr_error* err) {
  if (is_fault("describe", "absurd")) return *workspace_bytes = UINT64_C(1) << 50, TSR_OK;
  return inner.describe(collective, size, workspace_bytes, err);
}
/* Of two groups of two along the axis dp, ranks {0, 2} and {1, 3}, the second members join the other one. */
static tsr_status create_in_other_group(const tsr_comm_create_args* args, tsr_comm** comm, tsr_error* err) {
  tsr_comm_create_args changed = *args;
  int32_t ranks[] = {args->world_ranks[0], args->world_ranks[1]};
  char rendezvous[256]; /* ends with the first rank of the group */
  const uint64_t length = args->rendezvous.len;
  if (length == 0 || length > sizeof rendezvous) abort();
  memcpy(rendezvous, args->rendezvous.ptr, length);
  ranks[1 - args->rank] ^= 1;
  if (args->rank == 1) rendezvous[length - 1] ^= 1;
  changed.rendezvous.ptr = rendezvous;
  changed.world_ranks = ranks;
  return inner.create(&changed, comm, err);
}
static tsr_status create(const tsr_comm_create_args* args, tsr_comm** comm, tsr_error* err) {
  faults_at("create");
  if (faults_beside_hang("create", args->rank)) return fail(err);
  if (is_fault("submit", "forge-and-kill")) forge_failures(args->host);
  device = args->device_interface;
  num_members = args->size;
  *comm = NULL;
  if (is_fault("create", "null")) return TSR_OK;
  static tsr_comm* first = NULL;
  if (is_fault("create", "twice") && first) return *comm = first, TSR_OK;
  const int is_in_other = is_fault("result", "of-other-group") && args->size == 2 && args->name.len > 3 &&
                          memcmp(args->name.ptr, "dp.", 3) == 0;
  const tsr_status status = is_in_other ? create_in_other_group(args, comm, err) : inner.create(args, comm, err);
  first = *comm;
  if (args->rank == 1) __atomic_store_n(&of_second, *comm, __ATOMIC_RELAXED);
  return status;
}
static tsr_status submit(tsr_comm* comm, const tsr_collective* collective, tsr_error* err) {
  const int is_of_step = collective->kind == TSR_COLL_ALL_REDUCE && collective->label.len != strlen("self-test");
  faults_at("submit");
  if (is_of_step) faults_at("step");
  if (is_fault("submit", "forge-and-kill")) kill(getpid(), SIGKILL);
  if (is_fault("submit", "silent")) return TSR_E_UNKNOWN;
  if (is_fault("submit", "nothing") || fault_at("abort-of-nothing")[0]) return TSR_OK;
  if (is_fault("work", "rounding") && is_of_step) device->host_function(collective->stream, change_rounding, NULL, err);
  if (is_fault("work", "hang")) return device->host_function(collective->stream, never_end, NULL, err);
  if (is_fault("work", "hang-in-step") && is_of_step)
    return device->host_function(collective->stream, never_end, NULL, err);
  if (fault_at("result")[0]) return submit_spoilt(comm, collective, err);
  return fault_at("abort")[0] ? fail(err) : inner.submit(comm, collective, err);
}
static tsr_status async_error(tsr_comm* comm, tsr_error* err) {
  faults_at("async");
  return is_fault("async", "silent") ? TSR_E_UNAVAILABLE : inner.async_error(comm, err);
}
/* Claims less than it does, or what nothing means. */
static tsr_status caps(tsr_str stream_kind, tsr_comm_caps* caps, tsr_error* err) {
  faults_at("caps");
  if (is_fault("caps", "silent")) return TSR_E_UNSUPPORTED;
  const tsr_status status = inner.caps(stream_kind, caps, err);
  static const tsr_dtype kIntegers[] = {TSR_I32, TSR_I64};
  static const tsr_str kOtherKinds[] = {{"other.stream", 12}};
  if (is_fault("caps", "flags")) caps->flags |= 0x100;
  if (is_fault("caps", "collectives")) caps->collectives |= 1;
  if (is_fault("caps", "nothing")) caps->collectives = 0;
  if (is_fault("caps", "no-all-reduce")) caps->collectives &= ~(UINT64_C(1) << TSR_COLL_ALL_REDUCE);
  if (is_fault("caps", "no-all-to-all")) caps->collectives &= ~(UINT64_C(1) << TSR_COLL_ALL_TO_ALL);
  if (is_fault("caps", "no-barrier")) caps->collectives &= ~(UINT64_C(1) << TSR_COLL_BARRIER);
  if (is_fault("caps", "no-sum")) caps->reduces &= ~(UINT64_C(1) << TSR_REDUCE_SUM);
  if (is_fault("caps", "integers")) caps->dtypes = kIntegers, caps->num_dtypes = 2;
  if (is_fault("caps", "other-kinds")) caps->stream_kinds = kOtherKinds, caps->num_stream_kinds = 1;
  static int num_calls = 0;
  if (is_fault("caps", "less-later") && __sync_fetch_and_add(&num_calls, 1) > 0)
    caps->collectives = UINT64_C(1) << TSR_COLL_BARRIER;
  if (is_fault("caps", "wild")) caps->dtypes = (const tsr_dtype*)(size_t)64;
  if (is_fault("caps", "not-canonical")) caps->flags &= ~TSR_COMM_CANONICAL_SUM;
  return status;
}
static void abort_all(tsr_comm* const* comms, uint64_t num_comms) {
  faults_at("abort");
  faults_at("abort-of-nothing");
  if (!is_fault("abort", "nothing")) inner.abort(comms, num_comms);
}
static void destroy(tsr_comm* comm) {
  faults_at("destroy");
  if (comm == __atomic_load_n(&of_second, __ATOMIC_RELAXED)) faults_at("destroy-of-second");
  inner.destroy(comm);
}

static Table wrapped(Table table) {
  table.caps = caps;
  table.describe = describe_collective;
  table.create = create;
  table.submit = submit;
  table.async_error = async_error;
  table.abort = abort_all;
  table.destroy = destroy;
  return table;
}
#endif
