#include "data/examples/idx_pair.h"

#include <gtest/gtest.h>

#include "config/usage_error.h"
#include "support/expect_error.h"
#include "support/gzip.h"
#include "support/idx_bytes.h"
#include "support/temp_folder.h"

namespace tessera::host {
namespace {

using testing::expect_error;
using testing::gzip;
using testing::TempFolder;

const std::string kIdx = testing::idx_header(0x08, {0});

class FolderOf : public TempFolder {
 public:
  FolderOf(std::initializer_list<const char*> names) {
    for (const char* const name : names)
      write(name, kIdx);
  }
};

void expect_pair(const TempFolder& folder, const std::string& data, const std::string& images,
                 const std::string& labels) {
  const auto pair = find_idx_pair(data);
  ASSERT_TRUE(pair) << data;
  EXPECT_EQ(pair->images, folder.path(images));
  EXPECT_EQ(pair->labels, folder.path(labels));
}

TEST(IdxPair, AFolderOfMnistIsItsTrainingPair) {
  const FolderOf plain{"t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte", "train-images-idx3-ubyte",
                       "train-labels-idx1-ubyte"};
  expect_pair(plain, plain.path(), "train-images-idx3-ubyte", "train-labels-idx1-ubyte");
  const FolderOf compressed{"t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz", "train-images-idx3-ubyte.gz",
                            "train-labels-idx1-ubyte.gz"};
  expect_pair(compressed, compressed.path(), "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz");
  const FolderOf dots{"train-images.idx3-ubyte", "train-labels.idx1-ubyte"};
  expect_pair(dots, dots.path(), "train-images.idx3-ubyte", "train-labels.idx1-ubyte");
}

TEST(IdxPair, OfPlainAndCompressedThePlainOneIsRead) {
  const FolderOf both{"raw/train-images-idx3-ubyte", "raw/train-images-idx3-ubyte.gz", "raw/train-labels-idx1-ubyte",
                      "raw/train-labels-idx1-ubyte.gz"};
  expect_pair(both, both.path(), "raw/train-images-idx3-ubyte", "raw/train-labels-idx1-ubyte");
  const FolderOf mixed{"train-images-idx3-ubyte", "train-labels-idx1-ubyte.gz"};
  expect_pair(mixed, mixed.path(), "train-images-idx3-ubyte", "train-labels-idx1-ubyte.gz");
}

TEST(IdxPair, OnePairNeedsNoName) {
  const FolderOf one{"digits-images-idx3", "digits-labels-idx1", "README"};
  expect_pair(one, one.path(), "digits-images-idx3", "digits-labels-idx1");
}

TEST(IdxPair, AFileOfImagesHasItsLabelsBesideIt) {
  const FolderOf folder{"t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz", "train-images-idx3-ubyte",
                        "train-labels-idx1-ubyte"};
  expect_pair(folder, folder.path("t10k-images-idx3-ubyte.gz"), "t10k-images-idx3-ubyte.gz",
              "t10k-labels-idx1-ubyte.gz");
}

TEST(IdxPair, AnyNamesMayBeGivenTogether) {
  const FolderOf folder{"x", "y", "a:b"};
  expect_pair(folder, folder.path("x") + ":" + folder.path("y"), "x", "y");
  expect_pair(folder, folder.path("a:b") + ":" + folder.path("y"), "a:b", "y");
}

TEST(IdxPair, OtherFilesAreCsv) {
  const TempFolder folder;
  EXPECT_FALSE(find_idx_pair(folder.write("a.csv", "1,2,3\n")));
  EXPECT_FALSE(find_idx_pair(folder.write("a.csv.gz", gzip("1,2,3\n"))));
  EXPECT_FALSE(find_idx_pair(folder.write("mnist-idx.csv", "1,2,3\n")));
  EXPECT_FALSE(find_idx_pair(folder.write("empty", "")));
}

TEST(IdxPair, SaysWhatIsMissing) {
  const FolderOf folder{"train-images-idx3-ubyte",
                        "x",
                        "y.gz",
                        "none/readme",
                        "two/a-images-idx3",
                        "two/a-labels-idx1",
                        "two/b-images-idx3",
                        "two/b-labels-idx1"};
  const auto expect_usage = [&](const std::string& data, const std::string& sentence) {
    expect_error<UsageError>([&] { find_idx_pair(data); }, {"--data " + data + ": " + sentence});
  };
  expect_usage(folder.path("nope"), "no such file");
  expect_usage(folder.path("x") + ":nope", "no file nope; give a CSV file, or IDX files as FOLDER");
  expect_usage("nope:" + folder.path("x"), "no such file");
  expect_usage(folder.path("train-images-idx3-ubyte"), "no labels were found beside these IDX images");
  expect_usage(folder.path("x"), "no labels were found beside these IDX images");
  expect_usage(folder.path("none"), "the folder has no pair of IDX files, such as train-images-idx3-ubyte");
  expect_usage(folder.path("two"), "the folder has several pairs of IDX files, none of them named train");
}

}  // namespace
}  // namespace tessera::host
