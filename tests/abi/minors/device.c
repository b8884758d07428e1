/* The smallest device: memory of the process, and streams that do their work at once, in the call that submits it. Of
 * ops it has COPY and SCALE. For tests of versions: it reads every struct and fills every table of the kind. */
#include <stdlib.h>
#include <tessera/device.h>
#include <tessera/device_timestamps.h>
#include <tessera/helpers.h>

#define NAME "at-once"

struct tsr_device {
  const tsr_host* host;
};
struct tsr_stream {
  tsr_error error; /* code 0: working */
};
struct tsr_event {
  tsr_error error;
};
struct tsr_kernel {
  uint32_t kind;
  uint64_t num_elements;
  float factor;
};

static tsr_status fail(tsr_error* err, tsr_status code, const char* sentence) {
  return tsr_fail(err, code, NAME, sentence);
}

static void* made(uint64_t num_bytes) {
  return calloc(1, num_bytes);
}

static int knows(const tsr_op* op) {
  for (int i = 0; i < TSR_NUM_DIMS; ++i)
    if (op->dims[i] != 0 && i != (int)TSR_DIM_ELEMENTS) return 0;
  for (int i = 0; i < TSR_NUM_ATTRIBUTES; ++i)
    if (op->attributes[i] != 0 && !(i == TSR_ATTR_SCALE && op->kind == TSR_OP_SCALE)) return 0;
  for (int i = 0; i < TSR_NUM_OWN; ++i)
    if (op->own[i] != 0) return 0;
  return op->dtype == TSR_F32 && (op->kind == TSR_OP_COPY || op->kind == TSR_OP_SCALE);
}

static tsr_status describe(const tsr_op* op, tsr_slot_spec* slots, uint64_t* num_slots, tsr_error* err) {
  if (!TSR_HAS(op, tsr_op, num_ranges)) return fail(err, TSR_E_INVALID_ARGUMENT, "describe: the op is too short");
  if (!knows(op)) return fail(err, TSR_E_UNSUPPORTED, "describe: this device has copy and scale, of float32");
  const uint64_t capacity = *num_slots;
  *num_slots = op->kind == TSR_OP_COPY ? 2 : 1;
  if (capacity < *num_slots) return fail(err, TSR_E_RESOURCE_EXHAUSTED, "describe: the array of slots is too small");
  memset(slots, 0, *num_slots * sizeof *slots);
  tsr_slot_spec* to = &slots[*num_slots - 1];
  if (op->kind == TSR_OP_COPY) {
    slots->slot = TSR_SLOT(TSR_ROLE_SOURCE, 0);
    slots->mode = TSR_MODE_READ;
  }
  to->slot = TSR_SLOT(TSR_ROLE_DESTINATION, 0);
  to->mode = op->kind == TSR_OP_COPY ? TSR_MODE_WRITE : TSR_MODE_ADD;
  for (uint64_t i = 0; i < *num_slots; ++i) {
    slots[i].dtype = TSR_F32;
    slots[i].num_elements = (uint64_t)op->dims[TSR_DIM_ELEMENTS];
  }
  return TSR_OK;
}

static tsr_status open_device(const tsr_device_open_args* args, tsr_device** device, tsr_error* err) {
  if (!TSR_HAS(args, tsr_device_open_args, num_options) || args->num_threads == 0)
    return fail(err, TSR_E_INVALID_ARGUMENT, "open: the arguments are too short, or num_threads is 0");
  *device = made(sizeof **device);
  (*device)->host = args->host;
  const tsr_str line = TSR_STR("opened");
  args->host->log(args->host->ctx, TSR_LOG_INFO, line);
  return TSR_OK;
}
static void close_device(tsr_device* device) {
  free(device);
}

