// How fast bytes move between memories, alone and beside compute.
#pragma once

#include "exec/device.h"
#include "rates/kernel_load.h"
#include "rates/rates.h"
#include "storage/file_store.h"

namespace tessera::host {

/// Copies between device memory and the host's, on streams of their own. [control-thread]
CopyRates measure_copies(const Device& device, const KernelLoad& compute);

/// Reads and writes of a store of its own, in transfers of up to `chunk_bytes`. Throws what FileStore throws.
/// [control-thread]
FileRates measure_files(FileStoreOptions options, uint64_t chunk_bytes, const KernelLoad& compute, const Log& log);

}  // namespace tessera::host
