// Text that people read: lines made of parts, and what may not reach a terminal as it is.
#pragma once

#include <span>
#include <sstream>
#include <string>
#include <string_view>

namespace tessera::host {

/// The parts one after the other, as `<<` prints them: concat("rank ", 3, " of ", 4).
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return std::move(out).str();
}

/// `text` as a terminal may show it, for text that may hold what files, arguments or plugins say. UTF-8 stays; control
/// characters, the invisible ones that turn or break lines, and bytes that are not UTF-8 become \n, \r, \t or \x1b.
/// A newline stays where two spaces follow: the continuation lines of our own sentences, which look like no other line.
std::string printable(std::string_view text);

/// Numbers of ranks, ascending: "2, 5 to 9, 12"; of long lists the first, and how many there are: "1, 3, 5, ... (40
/// ranks)".
std::string rank_list(std::span<const int> ranks);
/// The same with the word: "rank 3", "ranks 2, 5 to 9".
std::string ranks_text(std::span<const int> ranks);

}  // namespace tessera::host
