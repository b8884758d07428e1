// tessera report: one page with a run's numbers, which a browser draws.
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>

#include "e2e/cli.h"

namespace tessera::testing {
namespace {

using Words = std::vector<std::string>;
using nlohmann::json;

json numbers_of(const std::string& page) {
  const std::string begin = "<script type=\"application/json\" id=\"run\">";
  const size_t at = page.find(begin) + begin.size();
  return json::parse(page.substr(at, page.find("</script>", at) - at));
}

json chart_of(const json& numbers, const std::string& id) {
  for (const json& chart : numbers["charts"])
    if (chart["id"] == id) return chart;
  ADD_FAILURE() << "the page has no chart " << id;
  return {};
}

/// A run of 6 steps with three evaluations, recorded once for all tests.
const std::string& record() {
  static const TempFolder folder;
  static const std::string out = [] {
    const CommandResult result =
        run_command(train({"--steps=6", "--eval-data=" + golden("/tokens.bin"), "--eval-every=2", "--eval-batches=1",
                           "--nproc=2", "--out", folder.path("a")}));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return folder.path("a");
  }();
  return out;
}

std::string report_of(const std::string& folder) {
  const CommandResult result = run_command(tessera({"report", folder, "--to=-"}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return result.out;
}

TEST(Report, HasTheNumbersOfTheMetrics) {
  const CommandResult result = run_command(tessera({"report", record()}));
  expect_message(result, 0, {});
  EXPECT_EQ(result.out, "wrote " + record() + "/report.html\n");
  const std::string page = file_bytes(record() + "/report.html");
  const json numbers = numbers_of(page);
  std::map<std::string, json> expected;
  for (const json& line : read_json_lines(record() + "/metrics.jsonl")) {
    if (line.contains("step"))
      for (const char* key : {"loss", "grad_norm", "lr", "tokens_per_second", "memory_bytes", "peak_memory_bytes"})
        expected[key].push_back(line[key]);
    if (line.value("kind", "") == "eval") expected["eval loss"].push_back(line["loss"]);
  }
  const json loss = chart_of(numbers, "loss");
  EXPECT_EQ(loss["series"][0]["y"], expected["loss"]);
  EXPECT_EQ(loss["series"][0]["x"], json({1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(loss["series"][1]["y"], expected["eval loss"]);
  EXPECT_EQ(loss["series"][1]["x"], json({2, 4, 6}));
  EXPECT_EQ(chart_of(numbers, "norm")["series"][0]["y"], expected["grad_norm"]);
  EXPECT_EQ(chart_of(numbers, "lr")["series"][0]["y"], expected["lr"]);
  EXPECT_EQ(chart_of(numbers, "speed")["series"][0]["y"], expected["tokens_per_second"]);
  EXPECT_EQ(chart_of(numbers, "memory")["series"][1]["y"], expected["peak_memory_bytes"]);
  for (const std::string part : {"complete, 6 steps", "sandbox", "weight-decay", "compiler", "Content-Security-Policy"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  EXPECT_FALSE(std::regex_search(page, std::regex(R"((src|href)="?https?:)"))) << "the page loads something";
  // A second report replaces the first, but no other file.
  EXPECT_EQ(run_command(tessera({"report", record()})).exit_code, 0);
  const TempFolder folder;
  const std::string mine = folder.write("mine.html", "mine");
  expect_message(run_command(tessera({"report", record(), "--to", mine})), 2,
                 {"exists and was not written by tessera"});
}

TEST(Report, NeverReplacesTheRecord) {
  for (const char* name : {"metrics.jsonl", "config.json", "plan.txt", "plan.json", "step.svg"}) {
    const std::string file = record() + "/" + name, before = file_bytes(file);
    expect_message(run_command(tessera({"report", record(), "--to", file, "--overwrite"})), 2,
                   {"--to " + file + " is a file that the job reads for FOLDER"});
    EXPECT_EQ(file_bytes(file), before);
  }
  for (const auto& file : std::filesystem::directory_iterator(record()))
    if (const std::string name = file.path().filename();
        name.starts_with("events.out.") || name.starts_with("log.rank"))
      expect_message(run_command(tessera({"report", record(), "--to", file.path(), "--overwrite"})), 2,
                     {" is a file that the job reads for FOLDER"});
}

// Printing a value takes stack for each level, and the folder may come from elsewhere.
TEST(Report, LeavesOutWhatIsNestedDeeply) {
  const TempFolder folder;
  std::filesystem::copy(record(), folder.path("copy"));
  const std::string deep = std::string(200000, '[') + std::string(200000, ']');
  folder.write("copy/config.json", R"({"batch_size":7,"seed":)" + deep + "}");
  folder.write("copy/step.svg", "<title>One step of Tessera</title>");
  const std::string page = report_of(folder.path("copy"));
  EXPECT_NE(page.find("batch_size"), std::string::npos);
  EXPECT_NE(page.find("recorded without a drawing of its step"), std::string::npos);
}

/// A folder whose metrics are these lines after that of the run.
struct MadeRun {
  explicit MadeRun(const std::string& lines, const std::string& model = "gpt2") {
    const nlohmann::ordered_json run = {
        {"run", "r1"}, {"kind", "run"}, {"started", "now"}, {"model", model}, {"steps", 9000}};
    folder.write("metrics.jsonl", run.dump() + "\n" + lines);
  }
  TempFolder folder;
};

std::string step_line(int step, const std::string& loss) {
  return R"({"run":"r1","step":)" + std::to_string(step) + R"(,"loss":)" + loss + "}\n";
}

TEST(Report, OfARunThatWasKilledHasWhatIsThere) {
  const MadeRun run(step_line(1, "5.5") + R"({"run":"r1","st)" + "\n" + step_line(2, "5.25") + step_line(3, "null") +
                    R"({"run":"r1","step":4,"lo)");
  const std::string page = report_of(run.folder.path());
  const json loss = chart_of(numbers_of(page), "loss")["series"][0];
  EXPECT_EQ(loss["x"], json({1, 2, 3}));
  EXPECT_EQ(loss["y"], json({5.5, 5.25, nullptr}));
  for (const std::string part : {"step 3 of 9000", "1 line of the metrics could not be read", "without a drawing"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  EXPECT_NE(report_of(MadeRun("").folder.path()).find("No step has ended yet"), std::string::npos);
}

TEST(Report, OfARunThatFailedHasTheEndsOfTheLogsThatSayWhy) {
  const MadeRun run(R"({"run":"r2","kind":"run","model":"gpt2","steps":4,"world_size":3})"
                    "\n");
  std::string lines;
  for (int i = 1; i <= 30; ++i)
    lines += "line " + std::to_string(i) + ".\n";
  run.folder.write("log.rank0.txt", lines);
  run.folder.write("log.rank1.txt",
                   "note: fails: x\n[2026-11-27] note: rank 1 of 3 begins, process 7 on here\nfails: y\n");
  run.folder.write("log.rank2.txt", "step 1\n[2026-11-27] note: fails: a <disk> is full\n");
  const std::string page = report_of(run.folder.path());
  for (const std::string part :
       {"Rank 0, the last lines</summary><pre>line 11.\nline 12.\n", "line 30.</pre>",
        "open><summary>Rank 2, the last lines</summary><pre>step 1\n[2026-11-27] note: fails: a &lt;disk&gt; is full"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  for (const std::string part : {"Rank 1,", "line 10."})
    EXPECT_EQ(page.find(part), std::string::npos) << part;
}

// The folder may come from elsewhere, and the page may be passed on.
TEST(Report, TakesNothingFromOutsideOfItsFolder) {
  const TempFolder folder;
  std::filesystem::copy(record(), folder.path("copy"));
  const std::string secret = folder.write("secret", "the key is 1234\n");
  for (const std::string name : {"plan.txt", "log.rank0.txt", "config.json", "step.svg"}) {
    std::filesystem::remove(folder.path("copy/" + name));
    std::filesystem::create_symlink("../secret", folder.path("copy/" + name));
  }
  EXPECT_EQ(report_of(folder.path("copy")).find("the key is"), std::string::npos);
  std::filesystem::rename(folder.path("copy/metrics.jsonl"), folder.path("metrics"));
  std::filesystem::create_symlink("../metrics", folder.path("copy/metrics.jsonl"));
  expect_message(run_command(tessera({"report", folder.path("copy")})), 2, {"has no metrics.jsonl"});
}

TEST(Report, LeavesOutALineThatIsFarTooLong) {
  const MadeRun run(step_line(1, "5.5"));
  const std::string metrics = run.folder.path("metrics.jsonl");
  const auto size = std::filesystem::file_size(metrics);
  std::filesystem::resize_file(metrics, size + (64 << 20));  // zeros, and then lines again
  std::ofstream(metrics, std::ios::app) << "\n" << step_line(2, "5.25");
  const std::string page = report_of(run.folder.path());
  EXPECT_EQ(chart_of(numbers_of(page), "loss")["series"][0]["x"], json({1, 2}));
  EXPECT_NE(page.find("1 line of the metrics could not be read"), std::string::npos);
}

TEST(Report, OfAResumedRunHasEachStepOnce) {
  const MadeRun run(step_line(1, "5") + step_line(2, "4") + step_line(3, "3") +
                    R"({"run":"r2","kind":"run","model":"gpt2","steps":4,"resumed_step":1})" + "\n" +
                    step_line(2, "7"));
  const json loss = chart_of(numbers_of(report_of(run.folder.path())), "loss")["series"][0];
  EXPECT_EQ(loss["x"], json({1, 2}));
  EXPECT_EQ(loss["y"], json({5, 7}));
}

TEST(Report, OfALongRunHasMeansAndRanges) {
  std::string lines;
  for (int step = 1; step <= 5000; ++step)
    lines += step_line(step, std::to_string(step % 5));
  const json loss = chart_of(numbers_of(report_of(MadeRun(lines).folder.path())), "loss")["series"][0];
  ASSERT_EQ(loss["x"].size(), 1000u);
  EXPECT_EQ(loss["x"][0], 5);
  EXPECT_EQ(loss["x"][999], 5000);
  EXPECT_EQ(loss["y"][500], 2);
  EXPECT_EQ(loss["low"][500], 0);
  EXPECT_EQ(loss["high"][500], 4);
  EXPECT_EQ(loss["last"], json({5000, 0}));
}

TEST(Report, RefusesWhatIsNotARecord) {
  const TempFolder folder;
  expect_message(run_command(tessera({"report", folder.path("none")})), 2, {"none is not a folder"});
  expect_message(run_command(tessera({"report", folder.path()})), 2, {"has no metrics.jsonl that tessera wrote"});
  folder.write("metrics.jsonl", "something else");
  expect_message(run_command(tessera({"report", folder.path()})), 2, {"has no metrics.jsonl that tessera wrote"});
  expect_message(run_command(tessera({"report"})), 2, {"an argument is missing"});
}

/// Those that a system may have.
std::string browser() {
  for (const char* name : {"chromium", "chromium-browser", "google-chrome"})
    if (const CommandResult found = run_command({"/bin/sh", "-c", std::string("command -v ") + name});
        found.exit_code == 0)
      return name;
  return "";
}

CommandResult in_browser(const TempFolder& folder, Words more) {
  Words words = {"/usr/bin/env",
                 browser(),
                 "--headless",
                 "--disable-gpu",
                 "--hide-scrollbars",
                 "--no-first-run",
                 "--user-data-dir=" + folder.path("profile")};
  if (::geteuid() == 0) words.push_back("--no-sandbox");  // which its sandbox refuses
  words.insert(words.end(), more.begin(), more.end());
  return run_command(words);
}

/// The share of the most frequent color in a PNG of 8 bits a channel, and the number of colors.
std::pair<double, size_t> colors_of(const std::string& png) {
  const auto number = [&](size_t at) {
    uint32_t value = 0;
    for (size_t i = 0; i < 4; ++i)
      value = value << 8 | static_cast<uint8_t>(png.at(at + i));
    return value;
  };
  const size_t width = number(16), height = number(20), channels = png.at(25) == 6 ? 4 : 3;
  std::string packed;
  for (size_t at = 8; at + 8 < png.size(); at += number(at) + 12)
    if (png.substr(at + 4, 4) == "IDAT") packed += png.substr(at + 8, number(at));
  std::vector<uint8_t> rows(height * (width * channels + 1));
  uLongf num_bytes = rows.size();
  if (uncompress(rows.data(), &num_bytes, reinterpret_cast<const Bytef*>(packed.data()), packed.size()) != Z_OK)
    return {1, 0};
  // Each row begins with the filter that its bytes went through: none, left, up, their mean, or Paeth's.
  const size_t stride = width * channels;
  std::vector<uint8_t> above(stride), row(stride);
  std::map<uint32_t, size_t> counts;
  for (size_t y = 0; y < height; ++y, above = row) {
    const uint8_t* in = rows.data() + y * (stride + 1);
    for (size_t i = 0; i < stride; ++i) {
      const int left = i < channels ? 0 : row[i - channels], up = above[i],
                corner = i < channels ? 0 : above[i - channels];
      const int paeth = left + up - corner, to_left = std::abs(paeth - left), to_up = std::abs(paeth - up),
                to_corner = std::abs(paeth - corner);
      const int nearest = to_left <= to_up && to_left <= to_corner ? left : to_up <= to_corner ? up : corner;
      const int predicted[] = {0, left, up, (left + up) / 2, nearest};
      row[i] = static_cast<uint8_t>(in[i + 1] + predicted[in[0]]);
    }
    for (size_t x = 0; x < width; ++x)
      ++counts[uint32_t{row[x * channels]} << 16 | uint32_t{row[x * channels + 1]} << 8 | row[x * channels + 2]];
  }
  const auto most = std::ranges::max_element(counts, {}, [](const auto& color) { return color.second; });
  return {static_cast<double>(most->second) / static_cast<double>(width * height), counts.size()};
}

TEST(Report, IsDrawnByABrowser) {
  if (browser().empty()) GTEST_SKIP() << "needs chromium, which is not installed (Debian: chromium)";
  const TempFolder folder;
  const std::string file = folder.write("report.html", report_of(record()));
  const CommandResult dump = in_browser(folder, {"--dump-dom", "file://" + file});
  ASSERT_EQ(dump.exit_code, 0) << dump.err;
  EXPECT_NE(dump.out.find("data-charts=\"5\""), std::string::npos) << "the script did not end: " << dump.err;
  // What the script wrote, read back.
  const json loss = chart_of(numbers_of(dump.out), "loss");
  const std::regex caption(R"(<figcaption>last: training ([0-9.]+) at step 6, evaluation ([0-9.]+) at step 6<)");
  std::smatch found;
  ASSERT_TRUE(std::regex_search(dump.out, found, caption)) << dump.out.substr(0, 20000);
  for (const size_t i : {0u, 1u})
    EXPECT_NEAR(std::stod(found[i + 1]), loss["series"][i]["last"][1].get<double>(), 1e-4);
  const std::regex curve(R"(<path class="curve c[^>]* d="M[^"]*L)");
  EXPECT_EQ(std::distance(std::sregex_iterator(dump.out.begin(), dump.out.end(), curve), std::sregex_iterator()), 7);
  const std::string picture = folder.path("page.png");
  const CommandResult shot =
      in_browser(folder, {"--window-size=1200,1600", "--screenshot=" + picture, "file://" + file});
  ASSERT_EQ(shot.exit_code, 0) << shot.err;
  const auto [most, num_colors] = colors_of(file_bytes(picture));
  EXPECT_LT(most, 0.9) << "the page is nearly blank";
  EXPECT_GT(num_colors, 100u);
}

// A pointer that a script moves, in a copy of the page whose policy lets it.
TEST(Report, ShowsValuesUnderThePointer) {
  if (browser().empty()) GTEST_SKIP() << "needs chromium, which is not installed (Debian: chromium)";
  const TempFolder folder;
  std::string page = std::regex_replace(report_of(record()), std::regex(R"(<meta http-equiv[^>]*>)"), "");
  const std::string move = R"(<script>{ const chart = document.querySelector('#chart-loss svg');
    const box = chart.getBoundingClientRect();
    chart.dispatchEvent(new MouseEvent('mousemove', {clientX: box.right - 20, clientY: box.top + 20})); }</script>)";
  page.insert(page.rfind("</body>"), move);
  const CommandResult dump = in_browser(folder, {"--dump-dom", "file://" + folder.write("page.html", page)});
  std::smatch found;
  ASSERT_TRUE(std::regex_search(
      dump.out, found, std::regex("<div class=\"tip\"[^>]*>step 6\ntraining ([0-9.]+)\nevaluation ([0-9.]+)</div>")))
      << dump.out.substr(0, 20000);
  const json loss = chart_of(numbers_of(dump.out), "loss");
  for (const size_t i : {0u, 1u})
    EXPECT_NEAR(std::stod(found[i + 1]), loss["series"][i]["y"].back().get<double>(), 1e-4);
}

// A folder may come from elsewhere: what its files say is text, and never runs.
TEST(Report, RunsNoScriptOfTheFolder) {
  const std::string script =
      "</script><script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">";
  MadeRun run(step_line(1, "5.5") + R"({"run":"r1","kind":"eval","after_step":1,"loss":5})" + "\n", script);
  run.folder.write("plan.txt", script);
  run.folder.write("config.json", json({{"tessera", "1"}, {"model", script}, {script, script}}).dump());
  run.folder.write("step.svg",
                   "<title>One step of Tessera</title>\n<svg width=\"10\" "
                   "height=\"10\"><script>parent.document.title='taken'</script></svg>");
  const std::string page = report_of(run.folder.path());
  EXPECT_EQ(page.find("<script>document"), std::string::npos);
  EXPECT_EQ(page.find("<img"), std::string::npos);
  if (browser().empty()) GTEST_SKIP() << "needs chromium, which is not installed (Debian: chromium)";
  const CommandResult dump = in_browser(run.folder, {"--dump-dom", "file://" + run.folder.write("page.html", page)});
  EXPECT_NE(dump.out.find("data-charts=\"1\""), std::string::npos) << dump.err;
  EXPECT_EQ(dump.out.find("<title>taken"), std::string::npos);
}

}  // namespace
}  // namespace tessera::testing
