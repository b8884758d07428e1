// What a person sees of a run: on a terminal one live line below the log, elsewhere lines alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <thread>

#include "base/terminal.h"
#include "e2e/cli.h"
#include "support/terminal.h"

namespace tessera::testing {
namespace {

using Environment = std::map<std::string, std::string>;

constexpr int kColumns = 100;

/// A terminal that can do everything, whatever this test runs on.
Environment terminal(Environment more = {}) {
  more.insert({{"TERM", "xterm-256color"}, {"LC_ALL", "C.UTF-8"}, {"NO_COLOR", ""}, {"CI", ""}});
  return more;
}

std::vector<std::string> job(std::vector<std::string> more) {
  std::vector<std::string> all = train({"--steps=40"});
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

std::vector<std::string> quiet_job(std::vector<std::string> more) {  // cli.h's has a line for every step
  std::vector<std::string> all = {"train",          "--model",      golden(),     "--data", golden("/tokens.bin"),
                                  "--batch-size=1", "--seq-len=16", "--threads=1"};
  all.insert(all.end(), more.begin(), more.end());
  return tessera(all);
}

size_t times(const std::string& text, std::string_view part) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size())
    ++count;
  return count;
}

/// The texts that were drawn in the live line: what is between erasing a line and the next such, without a newline.
std::vector<std::string> live_lines(const std::string& written) {
  std::vector<std::string> lines;
  constexpr std::string_view kErase = "\r\x1b[K";
  for (size_t at = written.find(kErase); at != written.npos;) {
    const size_t next = written.find(kErase, at + kErase.size());
    const std::string text = written.substr(at + kErase.size(), next - at - kErase.size());
    const size_t last = text.rfind('\n');
    lines.push_back(last == text.npos ? text : text.substr(last + 1));
    at = next;
  }
  std::erase(lines, "");
  return lines;
}

/// A line of the log, or one of a table in it.
bool is_whole(const std::string& line) {
  static const std::regex log_line(R"(\[\d\d:\d\d:\d\d\.\d{3}\] (\[rank \d\] )?(info|warning): .*)");
  return line.empty() || line.starts_with("  ") || std::regex_match(line, log_line);
}

TEST(Terminal, HasOneLiveLineBelowTheLog) {
  for (const std::vector<std::string>& ranks :
       {std::vector<std::string>{"--nproc=2"}, {"--nproc=2", "--comm=local"}, {"--nproc=1"}}) {
    const TerminalResult run = run_on_terminal(job(ranks), terminal(), kColumns);
    EXPECT_EQ(run.exit_code, 0) << run.written;
    const std::vector<std::string> live = live_lines(run.written);
    ASSERT_FALSE(live.empty()) << run.written;
    for (const std::string& line : live)
      EXPECT_LT(host::num_columns_of(line), kColumns) << line;
    for (const char* part : {"40/40 ━━━", "loss ", "norm ", "lr 3.0e-3", " tok/s"})
      EXPECT_NE(live.back().find(part), std::string::npos) << part << " in " << live.back();
    EXPECT_TRUE(std::ranges::any_of(live, [](const std::string& line) { return line.ends_with(" left"); }));
    for (const std::string& line : run.lines)
      EXPECT_TRUE(is_whole(line)) << line;
    EXPECT_EQ(run.lines.back(), "") << "the live line is gone at the end";
    EXPECT_NE(run.written.find("step   40/40"), std::string::npos);
  }
}

TEST(Terminal, HasNoLiveLineOfAJobInTheBackground) {
  std::vector<std::string> words = {"/bin/bash", "-c", "set -m; \"$@\" & wait $!", "bash"};
  const std::vector<std::string> command = job({});
  words.insert(words.end(), command.begin(), command.end());
  const TerminalResult result = run_on_terminal(words, terminal(), kColumns);
  EXPECT_EQ(result.exit_code, 0) << result.written;
  EXPECT_EQ(live_lines(result.written), std::vector<std::string>()) << result.written;
  EXPECT_NE(result.written.find("step   40/40"), std::string::npos) << result.written;
}

TEST(Terminal, FitsIntoFewColumns) {
  for (const int columns : {40, 60, 80}) {
    const TerminalResult run = run_on_terminal(job({}), terminal(), columns);
    for (const std::string& line : live_lines(run.written))
      EXPECT_LT(host::num_columns_of(line), columns) << line;
  }
}

TEST(Terminal, HasTablesThatFit) {
  for (const int columns : {60, 80}) {
    const TerminalResult run = run_on_terminal(quiet_job({"--steps=40", "--nproc=2"}), terminal(), columns);
    EXPECT_EQ(run.exit_code, 0) << run.written;
    size_t num_continued = 0;
    for (const std::string& line : run.lines) {
      if (!line.starts_with("  ")) continue;
      if (line.find(golden()) == line.npos) EXPECT_LE(host::num_columns_of(line), columns) << line;
      if (line.starts_with("                   ")) ++num_continued;
    }
    EXPECT_GT(num_continued, 0u) << run.written;
  }
}

TEST(Terminal, HasNoColorsWhereTheyAreNotWanted) {
  EXPECT_NE(run_on_terminal(job({}), terminal(), kColumns).written.find("\x1b[32minfo\x1b[0m"), std::string::npos);
  const TerminalResult run = run_on_terminal(job({}), terminal({{"NO_COLOR", "1"}}), kColumns);
  EXPECT_EQ(std::regex_search(run.written, std::regex("\x1b\\[[0-9;]*m")), false) << run.written;
  EXPECT_NE(run.written.find("40/40 ━━━"), std::string::npos);
}

TEST(Terminal, ThatCannotRedrawHasLinesAlone) {
  for (const Environment& plain : {Environment{{"TERM", "dumb"}}, {{"CI", "true"}}}) {
    const TerminalResult run = run_on_terminal(job({}), terminal(plain), kColumns);
    EXPECT_EQ(run.exit_code, 0);
    EXPECT_EQ(run.written.find('\x1b'), std::string::npos) << run.written;
    EXPECT_EQ(run.written.find("━"), std::string::npos) << run.written;
    EXPECT_EQ(times(run.written, "\r"), times(run.written, "\r\n")) << run.written;
  }
}

TEST(Terminal, HasABarOfAsciiWithoutUtf8) {
  const TerminalResult run = run_on_terminal(job({}), terminal({{"LC_ALL", "C"}}), kColumns);
  EXPECT_NE(run.written.find("40/40 ####"), std::string::npos) << run.written;
  EXPECT_EQ(run.written.find("━"), std::string::npos);
}

TEST(Terminal, ShowsHowFarLongWorkIs) {
  // Delays make it long: each of its 300 batches takes some milliseconds.
  const TerminalResult run =
      run_on_terminal(tessera({"eval", golden(), "--data", golden("/tokens.bin"), "--batch-size=1", "--seq-len=8",
                               "--eval-batches=300", "--threads=1", "--stream-delay=1"}),
                      terminal(), kColumns);
  EXPECT_EQ(run.exit_code, 0) << run.written;
  EXPECT_TRUE(std::regex_search(run.written, std::regex("━.* evaluating: \\d+ of 300, \\d+\\.\\d s so far")))
      << run.written;
  for (const std::string& line : run.lines)
    EXPECT_TRUE(is_whole(line)) << line;
}

TEST(Terminal, MetricsOnItAreNotMixedWithALiveLine) {
  const TerminalResult run = run_on_terminal(job({"--metrics=-"}), terminal(), kColumns);
  EXPECT_EQ(run.written.find("━"), std::string::npos) << run.written;
}

TEST(Terminal, KeepsAnErrorApartFromTheLiveLine) {
  // The launcher writes it, while the line of rank 0 is there.
  const TerminalResult run =
      run_on_terminal(quiet_job({"--nproc=2", "--lr=1e30", "--clip=0", "--max-skipped-steps=3", "--log-every=1000"}),
                      terminal(), kColumns);
  EXPECT_EQ(run.exit_code, 1) << run.written;
  const auto error = std::ranges::find_if(run.lines, [](const auto& line) { return line.starts_with("tessera: "); });
  ASSERT_NE(error, run.lines.end()) << run.written;
  for (auto line = run.lines.begin(); line != error; ++line)
    EXPECT_TRUE(is_whole(*line)) << *line;
}

TEST(Pipe, HasLinesAlone) {
  const CommandResult run = run_command(job({"--nproc=2"}), terminal());
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.out, "");
  EXPECT_EQ(run.err.find_first_of("\r\x1b"), std::string::npos) << run.err;
  EXPECT_EQ(run.err.find("━"), std::string::npos) << run.err;
}

