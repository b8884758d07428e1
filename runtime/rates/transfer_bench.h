// How fast bytes move between memories, alone and beside compute.
#pragma once

#include <optional>

#include "exec/device.h"
#include "rates/op_bench.h"
#include "rates/rates.h"
#include "storage/file_store.h"

namespace tessera::host {

/// Copies between device memory and the host's, on streams of their own. `compute` has been measured.
/// [control-thread]
CopyRates measure_copies(const Device& device, OpBench& compute);

/// Reads and writes of a store of its own, in transfers of up to `chunk_bytes`. Throws what FileStore throws.
/// [control-thread]
FileRates measure_files(FileStoreOptions options, uint64_t chunk_bytes, OpBench& compute, const Log& log);

}  // namespace tessera::host
