// Standard error as a terminal: what it can show, and writes that other processes cannot split, nor readers end.
#pragma once

#include <csignal>
#include <ctime>
#include <string>
#include <string_view>

namespace tessera::host {

/// What standard error can show.
struct Terminal {
  bool redraws = false;     ///< the current line can be erased: a terminal, unless TERM=dumb or CI is set
  bool has_colors = false;  ///< the same, unless NO_COLOR is set
  bool is_utf8 = false;     ///< from the locale's variables
};

/// Reads the environment when it is first called; after that also safe in signal handlers. [any-thread]
const Terminal& standard_error();
/// Whether a line may be drawn there now: a shell's background job shares the terminal with what is typed. [any-thread]
bool is_in_foreground();
/// The width of its window now; 80 if unknown. [any-thread]
int terminal_columns();

/// The text that erases the current line, to be written before a line. Empty where a line cannot be erased. Safe in
/// signal handlers, as standard_error() is.
std::string_view clear_line();
/// Writes the text to standard error, in one write where the system allows it, so that lines of several processes do
/// not mix. What cannot be written is dropped. [any-thread]
void write_standard_error(std::string_view text);
/// The same for a line that the next one replaces: left out while earlier text waits for its reader.
void write_status(std::string_view text);

/// From now on the two wait no longer than a moment for the reader of standard error: what a pipe or a terminal (after
/// ^S) does not take is kept, up to a megabyte of the newest lines, and written before the next line, or at the end.
/// For the processes of a job: ranks wait for one that waits, and would take it for lost. [setup: before there are
/// threads]
void keep_what_is_not_read();
/// Writes what is kept, after waiting for the reader. [any-thread]
enum class UntilRead { forever, for_a_moment, not_at_all };
void write_what_is_kept(UntilRead wait);

/// `fraction` of `num_columns` as a bar: "━━━━────", or "####----" without UTF-8.
std::string progress_bar(double fraction, int num_columns, const Terminal& terminal);
/// The first `num_columns` characters of UTF-8 text.
std::string first_columns(std::string_view text, int num_columns);
/// Characters of UTF-8 text.
int num_columns_of(std::string_view text);

/// A closed reader makes this thread's write fail with EPIPE, instead of killing the process silently with SIGPIPE.
class WithoutSigpipe {
 public:
  WithoutSigpipe() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~WithoutSigpipe() {
    constexpr timespec kNow = {0, 0};
    // Consumes the pending signal, unless the caller had blocked it and may be waiting for it.
    if (!sigismember(&before_, SIGPIPE)) ::sigtimedwait(&pipe_, nullptr, &kNow);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;

 private:
  sigset_t pipe_, before_;
};

}  // namespace tessera::host