/// The steps that have a line.
std::vector<int> steps_logged(const std::string& log) {
  std::vector<int> steps;
  const std::regex line(R"(step +(\d+)/\d+ \| loss)");
  for (std::sregex_iterator it(log.begin(), log.end(), line), end; it != end; ++it)
    steps.push_back(std::stoi((*it)[1]));
  return steps;
}

TEST(LogEvery, IsChosenSoThatARunHasAboutAHundredLines) {
  const TempFolder folder;
  const CommandResult run = run_command(quiet_job({"--steps=230", "--metrics=" + folder.path("metrics.jsonl")}));
  const std::vector<int> steps = steps_logged(run.err);
  ASSERT_EQ(steps.size(), 47u) << run.err;
  EXPECT_EQ((std::vector<int>(steps.begin(), steps.begin() + 3)), (std::vector<int>{1, 5, 10}));
  EXPECT_EQ(steps.back(), 230);
  EXPECT_EQ(read_metrics(folder.path("metrics.jsonl")).size(), 230u);
}

TEST(LogEvery, HasTheFirstAndTheLastStepAlways) {
  EXPECT_EQ(steps_logged(run_command(quiet_job({"--steps=10", "--log-every=4"})).err), (std::vector<int>{1, 4, 8, 10}));
  EXPECT_EQ(steps_logged(run_command(quiet_job({"--steps=3", "--log-every=1000"})).err), (std::vector<int>{1, 3}));
  const CommandResult lost = run_command(quiet_job({"--steps=50", "--log-every=1000", "--lr=1e30", "--clip=0"}));
  EXPECT_EQ(lost.exit_code, 1);
  EXPECT_EQ(steps_logged(lost.err), (std::vector<int>{1, 21})) << "the step of the failure:\n" << lost.err;
}

