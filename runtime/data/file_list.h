// The files that `--data` names when it is not one file.
#pragma once

#include <string>
#include <vector>

namespace tessera {

/// The regular files in the folder and its sub-folders, sorted by path. Left out: hidden files and folders (names that
/// start with a dot), and links to folders. Throws UNAVAILABLE naming the folder that cannot be listed.
std::vector<std::string> files_in(const std::string& folder);

/// Whether the path holds a wildcard of a shell: *, ? or [.
bool is_pattern(const std::string& path);

/// What matches the shell's pattern, sorted by path. Throws NOT_FOUND when nothing does, UNAVAILABLE when a folder on
/// the way cannot be listed.
std::vector<std::string> files_matching(const std::string& pattern);

/// Throws UsageError when `--data` names neither a file nor a folder, and is no pattern that a file matches.
void require_data(const std::string& path);

/// Whether all are token files by name (.bin): shards of one sequence. Throws INVALID_ARGUMENT for a `folder` that
/// holds such files beside others, or beside shards for validation, saying what to give instead.
bool are_shards(const std::string& folder, const std::vector<std::string>& files);

}  // namespace tessera
