// What a command writes: nothing of the user's is destroyed, and nothing is lost without a word.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <future>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>

#include "e2e/cli.h"
#include "support/patience.h"

namespace tessera::testing {
namespace {

using Words = std::vector<std::string>;

/// The command under a shell, which ends its line with `more`: "> /dev/full", "| head -1".
CommandResult in_shell(Words command, const std::string& more, const std::string& before = "") {
  Words words = {"/bin/bash", "-c", before + "\"$@\" " + more, "bash"};
  words.insert(words.end(), command.begin(), command.end());
  return run_command(words);
}

Words plan(Words more) {
  Words all = {"plan", "--model", golden(), "--batch-size=1", "--seq-len=32"};
  all.insert(all.end(), more.begin(), more.end());
  return tessera(all);
}

class StandardOutputOf : public ::testing::TestWithParam<Words> {};

TEST_P(StandardOutputOf, ThatIsLostIsSaid) {
  const Words command = tessera(GetParam());
  expect_message(in_shell(command, "> /dev/full"), 1, {"cannot write to standard output: No space left on device"});
  expect_message(in_shell(command, ">&-"), 1, {"cannot write to standard output: it is closed"});
  EXPECT_EQ(in_shell(command, "> /dev/null").exit_code, 0);
  EXPECT_EQ(in_shell(command, "> /dev/null 2>&- <&-").exit_code, 0);
}

const std::string kModel = "--model=" + golden();
INSTANTIATE_TEST_SUITE_P(Commands, StandardOutputOf,
                         ::testing::Values(Words{"plan", kModel}, Words{"plan", kModel, "--json"},
                                           Words{"plan", kModel, "--verify"}, Words{"plan", kModel, "--print-program"},
                                           Words{"plan", kModel, "--svg=-"}, Words{"train", "--help"}, Words{"--help"},
                                           Words{"--version"}, Words{"plugins", "list"},
                                           Words{"plugins", "info", "ddp"}));

TEST(StandardOutput, AReaderThatGoesEndsTheCommandQuietly) {
  const CommandResult result =
      in_shell(plan({"--print-program", "--grad-accum=64", "--log-level=warning"}), "| head -1; exit ${PIPESTATUS[0]}");
  EXPECT_EQ(result.exit_code, 128 + SIGPIPE);
  EXPECT_EQ(result.err, "");
}

// One who watches may go; the run does not.
TEST(StandardError, AReaderThatGoesDoesNotEndTheRun) {
  for (const char* nproc : {"--nproc=1", "--nproc=2"}) {
    const TempFolder folder;
    const CommandResult result = in_shell(train({"--steps=20", nproc, "--save=" + folder.path("save")}),
                                          "2>&1 | head -1; exit ${PIPESTATUS[0]}");
    EXPECT_EQ(result.exit_code, 0) << result.out;
    EXPECT_TRUE(std::filesystem::exists(folder.path("save/step-00000020"))) << nproc;
  }
}

/// A pipe that takes a page, and nothing more until it is read.
class SmallPipe {
 public:
  explicit SmallPipe(const std::string& path) {
    if (::mkfifo(path.c_str(), 0600) == 0) file_ = ::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (file_ < 0 || ::fcntl(file_, F_SETPIPE_SZ, 4096) < 0) throw std::runtime_error("cannot make a small pipe");
  }
  ~SmallPipe() { ::close(file_); }
  SmallPipe(const SmallPipe&) = delete;

  /// What is there now.
  std::string read() {
    std::string text;
    char bytes[4096];
    for (ssize_t n = 0; (n = ::read(file_, bytes, sizeof bytes)) > 0;)
      text.append(bytes, static_cast<size_t>(n));
    return text;
  }

