// tessera plan --svg: what is drawn, and where.
#include <gtest/gtest.h>

#include <boost/property_tree/ptree.hpp>
#include <boost/property_tree/xml_parser.hpp>
#include <map>
#include <set>
#include <sstream>

#include "e2e/cli.h"

namespace tessera::testing {
namespace {

namespace pt = boost::property_tree;

CommandResult plan_eight_ranks(const std::vector<std::string>& more) {
  std::vector<std::string> flags = {"plan",
                                    "--model",
                                    golden(),
                                    "--seq-len=32",
                                    "--mesh=pp=2,dp=2,tp=2",
                                    "--strategy=pp=pipeline,dp=fsdp,tp=tensor",
                                    "--grad-accum=4"};
  flags.insert(flags.end(), more.begin(), more.end());
  return run_command(tessera(flags));
}

TEST(Svg, DrawsAllStreams) {
  const TempFolder folder;
  const std::string file = folder.path("step.svg");
  const CommandResult result = plan_eight_ranks({"--svg", file});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  pt::ptree xml;
  ASSERT_NO_THROW(pt::read_xml(file, xml));
  const pt::ptree& svg = xml.get_child("svg");
  EXPECT_EQ(svg.get<std::string>("<xmlattr>.version"), "1.1");
  EXPECT_EQ(svg.get<std::string>("<xmlattr>.xmlns"), "http://www.w3.org/2000/svg");
  const auto width = svg.get<double>("<xmlattr>.width"), height = svg.get<double>("<xmlattr>.height");
  std::map<std::string, int> by_class;
  std::set<double> idle_rows;
  std::string text;
  for (const auto& [tag, node] : svg) {
    if (tag == "text") text += node.data() + "\n";
    if (tag != "rect" && tag != "path") continue;
    const auto what = node.get<std::string>("<xmlattr>.class");
    ++by_class[what];
    if (what == "i") idle_rows.insert(node.get<double>("<xmlattr>.y"));
    EXPECT_TRUE(what == "paper" || node.get_child_optional("title")) << what << " has no tool tip";
    if (tag != "rect" || what == "paper") continue;
    EXPECT_LE(node.get<double>("<xmlattr>.x") + node.get<double>("<xmlattr>.width"), width);
    EXPECT_LE(node.get<double>("<xmlattr>.y") + node.get<double>("<xmlattr>.height"), height);
  }
  // Of 4 micro-batches: wte, wpe, 8 segments a block, ln_f, head_logits and softmax_stats; and once in the legend.
  const int num_segments = 2 + 4 * 8 + 3;
  EXPECT_EQ(by_class["f"], 4 * num_segments + 1);
  EXPECT_EQ(by_class["m"], 2 + 1);
  EXPECT_EQ(idle_rows.size(), 2u + 1u) << "compute of each rank that is drawn, and the legend";
  for (const std::string part : {"flop/s of products", "Idle shares differ from those of --schedule",
                                 "rank 0, for the 4 ranks that do the same, up to rank 3: compute is idle for",
                                 "rank 4, for the 4 ranks", "comm.dp.gather", "comm.tp.sum", "live memory"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " is missing in\n" << text;
  EXPECT_EQ(plan_eight_ranks({"--svg", folder.path("missing/step.svg")}).exit_code, 2);
}

/// "12.3 us" or "1.234 ms".
double seconds_of(std::istream& words) {
  double number = 0;
  std::string unit;
  words >> number >> unit;
  return number * (unit.starts_with("ms") ? 1e-3 : 1e-6);
}

/// A bar of an action, and what its tool tip says of its time.
struct Bar {
  double x, width, y, start, duration;
};

/// Those of a drawing, and in `step` the seconds that it says the step takes.
std::vector<Bar> bars_of(const std::string& file, double& step) {
  pt::ptree xml;
  pt::read_xml(file, xml);
  std::vector<Bar> bars;
  for (const auto& [tag, node] : xml.get_child("svg")) {
    if (tag == "text" && node.data().starts_with("One step: ")) {
      std::istringstream words(node.data().substr(10));
      step = seconds_of(words);
    }
    const std::string tip = node.get("title", "");
    const size_t from = tip.rfind(": from "), during = tip.rfind(" for ");
    if (tag != "rect" || from == tip.npos) continue;
    std::istringstream start(tip.substr(from + 7)), duration(tip.substr(during + 5));
    const auto attribute = [&, node = node](const char* name) {
      return node.get<double>(std::string("<xmlattr>.") + name);
    };
    bars.push_back({attribute("x"), attribute("width"), attribute("y"), seconds_of(start), seconds_of(duration)});
  }
  return bars;
}

// Time goes from x = 190 on over 1400 pixels.
TEST(Svg, DrawsEveryActionAtItsTime) {
  const TempFolder folder;
  const std::string file = folder.path("step.svg");
  ASSERT_EQ(plan_eight_ranks({"--svg", file}).exit_code, 0);
  double step = 0, end = 0;
  const std::vector<Bar> bars = bars_of(file, step);
  ASSERT_GT(bars.size(), 400u);
  ASSERT_GT(step, 0);
  const double pixels = 1400 / step, rounding = 0.02 + 1.1e-6 * pixels;
  std::map<double, double> drawn_to;  // by row
  for (const Bar& bar : bars) {
    EXPECT_NEAR(bar.x, 190 + bar.start * pixels, rounding);
    EXPECT_NEAR(bar.width, std::max(bar.duration * pixels, 0.2), rounding);
    double& row = drawn_to.try_emplace(bar.y, 190).first->second;
    EXPECT_GE(bar.x, row - 0.2 - rounding) << "drawn over another action of its stream";
    row = bar.x + bar.duration * pixels;
    end = std::max(end, row);  // not the width, which is never too small to see
  }
  EXPECT_NEAR(end, 190 + 1400, rounding);
}

/// What the drawing of a job of one rank says of its memory.
double most_megabytes(const std::vector<std::string>& more) {
  const TempFolder folder;
  std::vector<std::string> flags = {"plan", "--model", golden(), "--seq-len=32", "--svg", folder.path("step.svg")};
  flags.insert(flags.end(), more.begin(), more.end());
  EXPECT_EQ(run_command(tessera(flags)).exit_code, 0);
  pt::ptree xml;
  pt::read_xml(folder.path("step.svg"), xml);
  for (const auto& [tag, node] : xml.get_child("svg"))
    if (tag == "text" && node.data().starts_with("at most ")) {
      std::istringstream words(node.data().substr(8));
      double number = 0;
      std::string unit;
      words >> number >> unit;
      return number * (unit == "MiB" ? 1 : 1.0 / 1024);
    }
  return 0;
}

TEST(Svg, DrawsMemoryOfTheDevice) {
  EXPECT_LT(most_megabytes({"--offload=optimizer-state"}), most_megabytes({}));
}

}  // namespace
}  // namespace tessera::testing
