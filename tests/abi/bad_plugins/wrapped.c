/* A plugin of the repository with faults in front of its functions: TESSERA_TEST_FAULT names the function. TEST_INNER
 * is the file that does the work, TEST_NAME the name of this one; TEST_IS_DEVICE tells a device from a communicator. */
#include "faults.h"

#include <dlfcn.h>
#include <sys/mman.h>

#include "tessera/communicator.h"
#include "tessera/device.h"

static tsr_status fail(tsr_error* err) {
  err->code = TSR_E_UNAVAILABLE;
  err->rank = -1;
  strcpy(err->domain, "hostile");
  strcpy(err->message, "the cable is unplugged");
  return TSR_E_UNAVAILABLE;
}

#ifdef TEST_IS_DEVICE
static tsr_status gone(tsr_error* err) {
  fail(err);
  strcpy(err->message, "the board has left the machine");
  return err->code = TSR_E_DATA_LOSS;
}
#define TEST_INTERFACE TSR_DEVICE_INTERFACE
typedef tsr_device_interface Table;
static Table inner;

static tsr_status describe(const tsr_op* op, tsr_slot_spec* slots, uint64_t* num_slots, tsr_error* err) {
  faults_at("describe");
  if (is_fault("describe", "endless")) return *num_slots = UINT64_C(1) << 40, TSR_E_RESOURCE_EXHAUSTED;
  if (is_fault("describe", "most")) return *num_slots = UINT64_MAX, TSR_OK;
  if (is_fault("describe", "more")) return *num_slots += 1000, TSR_OK;
  const tsr_status status = inner.describe(op, slots, num_slots, err);
  if (status != TSR_OK || *num_slots == 0) return status;
  if (is_fault("describe", "spare")) slots[0].spare[1] = 7;
  if (is_fault("describe", "flags")) slots[0].flags |= 0x80;
  if (is_fault("describe", "dtype")) slots[0].dtype = 0;
  if (is_fault("describe", "mode")) slots[0].mode = TSR_MODE_WRITE;
  if (is_fault("describe", "elements")) ++slots[0].num_elements;
  if (is_fault("describe", "less")) --*num_slots;
  return status;
}
static tsr_status open_device(const tsr_device_open_args* args, tsr_device** device, tsr_error* err) {
  faults_at("open");
  *device = NULL;
  return is_fault("open", "null") ? TSR_OK : inner.open(args, device, err);
}
/* Without the last of its pages. */
static void* map_before_a_hole(uint64_t num_bytes) {
  const uint64_t num_mapped = num_bytes + 2 * 4096;
  char* const begin = mmap(NULL, num_mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const uint64_t last_page = (num_bytes - 1) / 4096 * 4096;
  mprotect(begin + last_page, num_mapped - last_page, PROT_NONE);
  return begin;
}
static tsr_status allocate(tsr_device* device, uint32_t memory, uint64_t num_bytes, void** pointer, tsr_error* err) {
  if (is_fault("allocate", "null")) return TSR_OK;
  if (memory == TSR_MEMORY_HOST && is_fault("allocate", "short"))
    return *pointer = map_before_a_hole(num_bytes), TSR_OK;
  if (memory == TSR_MEMORY_HOST && is_fault("allocate", "read-only")) {
    *pointer = mmap(NULL, num_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return TSR_OK;
  }
  if (is_fault("allocate", "twice") && num_bytes > 1 << 20) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static void* large = NULL;
    pthread_mutex_lock(&mutex); /* ranks are threads */
    const tsr_status status = large ? TSR_OK : inner.allocate(device, memory, num_bytes, &large, err);
    pthread_mutex_unlock(&mutex);
    return *pointer = large, status;
  }
  if (!is_fault("allocate", "odd")) return inner.allocate(device, memory, num_bytes, pointer, err);
  const tsr_status status = inner.allocate(device, memory, num_bytes + 64, pointer, err);
  if (status == TSR_OK) *pointer = (char*)*pointer + 4;
  return status;
}
static tsr_stream* state_stream = NULL; /* of --save-async */
static int is_tested = 0;               /* the self-test is over */
static tsr_status stream_create(tsr_device* device, tsr_str name, tsr_stream** stream, tsr_error* err) {
  static tsr_stream* first = NULL;
  if (is_fault("stream", "null")) return TSR_OK;
  if (is_fault("stream", "twice") && first) return *stream = first, TSR_OK;
  const tsr_status status = inner.stream_create(device, name, stream, err);
  first = *stream;
  if (name.len < 9 || memcmp(name.ptr, "self-test", 9) != 0) __atomic_store_n(&is_tested, 1, __ATOMIC_RELAXED);
  if (status == TSR_OK && name.len == strlen("copy_state") && memcmp(name.ptr, "copy_state", name.len) == 0)
    __atomic_store_n(&state_stream, *stream, __ATOMIC_RELAXED);
  return status;
}
static tsr_status event_create(tsr_device* device, tsr_event** event, tsr_error* err) {
  static tsr_event* first = NULL;
  if (is_fault("event", "null")) return TSR_OK;
  if (is_fault("event", "twice") && first) return *event = first, TSR_OK;
  const tsr_status status = inner.event_create(device, event, err);
  first = *event;
  return status;
}
static void event_destroy(tsr_event* event) {
  if (!is_fault("event", "twice")) inner.event_destroy(event);
}
/* Kernels of ops that differ from those asked for. */
static tsr_status prepare(tsr_device* device, const tsr_op* op, const tsr_slot_spec* slots, uint64_t num_slots,
                          tsr_kernel** kernel, tsr_error* err) {
  if (is_fault("prepare", "null")) return TSR_OK;
  tsr_op other = *op;
  if (op->kind == TSR_OP_CLIP && is_fault("clip", "off")) other.attributes[TSR_ATTR_MAX_NORM] = 0;
  if (op->kind == TSR_OP_ADAMW && is_fault("adamw", "beta")) other.attributes[TSR_ATTR_BETA2] = 0.5;
  tsr_op_range* ranges = NULL;
  if (op->kind == TSR_OP_ADAMW && is_fault("adamw", "no-decay")) {
    ranges = malloc((op->num_ranges + 1) * sizeof *ranges);
    if (!ranges) abort();
    for (uint64_t i = 0; i < op->num_ranges; ++i)
      ranges[i] = op->ranges[i], ranges[i].weight_decay = 0;
    other.ranges = ranges;
  }
  const tsr_status status = inner.prepare(device, &other, slots, num_slots, kernel, err);
  free(ranges);
  return status;
}
static tsr_status stream_synchronize(tsr_stream* stream, int64_t timeout_ms, tsr_error* err) {
  faults_at("synchronize");
  if (is_fault("synchronize", "gone")) return gone(err);
  return inner.stream_synchronize(stream, timeout_ms, err);
}
#if defined(__x86_64__)
/* On the stream's thread, where kernels run. */
static tsr_status flush_denormals(void* user, tsr_error* err) {
  (void)user, (void)err;
  _mm_setcsr(_mm_getcsr() | 0x8040);
  return TSR_OK;
}
#endif
static tsr_status never_end(void* user, tsr_error* err) {
  (void)user, (void)err;
  faults_hang();
  return TSR_OK;
}
static tsr_status launch(tsr_kernel* kernel, tsr_stream* stream, void* const* pointers, uint64_t num_pointers,
                         tsr_error* err) {
  faults_at("launch");
#if defined(__x86_64__)
  if (is_fault("kernels", "flush")) inner.host_function(stream, flush_denormals, NULL, err);
#endif
  static int num_launches = 0;
  if (is_fault("launch", "never-ends") && __atomic_add_fetch(&num_launches, 1, __ATOMIC_RELAXED) == 40)
    return inner.host_function(stream, never_end, NULL, err);
  if (is_fault("launch", "nothing")) return TSR_OK;
  return inner.launch(kernel, stream, pointers, num_pointers, err);
}
static tsr_status copy(tsr_stream* stream, void* to, const void* from, uint64_t num_bytes, tsr_error* err) {
  faults_at("copy");
  if (is_fault("copy", "of-state-never-ends") && __atomic_load_n(&state_stream, __ATOMIC_RELAXED) == stream)
    return inner.host_function(stream, never_end, NULL, err);
  /* Each counts pages, but for single bytes. */
  if (is_fault("copy", "to-a-page") && num_bytes > 1) to = (char*)to - (size_t)to % 4096;
  if (is_fault("copy", "from-a-page") && num_bytes > 1) from = (const char*)from - (size_t)from % 4096;
  if (is_fault("copy", "by-sixteens") && num_bytes > 1) num_bytes -= num_bytes % 16;
  if (is_fault("copy", "at-once")) return memcpy(to, from, num_bytes), TSR_OK;
  return is_fault("copy", "nothing") ? TSR_OK : inner.copy(stream, to, from, num_bytes, err);
}
static tsr_status host_function(tsr_stream* stream, tsr_host_function function, void* user, tsr_error* err) {
  static tsr_host_function kept = NULL;
  static void* kept_user = NULL;
  if (is_fault("function", "at-once")) return function(user, err);
  if (is_fault("function", "never-later") && __atomic_load_n(&is_tested, __ATOMIC_RELAXED)) return TSR_OK;
  if (is_fault("function", "twice")) inner.host_function(stream, function, user, err);
  if (!is_fault("function", "swapped")) return inner.host_function(stream, function, user, err);
  if (!kept) {
    kept = function, kept_user = user;
    return TSR_OK;
  }
  const tsr_status status = inner.host_function(stream, function, user, err);
  if (status != TSR_OK) return status;
  function = kept, kept = NULL;
  return inner.host_function(stream, function, kept_user, err);
}
static tsr_status stream_wait(tsr_stream* stream, tsr_event* event, tsr_error* err) {
  return is_fault("wait", "nothing") ? TSR_OK : inner.stream_wait(stream, event, err);
}
static tsr_status fill(tsr_stream* stream, void* to, uint32_t byte, uint64_t num_bytes, tsr_error* err) {
  return is_fault("fill", "nothing") ? TSR_OK : inner.fill(stream, to, byte, num_bytes, err);
}
static void close_device(tsr_device* device) {
  faults_at("close");
  inner.close(device);
}
/* Captures nothing: what it is given runs at once. */
static tsr_status capture_begin(tsr_stream* stream, tsr_error* err) {
  (void)stream, (void)err;
  return TSR_OK;
}
static tsr_status capture_end(tsr_stream* stream, tsr_graph** graph, tsr_error* err) {
  (void)stream, (void)err;
  *graph = (tsr_graph*)&inner;
  return TSR_OK;
}
static tsr_status capture_launch(tsr_graph* graph, tsr_stream* stream, tsr_error* err) {
  (void)graph, (void)stream, (void)err;
  return TSR_OK;
}
static void capture_destroy(tsr_graph* graph) {
  (void)graph;
}

/* As a later minor may have it: longer. */
static tsr_status query_memory(tsr_device* device, uint64_t* total_bytes, uint64_t* used_bytes, tsr_error* err) {
  (void)device, (void)err;
  *total_bytes = 7 << 20;
  *used_bytes = 3 << 20;
  return TSR_OK;
}
static const void* longer_extension(tsr_str id) {
  static const struct {
    tsr_device_memory_info known;
    uint64_t later[4];
  } kLonger = {{sizeof kLonger, 0, query_memory}, {1, 2, 3, 4}};
  const int is_info = id.len == strlen(TSR_DEVICE_MEMORY_INFO) && memcmp(id.ptr, TSR_DEVICE_MEMORY_INFO, id.len) == 0;
  return is_info ? &kLonger : inner.get_extension(id);
}
static const void* get_extension(tsr_str id) {
  static const tsr_device_capture kCapture = {sizeof kCapture, 0, capture_begin, capture_end, capture_launch,
                                              capture_destroy};
  const int is_capture = id.len == sizeof(TSR_DEVICE_CAPTURE) - 1 && memcmp(id.ptr, TSR_DEVICE_CAPTURE, id.len) == 0;
  if (is_fault("capture", "nothing")) return is_capture ? &kCapture : inner.get_extension(id);
  if (is_fault("extension", "wild")) return (const void*)(size_t)64;
  static const uint32_t kShort[32] = {12};
  if (is_fault("extension", "short")) return kShort;
  static const uint32_t kReserved[32] = {sizeof kReserved, 1};
  if (is_fault("extension", "reserved")) return kReserved;
  static const uint32_t kHoles[32] = {sizeof kHoles};
  if (is_fault("extension", "holes")) return kHoles;
  return is_fault("extension", "longer") ? longer_extension(id) : inner.get_extension(id);
}

static Table wrapped(Table table) {
  table.describe = describe;
  table.open = open_device;
  table.close = close_device;
  table.allocate = allocate;
  table.stream_create = stream_create;
  table.event_create = event_create;
  table.prepare = prepare;
  table.event_destroy = event_destroy;
  table.stream_synchronize = stream_synchronize;
  table.launch = launch;
  table.copy = copy;
  table.host_function = host_function;
  table.stream_wait = stream_wait;
  table.fill = fill;
  table.get_extension = get_extension;
  return table;
}
#else
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
/* Work that never ends, on its stream. */
static tsr_status never_end(void* user, tsr_error* err) {
  (void)user, (void)err;
  faults_hang();
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
  if (is_fault("submit", "nothing")) return TSR_OK;
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

static Table table;
static tsr_descriptor descriptor;

static const void* get_interface(tsr_str id) {
  if (is_fault("interface", "any")) return &table;
  return id.len == sizeof(TEST_INTERFACE) - 1 && memcmp(id.ptr, TEST_INTERFACE, id.len) == 0 ? &table : NULL;
}
static const tsr_factory factory = {sizeof(tsr_factory), 0, &descriptor, get_interface};

TSR_EXPORT tsr_status tsr_plugin_query_v1(tsr_handshake* io, const tsr_host* host, const tsr_factory** result,
                                          tsr_error* err) {
  void* const file = dlopen(TEST_INNER, RTLD_NOW | RTLD_LOCAL);
  const tsr_plugin_query_fn query = file ? (tsr_plugin_query_fn)dlsym(file, TSR_ENTRY_SYMBOL) : NULL;
  if (!query) return TSR_E_NOT_FOUND;
  const tsr_factory* of_inner = NULL;
  const tsr_status status = query(io, host, &of_inner, err);
  if (status != TSR_OK) return status;
  const tsr_str id = {TEST_INTERFACE, sizeof(TEST_INTERFACE) - 1};
  inner = *(const Table*)of_inner->get_interface(id);
  table = wrapped(inner);
  descriptor = *of_inner->descriptor;
  descriptor.name.ptr = TEST_NAME;
  descriptor.name.len = sizeof(TEST_NAME) - 1;
  *result = &factory;
  return TSR_OK;
}
