// Files and folders that survive a power cut.
#pragma once

#include <string>
#include <string_view>

namespace tessera::host {

/// What was created, renamed or removed in the folder is so after a power cut too. Throws UNAVAILABLE with the system's
/// reason.
void sync_folder(const std::string& folder);
/// The folder of a file, also of one given by its name alone.
std::string folder_of(const std::string& path);

/// Writes `path` all or nothing: into `path`.partial, which is made durable and renamed. Throws UNAVAILABLE with the
/// system's reason.
void write_durably(const std::string& path, std::string_view text);

}  // namespace tessera::host
