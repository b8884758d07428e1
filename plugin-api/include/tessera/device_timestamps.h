/* SPDX-License-Identifier: Apache-2.0 */
/* Timestamps: the times at which streams got somewhere, as the device itself notes them (Vulkan's timestamp queries,
 * CUDA's events). An optional table of a device, as those in device.h. Where a device has none, the host enqueues host
 * functions that read its clock; on a GPU each of those holds its stream up for some 30 us. Since 0.12. */
#ifndef TESSERA_DEVICE_TIMESTAMPS_H
#define TESSERA_DEVICE_TIMESTAMPS_H

#include "tessera/device.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TSR_DEVICE_TIMESTAMPS "tsr.device.timestamps/1"
typedef struct tsr_timestamps tsr_timestamps;

/* APPENDABLE. */
typedef struct tsr_device_timestamps {
  uint32_t struct_size;
  uint32_t reserved;
  /* Room for `count` times, which may be 0, none of them written: the caller's until destroy. Errors:
   * RESOURCE_EXHAUSTED; driver errors. [control-thread] */
  TSR_FN(tsr_status, create)
  (tsr_device* device, uint64_t count, tsr_timestamps** timestamps, tsr_error* err) TSR_NOEXCEPT;
  /* Its streams have done what was enqueued; NULL is allowed. [control-thread] */
  TSR_FN(void, destroy)(tsr_timestamps* timestamps) TSR_NOEXCEPT;
  /* Time `index` becomes that at which `stream` has done the work submitted to it so far, whether that failed or not.
   * Each index is written at most once between two reads. Errors: INVALID_ARGUMENT when index >= count;
   * FAILED_PRECONDITION when `stream` is in a capture; driver errors. [issue-thread; working, failed] */
  TSR_FN(tsr_status, write)
  (tsr_timestamps* timestamps, tsr_stream* stream, uint64_t index, tsr_error* err) TSR_NOEXCEPT;
  /* times_ns[0..count): what was written since the last read, in nanoseconds of CLOCK_MONOTONIC, and 0 where nothing
   * was. The differences are the device's; where all of them lie on the host's clock is known to some 20 us. Its
   * streams have done what was enqueued. Errors: driver errors. [control-thread] */
  TSR_FN(tsr_status, read)(tsr_timestamps* timestamps, int64_t* times_ns, tsr_error* err) TSR_NOEXCEPT;
} tsr_device_timestamps;

#ifdef __cplusplus
}
#endif
#endif
