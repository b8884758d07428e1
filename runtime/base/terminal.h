// Standard error as a terminal: what it can show, and writes that other processes cannot split.
#pragma once

#include <string>
#include <string_view>

namespace tessera::host {

/// What standard error can show.
struct Terminal {
  bool redraws = false;     ///< a line can be taken back: a terminal, but for TERM=dumb and where CI is set
  bool has_colors = false;  ///< the same, without NO_COLOR
  bool is_utf8 = false;     ///< by the locale's variables
};

/// By the environment, when it is first called; from then on also for handlers of signals. [any-thread]
const Terminal& standard_error();
/// The columns of its window now; 80 when it does not say. [any-thread]
int terminal_columns();

/// Takes back the line that the cursor is in; to be written before a line. Empty where nothing can be taken back. Also
/// for handlers of signals, as standard_error().
std::string_view clear_line();
/// Writes all of it to standard error, with one write where the system takes it at once, so that lines of several
/// processes do not mix. What cannot be written is dropped. [any-thread]
void write_standard_error(std::string_view text);

/// `fraction` of `num_columns` as a bar: "━━━━────", or "####----" where there is no UTF-8.
std::string progress_bar(double fraction, int num_columns, const Terminal& terminal);
/// The first `num_columns` characters of UTF-8 text.
std::string first_columns(std::string_view text, int num_columns);
/// Characters of UTF-8 text.
int num_columns_of(std::string_view text);

}  // namespace tessera::host
