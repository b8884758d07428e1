/* The functions of a device with faults in front of them: a part of wrapped.c. */
#ifndef TESSERA_TESTS_WRAPPED_DEVICE_H
#define TESSERA_TESTS_WRAPPED_DEVICE_H
#include <sys/mman.h>

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
  if (is_fault("open", "twice")) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static tsr_device* first = NULL;
    pthread_mutex_lock(&mutex); /* ranks are threads */
    const tsr_status status = first ? TSR_OK : inner.open(args, &first, err);
    pthread_mutex_unlock(&mutex);
    return *device = first, status;
  }
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
  if (memory == TSR_MEMORY_DEVICE && is_fault("allocate", "own")) {
    *pointer = mmap(NULL, num_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
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
#endif