TEST(Summaries, SayWhetherRanksHaveTheirOwnCores) {
  const CommandResult off = run_command(quiet_job({"--steps=1", "--nproc=2", "--bind-cores=false"}));
  EXPECT_EQ(off.exit_code, 0) << off.err;
  EXPECT_NE(off.err.find(", 1 thread per rank\n"), off.err.npos) << off.err;
  std::vector<std::string> command = quiet_job({"--steps=1", "--nproc=2"});
  std::ranges::replace(command, "--threads=1", "--threads=" + std::to_string(std::thread::hardware_concurrency()));
  const CommandResult crowded = run_command(command);
  EXPECT_EQ(crowded.exit_code, 0) << crowded.err;
  EXPECT_EQ(crowded.err.find("on its own cores"), crowded.err.npos) << crowded.err;
}

TEST(Summaries, SayWhatTheRunIsAndWhatItWas) {
  const TempFolder folder;
  const CommandResult run =
      run_command(quiet_job({"--steps=4", "--nproc=2", "--strategy=fsdp", "--eval-data=" + golden("/tokens.bin"),
                             "--eval-batches=2", "--save=" + folder.path("run"), "--log-every=1"}));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const std::string version =
      nlohmann::json::parse(run_command(tessera({"plugins", "info", "fsdp", "--json"})).out)["version"];
  const bool has_cores = std::thread::hardware_concurrency() >= 2;
  for (const std::string& part :
       {std::string(" trains\n"), std::string("\n  steps            4 of 32 tokens: 2 ranks x 1 sequence of 16\n"),
        std::string("\n  mesh             dp=2: 2 ranks\n"), "\n  strategies       dp: fsdp " + version + "\n",
        "\n  communicator     gloo " + version + "; --comm auto chose it, since it connects processes",
        "\n  device           cpu " + version + ", 1 thread per rank" + (has_cores ? ", on its own cores\n" : "\n"),
        std::string("\n  memory           "), std::string("done: 4 steps\n  loss             "),
        std::string("\n  time             "), std::string(": preparing "), std::string(", evaluation "),
        std::string("\n  tokens/s         "), std::string("\n  time by action   "),
        std::string(" of rank 0 in 1 step\n"), std::string("\n  communication    "),
        std::string(" exposed\n  memory planned   "), std::string("\n  memory planned   "),
        std::string("\n  memory measured  "), "\n  checkpoint       " + folder.path("run/step-00000004") + "\n"})
    EXPECT_NE(run.err.find(part), std::string::npos) << part << "\nin " << run.err;
}

}  // namespace
}  // namespace tessera::testing