 private:
  int file_ = -1;
};

void train_with_a_reader_that_pauses(const char* comm, int64_t timeout_ms) {
  const TempFolder folder;
  const std::string metrics = folder.path("metrics"), pipe_path = folder.path("pipe");
  SmallPipe pipe(pipe_path);
  Words words = {"/bin/bash", "-c", "exec \"$@\" 2> " + pipe_path, "bash"};
  for (const std::string& word : train({"--steps=100", "--nproc=2", "--comm", comm, "--metrics", metrics,
                                        "--timeout-ms=" + std::to_string(timeout_ms)}))
    words.push_back(word);
  Command job(words);
  std::future<CommandResult> result = std::async(std::launch::async, [&] { return job.wait(); });
  const auto has_ended = [&] { return result.wait_for(std::chrono::seconds(0)) == std::future_status::ready; };
  EXPECT_TRUE(eventually([&] { return read_metrics(metrics).size() == 100 || has_ended(); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(2 * timeout_ms));
  EXPECT_FALSE(has_ended());
  std::string text;
  EXPECT_TRUE(eventually([&] {
    text += pipe.read();
    return has_ended();
  }));
  text += pipe.read();
  EXPECT_EQ(result.get().exit_code, 0) << text;
  for (int step = 1; step <= 100; ++step)
    EXPECT_NE(text.find(" " + std::to_string(step) + "/100 "), std::string::npos) << step << " is missing\n" << text;
  EXPECT_NE(text.find("memory measured"), std::string::npos) << text;
}

// A pager, or a terminal after ^S. Other ranks wait for one that waits for its reader, and so does the launcher at the
// end, but no longer than a time-out.
TEST(StandardError, AReaderThatPausesDoesNotEndTheJob) {
  for (const char* comm : {"gloo", "local"}) {
    SCOPED_TRACE(comm);
    with_short_time(1000, [&](int64_t timeout_ms) { train_with_a_reader_that_pauses(comm, timeout_ms); });
  }
}

TEST(Metrics, ARunIsAddedAfterTheLast) {
  const TempFolder folder;
  const std::string file = folder.path("m.jsonl");
  for (const char* more : {"--nproc=1", "--nproc=2"})
    expect_message(run_command(train({"--steps=2", "--comm=local", more, "--metrics", file})), 0, {});
  const auto lines = read_json_lines(file);
  ASSERT_EQ(lines.size(), 6u);
  for (const size_t run : {0u, 3u}) {
    EXPECT_EQ(lines[run]["kind"], "run");
    EXPECT_EQ(lines[run]["steps"], 2);
    EXPECT_GT(lines[run]["planned_peak_bytes"], 0);
    EXPECT_EQ(lines[run]["model"], golden());
    for (const size_t step : {run + 1, run + 2}) {
      EXPECT_EQ(lines[step]["run"], lines[run]["run"]);
      EXPECT_EQ(lines[step]["updated"], true);
      EXPECT_GT(lines[step]["time"], 0);
    }
    EXPECT_GE(lines[run + 2]["time"], lines[run + 1]["time"]);
  }
  EXPECT_NE(lines[0]["run"], lines[3]["run"]);
  EXPECT_EQ(lines[3]["mesh"], "dp=2 ddp");
  EXPECT_EQ(lines[3]["world_size"], 2);
}

TEST(Metrics, GoToStandardOutput) {
  for (const char* path : {"-", "/dev/stdout"}) {
    const CommandResult result = run_command(train({"--steps=2", "--nproc=2", "--metrics", path}));
    expect_message(result, 0, {"done: 2 steps"});
    EXPECT_EQ(std::ranges::count(result.out, '\n'), 3);
    EXPECT_TRUE(nlohmann::json::parse(result.out.substr(0, result.out.find('\n'))).contains("kind")) << result.out;
  }
}

/// A copy of the golden model with its data beside it.
struct Job {
  Job() {
    std::filesystem::copy(golden(), folder.path("model"), std::filesystem::copy_options::recursive);
    std::filesystem::copy(golden("/tokens.bin"), data());
  }
  std::string data() const { return folder.path("data.bin"); }
  Words train(Words more) const {
    Words all = {"train",          "--model",      folder.path("model"), "--data",     data(),
                 "--batch-size=1", "--seq-len=32", "--steps=6",          "--threads=1"};
    all.insert(all.end(), more.begin(), more.end());
    return tessera(all);
  }
  TempFolder folder;
};

TEST(Metrics, NeverReplaceWhatTheJobReads) {
  const Job job;
  for (const std::string& file : {job.data(), job.folder.path("model/model.safetensors")}) {
    const std::string before = file_bytes(file);
    for (const char* nproc : {"--nproc=1", "--nproc=2"})
      expect_message(run_command(job.train({"--overwrite", nproc, "--metrics", file})), 2,
                     {"--metrics " + file + " is a file that the job reads for --"});
    EXPECT_EQ(file_bytes(file), before);
  }
}

TEST(Metrics, NeverReplaceSettingsOrACheckpoint) {
  const Job job;
  const std::string saved = job.folder.path("saved"), settings = job.folder.write("mine.json", R"({"lr": 0.001})");
  expect_message(run_command(job.train({"--save", saved})), 0, {});
  for (const auto& [flag, given, file] :
       {std::tuple<std::string, std::string, std::string>{"--config", settings, settings},
        {"--resume", saved, saved + "/step-00000006/index.json"},
        {"--init-from", saved, saved + "/step-00000006/rank-00000.safetensors"}}) {
    const std::string before = file_bytes(file);
    for (const char* nproc : {"--nproc=1", "--nproc=2"})
      expect_message(run_command(job.train({"--overwrite", nproc, flag, given, "--metrics", file})), 2,
                     {"--metrics " + file + " is a file that the job reads for " + flag});
    EXPECT_EQ(file_bytes(file), before);
  }
}

TEST(Outputs, OfARunAreDifferentFiles) {
  const Job job;
  const std::string file = job.folder.path("one"), out = job.folder.path("out");
  expect_message(run_command(job.train({"--metrics", file, "--profile=1", "--profile-out", file})), 2,
                 {"--metrics " + file + " and --profile-out " + file + " are one file"});
  expect_message(run_command(job.train({"--metrics=-", "--profile=1", "--profile-out=/dev/stdout"})), 2,
                 {"are one file"});
  for (const char* name : {"/metrics.jsonl", "/./plan.txt", "/log.rank0.txt"})
    expect_message(run_command(job.train({"--out", out, "--metrics", out + name})), 2,
                   {"--metrics " + out + name + " is a file that --out " + out + " writes too"});
  for (const std::string& path : {file, out})
    EXPECT_FALSE(std::filesystem::exists(path)) << path;
  expect_message(run_command(job.train({"--metrics=/dev/null", "--profile=1", "--profile-out=/dev/null"})), 0, {});
}

TEST(Metrics, NeverReplaceAShard) {
  const Job job;
  Words words = job.train({"--overwrite", "--metrics", job.data()});
  std::ranges::replace(words, job.data(), job.folder.path("d*.bin"));  // of --data, which comes first, and of --metrics
  words.back() = job.data();
  expect_message(run_command(words), 2, {"is a file that the job reads for --data (" + job.data() + ")"});
}

TEST(Metrics, NeverBecomeAShardOrWeightsOfTheNextRun) {
  const Job job;
  const std::string shard = job.folder.path("d.jsonl"), weights = job.folder.path("model/extra.safetensors");
  Words words = job.train({"--metrics", shard});
  std::ranges::replace(words, job.data(), job.folder.path("d*"));
  expect_message(run_command(words), 2, {"the next run would read for --data (" + job.folder.path("d*") + ")"});
  for (const char* nproc : {"--nproc=1", "--nproc=2"})
    expect_message(run_command(job.train({nproc, "--metrics", weights})), 2, {"would read for --model"});
  for (const std::string& file : {shard, weights})
    EXPECT_FALSE(std::filesystem::exists(file)) << file;
  expect_message(run_command(job.train({"--metrics", job.folder.path("model/m.jsonl")})), 0, {});
}

TEST(Metrics, ReplaceAnotherFileOnlyWhenAskedTo) {
  const Job job;
  const std::string file = job.folder.write("notes", "three years of work\n");
  expect_message(run_command(job.train({"--metrics", file})), 2, {"--metrics " + file, "--overwrite to replace it"});
  EXPECT_EQ(file_bytes(file), "three years of work\n");
  expect_message(run_command(job.train({"--metrics", file, "--overwrite"})), 0, {});
  EXPECT_EQ(read_json_lines(file).size(), 7u);
}

TEST(Metrics, ARunThatIsRefusedLeavesNoFile) {
  const Job job;
  const std::string file = job.folder.path("m.jsonl");
  expect_message(run_command(job.train({"--metrics", file, "--data-x"})), 2, {});
  for (const char* bad : {"--seq-len=65", "--device-memory=1KiB"}) {
    Words words = job.train({"--metrics", file, bad});
    if (std::string_view(bad).starts_with("--seq-len")) std::erase(words, "--seq-len=32");
    EXPECT_NE(run_command(words).exit_code, 0);
    EXPECT_FALSE(std::filesystem::exists(file)) << bad;
  }
}

TEST(Metrics, ThatCannotBeWrittenEndTheRun) {
  const Job job;
  expect_message(run_command(job.train({"--metrics=/dev/full"})), 1,
                 {"--metrics /dev/full cannot be written: No space left on device"});
  expect_message(run_command(job.train({"--metrics=/dev/full", "--nproc=2"})), 1,
                 {"--metrics /dev/full cannot be written: No space left on device"});
  expect_message(in_shell(job.train({"--metrics=-"}), ">&-"), 1,
                 {"--metrics (standard output) cannot be written: it is closed"});
  const std::string file = job.folder.path("m.jsonl"), limited = "ulimit -f 1; ";  // 1 KiB
  const std::string unlimited_errors = "2>&1 | cat >&2; exit ${PIPESTATUS[0]}";
  expect_message(in_shell(job.train({"--metrics", file, "--log-level=error"}), unlimited_errors, limited), 1,
                 {"--metrics " + file + " cannot be written: File too large"});
}

// What the run has done is not lost with them.
TEST(Metrics, ThatCannotBeWrittenStopTheRunAfterACheckpoint) {
  const Job job;
  for (const char* nproc : {"--nproc=1", "--nproc=2"}) {
    const std::string saved = job.folder.path(std::string("saved") + nproc);
    Words words = job.train({"--metrics=-", "--save", saved, nproc});
    std::ranges::replace(words, "--steps=6", "--steps=100000");
    expect_message(in_shell(words, "| head -3; exit ${PIPESTATUS[0]}"), 1,
                   {"--metrics (standard output) cannot be written: Broken pipe",
                    "of 100000, as an output cannot be written; continue it with --resume " + saved});
    EXPECT_FALSE(file_bytes(saved + "/latest").empty());
  }
}

TEST(Trace, ThatCannotBeWrittenIsWarnedOf) {
  const Job job;
  for (const char* nproc : {"--nproc=1", "--nproc=2"})
    expect_message(run_command(job.train({"--profile=2:3", "--profile-out=/dev/full", nproc})), 0,
                   {"no trace: --profile-out /dev/full cannot be written: No space left on device; the run continues",
                    "done: 6 steps"});
}

TEST(Metrics, AFifoWithoutAReaderIsRefused) {
  const Job job;
  const std::string fifo = job.folder.path("fifo");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  expect_message(run_command(job.train({"--metrics", fifo})), 1, {fifo + " is a FIFO without a reader"});
}

TEST(Svg, ReplacesADrawingAndNothingElse) {
  const TempFolder folder;
  const std::string drawing = folder.path("step.svg");
  for (int i = 0; i < 2; ++i)
    expect_message(run_command(plan({"--svg", drawing})), 0, {});
  EXPECT_NE(file_bytes(drawing).find("</svg>"), std::string::npos);
  const std::string other = folder.write("other.svg", "<svg>by hand</svg>");
  expect_message(run_command(plan({"--svg", other})), 2, {"--svg " + other, "--overwrite"});
  EXPECT_EQ(file_bytes(other), "<svg>by hand</svg>");
  expect_message(run_command(plan({"--svg", other, "--overwrite"})), 0, {});
  EXPECT_NE(file_bytes(other).find("One step of Tessera"), std::string::npos);
  expect_message(run_command(plan({"--svg=" + golden("/config.json"), "--overwrite"})), 2,
                 {"a file that the job reads"});
}

}  // namespace
}  // namespace tessera::testing
