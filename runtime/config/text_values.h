// Reading the values of flags. Every function throws UsageError with the flag, the value and what is valid.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::host {

/// A whole decimal number in [min, max]. `flag` is the flag's name without dashes.
int64_t parse_integer(std::string_view flag, std::string_view text, int64_t min, int64_t max);
/// The same for an environment variable: a whole number of at least 0.
int64_t parse_environment_integer(std::string_view variable, std::string_view text);
/// A finite decimal number in [min, max].
double parse_number(std::string_view flag, std::string_view text, double min, double max);
/// A number of bytes above 0: "2GiB", "512MiB", "1.5GB", "4096". KiB, MiB, GiB and TiB are powers of 1024; kB, MB, GB
/// and TB powers of 1000; B or nothing is bytes.
uint64_t parse_bytes(std::string_view flag, std::string_view text);
/// The text that reads back to the same number: in the largest of those units that it is a multiple of.
std::string print_bytes(uint64_t num_bytes);
/// true or false.
bool parse_bool(std::string_view flag, std::string_view text);
/// Refuses a path that begins with ~/, or is ~: the shell replaces that at the beginning of a word alone, so not in
/// --save=~/runs, and nothing does in a file of settings. `name` is a flag, or what else the path is.
void require_no_tilde(std::string_view name, std::string_view path);
/// The index in `choices`, which are separated by '|', of `text`.
size_t parse_choice(std::string_view flag, std::string_view text, std::string_view choices);

/// "a,b,,c" at ',' gives {"a", "b", "", "c"}; an empty text gives {""}.
std::vector<std::string_view> split(std::string_view text, char separator);
/// {"a", "b"} as "a,b".
std::string print_list(const std::vector<std::string>& items);
/// The shortest text that reads back to the same bits.
std::string shortest(double value);

}  // namespace tessera::host
