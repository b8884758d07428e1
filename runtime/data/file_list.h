// The files that `--data` names when it is not one file.
#pragma once

#include <string>
#include <vector>

namespace tessera::host {

/// What a folder and its sub-folders hold, but for hidden files and folders (names that start with a dot); each sorted
/// by path.
struct FolderContents {
  std::vector<std::string> files;     ///< regular ones, and whatever else is named .bin, so that opening it is an error
  std::vector<std::string> left_out;  ///< links to folders and to nothing, and what else is not a file
};
/// Throws UNAVAILABLE naming the folder that cannot be listed.
FolderContents contents_of(const std::string& folder);

/// Whether the path holds a shell's wildcard: *, ? or [.
bool is_pattern(const std::string& path);

/// The files and folders that match the shell's pattern, sorted by path; none when nothing does. Throws UNAVAILABLE
/// when a folder on the way cannot be listed.
std::vector<std::string> paths_matching(const std::string& pattern);
/// The same for files alone: throws also NOT_FOUND when nothing matches, INVALID_ARGUMENT when a folder does.
std::vector<std::string> files_matching(const std::string& pattern);

/// Whether the pattern would match a file of that path if it existed; the folder may be written in another way.
bool would_match(const std::string& pattern, const std::string& path);

/// Throws UsageError when `flag`, such as "--data", names neither a file nor a folder, and is not a pattern that a file
/// matches.
void require_data(const std::string& flag, const std::string& path);

/// Says that the `files` of a pattern are, by their names, for training and for evaluation, and what to give instead;
/// empty where they are not of both kinds.
std::string doubt_of_pattern(const std::string& pattern, const std::vector<std::string>& files);

/// Whether all files are token files by name (.bin): shards of one sequence. Throws INVALID_ARGUMENT with what to give
/// instead for a `folder` that holds such files beside others or what is left out, or shards for training beside others
/// for evaluation.
bool are_shards(const std::string& folder, const FolderContents& contents);

}  // namespace tessera::host
