// Text for people: lines made of parts, escaping for terminals, sizes, lists of ranks, names of processes.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <span>
#include <sstream>
#include <string>
#include <string_view>

namespace tessera::host {

/// The parts joined, each as `<<` prints it: concat("rank ", 3, " of ", 4).
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return std::move(out).str();
}

/// 1, "rank" -> "1 rank"; 3, "rank" -> "3 ranks"; 2, "class" -> "2 classes". For nouns with this plural.
template <class Integer>
std::string counted(Integer count, std::string_view noun) {
  return concat(count, " ", noun, count == 1 ? "" : noun.ends_with('s') ? "es" : "s");
}

/// Like printf, up to 255 characters.
template <class... Args>
std::string format(const char* pattern, Args... args) {
  std::array<char, 256> text;
  std::snprintf(text.data(), text.size(), pattern, args...);
  return text.data();
}

/// `text` made safe for a terminal; for text that may come from files, arguments or plugins. UTF-8 stays; control
/// characters, invisible ones that reverse or break lines, and bytes that are not UTF-8 become \n, \r, \t or \x1b.
/// A newline stays where two spaces follow: that is how continuation lines of our messages begin, and nothing else.
std::string printable(std::string_view text);

/// For a command to be pasted: in single quotes unless it has only characters that no shell treats.
std::string shell_word(std::string_view word);

/// `text` for HTML and SVG, in elements and in attributes with double quotes.
std::string escaped_markup(std::string_view text);

/// 1536 -> "1.5 KiB".
std::string human_bytes(uint64_t num_bytes);

/// 3.2 -> "3.2 s", 72 -> "1 min 12 s", 7500 -> "2 h 5 min", 180000 -> "2 d 2 h".
std::string duration_text(double seconds);

/// Ascending ranks as text: "2, 5 to 9, 12"; a long list is cut: "1, 3, 5, ... (40 ranks)".
std::string rank_list(std::span<const int> ranks);
/// The same with the word: "rank 3", "ranks 2, 5 to 9".
std::string ranks_text(std::span<const int> ranks);

/// The name of this machine; empty if the system does not tell.
std::string host_name();
/// "process 733 on node1"; "process 733" where `host` is empty.
std::string process_text(int64_t pid, std::string_view host);

}  // namespace tessera::host