static tsr_status allocate(tsr_device* device, uint32_t memory, uint64_t num_bytes, void** pointer, tsr_error* err) {
  (void)device;
  if (memory != TSR_MEMORY_DEVICE && memory != TSR_MEMORY_HOST)
    return fail(err, TSR_E_INVALID_ARGUMENT, "allocate: the memory is neither the device's nor the host's");
  *pointer = aligned_alloc(4096, (num_bytes + 4096) / 4096 * 4096);
  return *pointer ? TSR_OK : fail(err, TSR_E_RESOURCE_EXHAUSTED, "allocate: out of memory");
}
static void release(tsr_device* device, uint32_t memory, void* pointer) {
  (void)device, (void)memory;
  free(pointer);
}

static tsr_status stream_create(tsr_device* device, tsr_str name, tsr_stream** stream, tsr_error* err) {
  (void)device, (void)name, (void)err;
  *stream = made(sizeof **stream);
  return TSR_OK;
}
static void stream_destroy(tsr_stream* stream) {
  free(stream);
}
static tsr_status stream_synchronize(tsr_stream* stream, int64_t timeout_ms, tsr_error* err) {
  if (timeout_ms < 0) return fail(err, TSR_E_INVALID_ARGUMENT, "synchronize: the time-out is negative");
  if (stream->error.code != TSR_OK && err) *err = stream->error;
  return stream->error.code;
}

static tsr_status event_create(tsr_device* device, tsr_event** event, tsr_error* err) {
  (void)device, (void)err;
  *event = made(sizeof **event);
  return TSR_OK;
}
static void event_destroy(tsr_event* event) {
  free(event);
}
static tsr_status event_record(tsr_event* event, tsr_stream* stream, tsr_error* err) {
  (void)err;
  event->error = stream->error;
  return TSR_OK;
}
static tsr_status stream_wait(tsr_stream* stream, tsr_event* event, tsr_error* err) {
  (void)err;
  if (stream->error.code == TSR_OK) stream->error = event->error;
  return TSR_OK;
}

static tsr_status copy(tsr_stream* stream, void* dst, const void* src, uint64_t num_bytes, tsr_error* err) {
  (void)err;
  if (stream->error.code == TSR_OK) memcpy(dst, src, num_bytes);
  return TSR_OK;
}
static tsr_status fill(tsr_stream* stream, void* dst, uint32_t byte, uint64_t num_bytes, tsr_error* err) {
  (void)err;
  if (stream->error.code == TSR_OK) memset(dst, (int)(byte & 0xffu), num_bytes);
  return TSR_OK;
}
static tsr_status host_function(tsr_stream* stream, tsr_host_function function, void* user, tsr_error* err) {
  (void)err;
  if (stream->error.code == TSR_OK) stream->error.code = function(user, &stream->error);
  return TSR_OK;
}
static void* native_handle(tsr_stream* stream, tsr_str kind) {
  (void)stream, (void)kind;
  return NULL;
}

static tsr_status prepare(tsr_device* device, const tsr_op* op, const tsr_slot_spec* slots, uint64_t num_slots,
                          tsr_kernel** kernel, tsr_error* err) {
  (void)device;
  tsr_slot_spec own[2];
  uint64_t num_own = 2;
  const tsr_status status = describe(op, own, &num_own, err);
  if (status != TSR_OK) return status;
  for (uint64_t i = 0; i < num_slots; ++i)
    if (num_slots != num_own || slots[i].slot != own[i].slot || slots[i].num_elements != own[i].num_elements)
      return fail(err, TSR_E_INVALID_ARGUMENT, "prepare: the slots are not the op's, in its order");
  *kernel = made(sizeof **kernel);
  (*kernel)->kind = op->kind;
  (*kernel)->num_elements = own->num_elements;
  (*kernel)->factor = (float)op->attributes[TSR_ATTR_SCALE];
  return TSR_OK;
}
static void kernel_destroy(tsr_kernel* kernel) {
  free(kernel);
}
static tsr_status launch(tsr_kernel* kernel, tsr_stream* stream, void* const* pointers, uint64_t num_pointers,
                         tsr_error* err) {
  (void)err, (void)num_pointers;
  if (stream->error.code != TSR_OK) return TSR_OK;
  float* const to = pointers[kernel->kind == TSR_OP_COPY];
  if (kernel->kind == TSR_OP_COPY) memcpy(to, pointers[0], kernel->num_elements * sizeof *to);
  for (uint64_t i = 0; i < kernel->num_elements && kernel->kind == TSR_OP_SCALE; ++i)
    to[i] *= kernel->factor;
  return TSR_OK;
}

