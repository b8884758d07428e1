// The ABI edge of the test device.
#include "devices/other_device.h"
#include "tessera/device_table.hpp"
#include "tessera/plugin.hpp"

namespace {

using namespace tessera;
using other::OtherDevice;
using other::Plugin;
using other::Recording;
using other::Semaphore;

constexpr bool kIsBare = std::string_view(TESSERA_OTHER_DEVICE) == "bare";
constexpr uint64_t kTotalBytes = uint64_t{1} << 32;

struct Table : DeviceTable<Plugin> {
  static OtherDevice& device(tsr_device* p) { return static_cast<OtherDevice&>(object(p)); }
  static other::Stream& stream(tsr_stream* p) { return static_cast<other::Stream&>(object(p)); }
  static Semaphore& semaphore(tsr_semaphore* p) { return *reinterpret_cast<Semaphore*>(p); }
  static Recording& recording(tsr_graph* p) { return *reinterpret_cast<Recording*>(p); }

  static tsr_status begin(tsr_stream* lead, tsr_error* err) noexcept {
    return guarded(err, [&] { stream(lead).device().begin_capture(stream(lead)); });
  }
  static tsr_status end(tsr_stream* lead, tsr_graph** graph, tsr_error* err) noexcept {
    return guarded(
        err, [&] { *graph = reinterpret_cast<tsr_graph*>(stream(lead).device().end_capture(stream(lead)).release()); });
  }
  static tsr_status launch_graph(tsr_graph* graph, tsr_stream* on, tsr_error* err) noexcept {
    return guarded(err, [&] { recording(graph).launch(stream(on)); });
  }
  static void destroy_graph(tsr_graph* graph) noexcept { delete &recording(graph); }

  static tsr_status create_semaphore(tsr_device*, tsr_semaphore** made, tsr_error* err) noexcept {
    return guarded(err, [&] { *made = reinterpret_cast<tsr_semaphore*>(new Semaphore); });
  }
  static void destroy_semaphore(tsr_semaphore* p) noexcept { delete &semaphore(p); }
  static tsr_status wait_semaphore(tsr_stream* waiting, tsr_semaphore* p, uint32_t value, tsr_error* err) noexcept {
    return guarded(err, [&] { semaphore(p).wait(stream(waiting), value); });
  }
  static void signal_semaphore(tsr_semaphore* p, uint32_t value) noexcept { semaphore(p).signal(value); }

  static tsr_status query(tsr_device* p, uint64_t* total_bytes, uint64_t* used_bytes, tsr_error* err) noexcept {
    return guarded(err, [&] {
      *total_bytes = kTotalBytes;
      *used_bytes = device(p).addresses().num_bytes();
    });
  }

  static const void* get_extension(tsr_str id) noexcept {
    static constexpr tsr_device_capture kCapture{sizeof kCapture, 0, begin, end, launch_graph, destroy_graph};
    static constexpr tsr_device_semaphore kSemaphore{
        sizeof kSemaphore, 0, create_semaphore, destroy_semaphore, wait_semaphore, signal_semaphore};
    static constexpr tsr_device_memory_info kMemory{sizeof kMemory, 0, query};
    if (kIsBare) return nullptr;
    if (view(id) == TSR_DEVICE_CAPTURE) return &kCapture;
    if (view(id) == TSR_DEVICE_SEMAPHORE) return &kSemaphore;
    return view(id) == TSR_DEVICE_MEMORY_INFO ? &kMemory : nullptr;
  }
};

constexpr tsr_option kOptions[] = {bool_option("fail-capture", "false", "every capture fails at its end")};
constexpr tsr_descriptor kDescriptor =
    descriptor(TESSERA_OTHER_DEVICE, TSR_KIND_DEVICE, "org.tessera.tests." TESSERA_OTHER_DEVICE "-device", "0.12.0",
               "computes on the processor in memory that the host cannot touch", kOptions);
constexpr tsr_device_interface kTable = kDeviceInterface<Plugin, Table>;

}  // namespace

TESSERA_PLUGIN(kDescriptor, TSR_DEVICE_INTERFACE, kTable)
