#include "record/event_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/event_reader.h"
#include "support/temp_folder.h"

namespace tessera::host {
namespace {

using testing::EventReader;
using testing::TempFolder;

TEST(EventFile, ReadsBackByAnotherReader) {
  constexpr int64_t kLarge = int64_t{1} << 40;
  const Scalar scalars[] = {{"train/loss", 2.5}, {"train/lr", 3e-4}, {"memory/bytes", 123456789.0}};
  const std::string file = version_event(1.5) + start_event(2.5, 201) + scalars_event(1e9 + 0.25, kLarge, scalars);
  const auto events = EventReader::read(file);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].version, "brain.Event:2");
  EXPECT_EQ(events[0].wall_time, 1.5);
  EXPECT_TRUE(events[1].is_start);
  EXPECT_EQ(events[1].step, 201);
  EXPECT_EQ(events[2].wall_time, 1e9 + 0.25);
  EXPECT_EQ(events[2].step, kLarge);
  EXPECT_EQ(events[2].scalars,
            (std::map<std::string, float>{{"train/loss", 2.5f}, {"train/lr", 3e-4f}, {"memory/bytes", 123456789.0f}}));
}

// As TensorFlow's own writer has it: the first record of every event file, here of the time 0.
TEST(EventFile, HasTheBytesOfTensorFlow) {
  const std::string file = version_event(0);
  EXPECT_EQ(file.substr(0, 8), std::string("\x1a\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(file.substr(12, 26), std::string("\x09\0\0\0\0\0\0\0\0\x10\0\x1a\x0d", 13) + "brain.Event:2");
  EXPECT_EQ(file.size(), 8u + 4 + 26 + 4);
}

TEST(EventFile, KeepsWhatIsNotFinite) {
  const Scalar scalars[] = {{"a", std::numeric_limits<double>::infinity()},
                            {"b", std::numeric_limits<double>::quiet_NaN()}};
  const auto events = EventReader::read(scalars_event(0, 1, scalars));
  EXPECT_EQ(events[0].scalars.at("a"), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(events[0].scalars.at("b")));
}

TEST(EventFile, AChangedByteIsFound) {
  const Scalar scalars[] = {{"train/loss", 2.5}};
  const std::string file = scalars_event(1, 2, scalars);
  for (size_t i = 0; i < file.size(); ++i) {
    std::string changed = file;
    changed[i] = static_cast<char>(changed[i] ^ 16);
    EXPECT_THROW(EventReader::read(changed), std::runtime_error) << i;
  }
}

TEST(EventFile, ANewFileSortsAfterThoseThatAreThere) {
  const TempFolder folder;
  const std::string first = new_event_file_name(folder.path(), 1700000000.9);
  EXPECT_TRUE(first.starts_with("events.out.tfevents.1700000000.")) << first;
  folder.write(first, "");
  folder.write("events.out.tfevents.1700000007.elsewhere.1.0", "");
  folder.write("other.1800000000", "");
  EXPECT_TRUE(new_event_file_name(folder.path(), 1700000001).starts_with("events.out.tfevents.1700000008."));
}

}  // namespace
}  // namespace tessera::host
