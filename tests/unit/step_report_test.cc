#include "train/report/step_report.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/terminal.h"
#include "train/meters/time_meter.h"
#include "train/report/table.h"

namespace tessera::host {
namespace {

TEST(StepsBetweenLines, MakeAtMostAHundredLines) {
  EXPECT_EQ(steps_between_lines(0, 1), 1);
  EXPECT_EQ(steps_between_lines(0, 100), 1);
  EXPECT_EQ(steps_between_lines(0, 101), 2);
  EXPECT_EQ(steps_between_lines(0, 1000), 10);
  EXPECT_EQ(steps_between_lines(0, 2001), 50);
  EXPECT_EQ(steps_between_lines(0, 600'000), 10'000);
  EXPECT_EQ(steps_between_lines(7, 600'000), 7);
}

TEST(Smoothed, IsAMeanThatForgetsAndSkipsWhatIsNotFinite) {
  Smoothed mean;
  EXPECT_FALSE(mean.mean());
  mean.add(4);
  EXPECT_DOUBLE_EQ(*mean.mean(), 4);
  mean.add(std::nan(""));
  EXPECT_DOUBLE_EQ(*mean.mean(), 4);
  mean.add(2);
  EXPECT_DOUBLE_EQ(*mean.mean(), (0.95 * 4 + 2) / 1.95);
  for (int i = 0; i < 1000; ++i)
    mean.add(1);
  EXPECT_NEAR(*mean.mean(), 1, 1e-9);
}

LiveStep some_step() {
  LiveStep live;
  live.step = 120;
  live.num_steps = 1500;
  live.loss = 2.4;
  live.smoothed_loss = 2.413;
  live.evaluation_loss = 2.5;
  live.grad_norm = 0.91;
  live.lr = 2.9e-3;
  live.items_per_second = 25'412;
  live.seconds_left = 72;
  return live;
}

TEST(LiveLine, ShowsEverythingWhereThereIsRoom) {
  const std::string line = live_line(some_step(), 120);
  EXPECT_EQ(line.find("120/1500 "), 0u) << line;
  EXPECT_NE(line.find("  loss 2.413 (2.40)  norm 0.91  lr 2.9e-3  25.4k tok/s  1:12 left  eval 2.500"), line.npos)
      << line;
}

TEST(LiveLine, LeavesOutTheLeastImportantWhereThereIsNot) {
  for (int columns = 119; columns > 0; --columns) {
    const std::string line = live_line(some_step(), columns);
    EXPECT_LE(num_columns_of(line), columns) << line;
    if (columns > 52) EXPECT_NE(line.find("loss 2.413 (2.40)  "), line.npos) << columns << ": " << line;
  }
  EXPECT_EQ(live_line(some_step(), 80).find("eval"), std::string::npos);
  EXPECT_NE(live_line(some_step(), 79).find("norm 0.91  lr 2.9e-3  "), std::string::npos);
  EXPECT_EQ(live_line(some_step(), 60).find("norm"), std::string::npos);
}

TEST(LiveLine, CutsNoValueInTwo) {
  for (int columns = 120; columns >= 8; --columns) {
    const std::string line = live_line(some_step(), columns);
    const size_t end = line.rfind("  ");
    const std::string last = end == line.npos ? "" : line.substr(end + 2);
    EXPECT_TRUE(last.empty() || last == "eval 2.500" || last == "1:12 left" || last == "loss 2.413 (2.40)")
        << columns << ": " << line;
  }
  EXPECT_NE(live_line(some_step(), 39).find("loss 2.413 (2.40)  1:12 left"), std::string::npos);
}

TEST(LiveLine, HasNoLossBeforeTheFirstStep) {
  LiveStep live;
  live.num_steps = 10;
  EXPECT_EQ(live_line(live, 80).find("loss"), std::string::npos);
  EXPECT_EQ(live_line(live, 80).find("0/10 "), 0u);
}

TEST(Durations, AreReadable) {
  EXPECT_EQ(duration_text(0), "0.0 s");
  EXPECT_EQ(duration_text(3.24), "3.2 s");
  EXPECT_EQ(duration_text(59.96), "1 min 0 s");
  EXPECT_EQ(duration_text(72), "1 min 12 s");
  EXPECT_EQ(duration_text(7500), "2 h 5 min");
  EXPECT_EQ(duration_text(180'000), "2 d 2 h");
}

TEST(TimeMeter, KnowsTheMedianAndTheTenths) {
  TimeMeter times;
  EXPECT_EQ(times.step_times().median, 0);
  for (int ms = 101; ms > 0; --ms)
    times.add_step(ms);
  EXPECT_EQ(times.step_times().median, 51);
  EXPECT_EQ(times.step_times().low, 11);
  EXPECT_EQ(times.step_times().high, 91);
  EXPECT_NEAR(times.steps(), 5.151, 1e-9);
}

TEST(Table, AlignsWhatHasAValue) {
  EXPECT_EQ(table("run", {{"a", "1"}, {"much longer", ""}, {"long", "2"}}, 0),
            "run\n  a                1\n  long             2");
  EXPECT_EQ(table("run", {{"a", "one two three four five six"}}, 39),
            "run\n  a                one two three four\n" + std::string(19, ' ') + "five six");
  EXPECT_EQ(table("run", {{"time", "0.9 s: preparing 0.2 s, steps 0.6 s"}}, 40),
            "run\n  time             0.9 s: preparing\n" + std::string(19, ' ') + "0.2 s, steps 0.6 s");
}

TEST(Bar, IsAsLongAsItsColumns) {
  EXPECT_EQ(progress_bar(0.5, 4, {}), "##--");
  EXPECT_EQ(progress_bar(7, 4, {}), "####");
  EXPECT_EQ(progress_bar(-1, 2, {}), "--");
  EXPECT_EQ(progress_bar(0.5, 2, {.is_utf8 = true}), "━─");
  EXPECT_EQ(first_columns("━─ab", 3), "━─a");
  EXPECT_EQ(num_columns_of("━─ab"), 4);
}

}  // namespace
}  // namespace tessera::host
