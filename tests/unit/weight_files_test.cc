// Which files hold a folder's weights: none is overlooked, and what ranks compare of them.
#include "weights/weight_files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "support/child_process.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"
#include "weights/safetensors_writer.h"

namespace tessera::testing {
using namespace host;
namespace {

namespace fs = std::filesystem;
using Paths = std::vector<std::string>;

constexpr uint64_t kLarge = 20 << 20;  // elements: 80 MiB, of which a part is compared

// Tensors "a" and "b", the first one with `first` elements; those of `b` are `value`.
void save(const std::string& path, float value, uint64_t first = 3) {
  const std::vector<SafetensorsEntry> entries = {{"a", "F32", {first}}, {"b", "F32", {2}}};
  SafetensorsWriter writer(path, entries, {});
  const std::vector<float> values = {value, value};
  writer.write("b", 0, std::as_bytes(std::span(values)));
  writer.commit();
}

void put_byte(const std::string& path, uint64_t at, char byte) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(at));
  file.put(byte);
}

TEST(FindWeightFiles, NoneInAFolderWithout) {
  const TempFolder folder;
  folder.write("config.json", "{}");
  EXPECT_EQ(find_weight_files(folder.path()).paths, Paths{});
}

TEST(FindWeightFiles, TheWholeFileOrThoseOfTheIndex) {
  const TempFolder folder;
  folder.write("model.safetensors.index.json", R"({"weight_map": {"x": "2.safetensors", "y": "1.safetensors"}})");
  EXPECT_EQ(find_weight_files(folder.path()).paths,
            (Paths{folder.path("1.safetensors"), folder.path("2.safetensors")}));
  folder.write("model.safetensors", "");
  EXPECT_EQ(find_weight_files(folder.path()).paths, Paths{folder.path("model.safetensors")});
}

TEST(FindWeightFiles, OtherNamesAndFormatsAreRefused) {
  for (const char* name : {"pytorch_model.bin", "pytorch_model.bin.index.json", "tf_model.h5", "flax_model.msgpack",
                           "model-00001-of-00002.safetensors"}) {
    const TempFolder folder;
    folder.write(name, "x");
    expect_error([&] { find_weight_files(folder.path()); }, {folder.path(), name, "neither model.safetensors nor"});
  }
}

TEST(FindWeightFiles, ALinkThatLeadsNowhereIsAFileAndSaysWhere) {
  for (const char* name : {"model.safetensors", "model.safetensors.index.json"}) {
    const TempFolder folder;
    fs::create_symlink("/nonexistent/blob", folder.path(name));
    expect_error([&] { weight_fingerprints(folder.path()); },
                 {folder.path(name), "a link to /nonexistent/blob", "No such file", "restore"});
  }
}

TEST(FindWeightFiles, ALoopOfLinksIsNamed) {
  const TempFolder folder;
  fs::create_symlink("model.safetensors", folder.path("model.safetensors"));
  expect_error([&] { weight_fingerprints(folder.path()); }, {folder.path("model.safetensors"), "form a loop"});
}

TEST(FindWeightFiles, AMissingShardIsNamed) {
  const TempFolder folder;
  folder.write("model.safetensors.index.json", R"({"weight_map": {"x": "1.safetensors"}})");
  expect_error([&] { weight_fingerprints(folder.path()); }, {folder.path("1.safetensors"), "No such file"});
}

// The cache of another user, read as `nobody`: the superuser would be allowed to.
TEST(FindWeightFiles, ALinkIntoAForbiddenFolderIsAnError) {
  const TempFolder folder;
  folder.write("secret/blob", "x");
  fs::create_directory(folder.path("model"));
  fs::create_symlink(folder.path("secret/blob"), folder.path("model/model.safetensors"));
  fs::permissions(folder.path(), fs::perms(0755));
  fs::permissions(folder.path("secret"), fs::perms(0));
  ChildProcess other_user([&](const ChildProcess::Say& say) {
    if (::geteuid() == 0 && ::seteuid(65534) != 0) say("cannot change the user");
    weight_fingerprints(folder.path("model"));
    say("opened");
  });
  const std::string said = other_user.next_line(10'000);
  for (const char* part : {"threw", "model/model.safetensors, a link to", "Permission denied", "let this user"})
    EXPECT_NE(said.find(part), std::string::npos) << said;
  fs::permissions(folder.path("secret"), fs::perms(0755));
}

TEST(WeightFingerprints, EqualFilesAreEqualWhereverTheyAre) {
  const TempFolder here, there;
  save(here.path("model.safetensors"), 1);
  save(there.path("model.safetensors"), 1);
  const auto lines = weight_fingerprints(here.path());
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines, weight_fingerprints(there.path()));
  EXPECT_NE(lines[0].find("model.safetensors, "), std::string::npos) << lines[0];
}

TEST(WeightFingerprints, AnyByteOfSmallFilesCounts) {
  const TempFolder folder;
  const std::string path = folder.path("model.safetensors");
  save(path, 1);
  const auto before = weight_fingerprints(folder.path());
  for (const uint64_t from_end : {1, 9, 20}) {
    save(path, 1);
    put_byte(path, fs::file_size(path) - from_end, 7);
    EXPECT_NE(weight_fingerprints(folder.path()), before) << from_end;
  }
  save(path, 1, 4);
  EXPECT_NE(weight_fingerprints(folder.path()), before) << "another header";
}

TEST(WeightFingerprints, OfLargeFilesBothEndsOfTensorsAndBlocksCount) {
  const TempFolder folder;
  const std::string path = folder.path("model.safetensors");
  save(path, 1, kLarge);
  const auto before = weight_fingerprints(folder.path());
  const uint64_t num_bytes = fs::file_size(path), data = num_bytes - 4 * (kLarge + 2);
  EXPECT_EQ(weight_fingerprints(folder.path()), before);
  for (const uint64_t at : {data, data + 4 * kLarge - 1, num_bytes - 1, data + 4 * kLarge / 257 * 128}) {
    save(path, 1, kLarge);
    put_byte(path, at, 7);
    EXPECT_NE(weight_fingerprints(folder.path()), before) << at;
  }
}

TEST(WeightFingerprints, OneForEachShard) {
  const TempFolder folder;
  const auto save_one = [&](const std::string& name, const std::string& tensor) {
    const std::vector<SafetensorsEntry> entries = {{tensor, "F32", {2}}};
    SafetensorsWriter writer(folder.path(name), entries, {});
    writer.commit();
  };
  save_one("1.safetensors", "x");
  save_one("2.safetensors", "y");
  folder.write("model.safetensors.index.json", R"({"weight_map": {"x": "1.safetensors", "y": "2.safetensors"}})");
  const auto lines = weight_fingerprints(folder.path());
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_TRUE(lines[0].starts_with("1.safetensors")) << lines[0];
  EXPECT_TRUE(lines[1].starts_with("2.safetensors")) << lines[1];
}

}  // namespace
}  // namespace tessera::testing