/* Optional tables too. Here time is what was written so far. */
static tsr_status memory_of_device(tsr_device* device, uint64_t* total_bytes, uint64_t* used_bytes, tsr_error* err) {
  (void)device, (void)err;
  *total_bytes = 1 << 20;
  *used_bytes = 4096;
  return TSR_OK;
}
static const tsr_device_memory_info kMemoryInfo = {.struct_size = sizeof kMemoryInfo, .query = memory_of_device};

struct tsr_timestamps {
  uint64_t count;
  int64_t now;
  int64_t times_ns[];
};
static tsr_status timestamps_create(tsr_device* device, uint64_t count, tsr_timestamps** timestamps, tsr_error* err) {
  (void)device, (void)err;
  *timestamps = made(sizeof **timestamps + count * sizeof *(*timestamps)->times_ns);
  (*timestamps)->count = count;
  return TSR_OK;
}
static void timestamps_destroy(tsr_timestamps* timestamps) {
  free(timestamps);
}
static tsr_status timestamps_write(tsr_timestamps* timestamps, tsr_stream* stream, uint64_t index, tsr_error* err) {
  (void)stream;
  if (index >= timestamps->count) return fail(err, TSR_E_INVALID_ARGUMENT, "write: the index is not less than count");
  timestamps->times_ns[index] = ++timestamps->now;
  return TSR_OK;
}
static tsr_status timestamps_read(tsr_timestamps* timestamps, int64_t* times_ns, tsr_error* err) {
  (void)err;
  const uint64_t num_bytes = timestamps->count * sizeof *times_ns;
  memcpy(times_ns, timestamps->times_ns, num_bytes);
  memset(timestamps->times_ns, 0, num_bytes);
  return TSR_OK;
}
static const tsr_device_timestamps kTimestamps = {
    .struct_size = sizeof kTimestamps,
    .create = timestamps_create,
    .destroy = timestamps_destroy,
    .write = timestamps_write,
    .read = timestamps_read,
};
static const void* get_extension(tsr_str id) {
  if (tsr_equals(id, TSR_DEVICE_TIMESTAMPS)) return &kTimestamps;
  return tsr_equals(id, TSR_DEVICE_MEMORY_INFO) ? &kMemoryInfo : NULL;
}

static const tsr_descriptor kDescriptor = {
    .struct_size = sizeof(tsr_descriptor),
    .name = TSR_STR(NAME),
    .kind = TSR_STR(TSR_KIND_DEVICE),
    .id = TSR_STR("org.tessera.tests.at-once"),
    .version = TSR_STR("1"),
};
static const tsr_device_interface kInterface = {
    .struct_size = sizeof(tsr_device_interface),
    .stream_kind = TSR_STR("tests.at-once"),
    .describe = describe,
    .open = open_device,
    .close = close_device,
    .allocate = allocate,
    .release = release,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .stream_synchronize = stream_synchronize,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .stream_wait = stream_wait,
    .copy = copy,
    .fill = fill,
    .host_function = host_function,
    .native_handle = native_handle,
    .prepare = prepare,
    .kernel_destroy = kernel_destroy,
    .launch = launch,
    .get_extension = get_extension,
};

TSR_DEFINE_PLUGIN(NAME, kDescriptor, TSR_DEVICE_INTERFACE, kInterface)
