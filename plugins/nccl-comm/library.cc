// Which versions of NCCL are accepted, and its results as codes of the ABI. Versions below 2.28.9 are refused, not only
// warned about: the release notes name a hang with many ranks, which a user would look for in their own job
// (docs/decisions/0019).
#include "nccl-comm/library.h"

#include <algorithm>
#include <cstring>

namespace tessera::nccl_comm {
namespace {

constexpr int kMinimumVersion = NCCL_VERSION(2, 28, 9);

tsr_status status_of(ncclResult_t result) {
  switch (result) {
    case ncclRemoteError:
    case ncclSystemError:  // as a rule a connection
      return TSR_E_UNAVAILABLE;
    case ncclInvalidArgument:
    case ncclInvalidUsage:
      return TSR_E_INVALID_ARGUMENT;
    default:
      return TSR_E_INTERNAL;
  }
}

}  // namespace

std::string version_text(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

std::shared_ptr<const Library> Library::open() {
  auto library = std::make_shared<const Library>();
  int version = 0;
  if (const ncclResult_t result = library->get_version(&version); result != ncclSuccess)
    throw library->error(result, "[nccl-comm] " + library->file.path() + ": ncclGetVersion");
  if (version < kMinimumVersion)
    throw Error(
        TSR_E_UNAVAILABLE,
        "[nccl-comm] " + library->file.path() + " is NCCL " + version_text(version) + ", but " +
            version_text(kMinimumVersion) +
            " or newer is needed, which fixes a hang with many ranks (operations in different orders on its main "
            "and proxy threads); install a newer NCCL, put the folder of one that is here first in LD_LIBRARY_PATH, or "
            "use --comm gloo");
  return library;
}

// ncclGetLastError has details that the code lacks, such as the interface or the peer; it may have several lines.
std::string Library::text(ncclResult_t result) const {
  std::string text = get_error_string(result);
  const char* last = get_last_error(nullptr);
  if (!last || !*last) return text;
  text += "; last message: " + std::string(last);
  std::replace(text.begin(), text.end(), '\n', ' ');
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

Error Library::error(ncclResult_t result, const std::string& what) const {
  return Error(status_of(result), what + " failed: " + text(result));
}

}  // namespace tessera::nccl_comm
