// The optional tables of tessera/device.h: each ABI function makes one call. Like device_table.hpp, they turn
// exceptions into a status, and handles are the objects themselves under another type.
#include "cuda-device/device.h"
#include "cuda-device/semaphore.h"
#include "cuda-device/stream.h"
#include "tessera/device_table.hpp"

namespace tessera::cuda {
namespace {

using Table = ::tessera::DeviceTable<Plugin>;

Stream& object(tsr_stream* stream) {
  return static_cast<Stream&>(Table::object(stream));
}
Graph& object(tsr_graph* graph) {
  return *reinterpret_cast<Graph*>(graph);
}
Semaphore& object(tsr_semaphore* semaphore) {
  return *reinterpret_cast<Semaphore*>(semaphore);
}
const Context& context_of(tsr_device* device) {
  return static_cast<CudaDevice&>(Table::object(device)).context();
}

tsr_status begin(tsr_stream* stream, tsr_error* err) noexcept {
  return Table::guarded(err, [&] { object(stream).begin_capture(); });
}
tsr_status end(tsr_stream* stream, tsr_graph** graph, tsr_error* err) noexcept {
  return Table::guarded(err, [&] { *graph = reinterpret_cast<tsr_graph*>(object(stream).end_capture().release()); });
}
tsr_status launch(tsr_graph* graph, tsr_stream* stream, tsr_error* err) noexcept {
  return Table::guarded(err, [&] { object(stream).launch(object(graph)); });
}
void destroy_graph(tsr_graph* graph) noexcept {
  delete reinterpret_cast<Graph*>(graph);
}
constexpr tsr_device_capture kCapture = {sizeof(tsr_device_capture), 0, begin, end, launch, destroy_graph};

tsr_status create(tsr_device* device, tsr_semaphore** semaphore, tsr_error* err) noexcept {
  return Table::guarded(err, [&] { *semaphore = reinterpret_cast<tsr_semaphore*>(new Semaphore(context_of(device))); });
}
void destroy_semaphore(tsr_semaphore* semaphore) noexcept {
  delete reinterpret_cast<Semaphore*>(semaphore);
}
tsr_status wait(tsr_stream* stream, tsr_semaphore* semaphore, uint32_t value, tsr_error* err) noexcept {
  return Table::guarded(err, [&] { object(semaphore).wait(object(stream), value); });
}
void signal(tsr_semaphore* semaphore, uint32_t value) noexcept {
  object(semaphore).signal(value);
}
constexpr tsr_device_semaphore kSemaphore = {sizeof(tsr_device_semaphore), 0, create, destroy_semaphore, wait, signal};

tsr_status query(tsr_device* device, uint64_t* total_bytes, uint64_t* used_bytes, tsr_error* err) noexcept {
  return Table::guarded(err, [&] {
    const MemoryInfo info = memory_info(context_of(device));
    *total_bytes = info.total;
    *used_bytes = info.total - info.free;
  });
}
constexpr tsr_device_memory_info kMemoryInfo = {sizeof(tsr_device_memory_info), 0, query};

}  // namespace

const void* Plugin::get_extension(std::string_view id) noexcept {
  if (id == TSR_DEVICE_CAPTURE) return &kCapture;
  if (id == TSR_DEVICE_SEMAPHORE) return &kSemaphore;
  if (id == TSR_DEVICE_MEMORY_INFO) return &kMemoryInfo;
  return nullptr;
}

}  // namespace tessera::cuda
