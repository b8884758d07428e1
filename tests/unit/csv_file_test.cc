#include "data/examples/csv_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>

#include "data/examples/csv_line.h"
#include "support/expect_error.h"
#include "support/gzip.h"
#include "support/temp_folder.h"

namespace tessera::host {
namespace {

using testing::expect_error;
using testing::gzip;
using testing::TempFolder;

constexpr ExampleShape kShape{2, 3};

struct Read {
  std::vector<float> features;
  std::vector<int32_t> labels;
  std::string description;
};

Read read_all(const std::string& path, LabelColumn label = LabelColumn::last) {
  const ExampleTable table = read_csv(path, kShape, label);
  Read read{std::vector<float>(table.labels.size() * 2), table.labels, table.description};
  for (std::size_t i = 0; i < table.labels.size(); ++i)
    table.features->read(i, std::span(read.features).subspan(2 * i, 2));
  return read;
}

Read read_text(const std::string& text, LabelColumn label = LabelColumn::last) {
  const TempFolder folder;
  return read_all(folder.write("data.csv", text), label);
}

const std::vector<float> kFeatures = {0.5, -2, 30, 4};
const std::vector<int32_t> kLabels = {1, 2};

TEST(CsvFile, ReadsTheFormsThatProgramsWrite) {
  for (const std::string text : {
           "0.5,-2,1\n30,4,2\n",       // plain
           "0.5,-2,1\r\n30,4,2\r\n",   // of Windows
           "0.5,-2,1\n30,4,2",         // without an end of the last line
           "0.5,-2,1\n30,4,2\n\n \n",  // empty lines at the end
           "\xef\xbb\xbf"
           "0.5,-2,1\n30,4,2\n",                      // of Excel
           "0.5;-2;1\n30;4;2\n",                      // semicolons
           "0.5\t-2\t1\n30\t4\t2\n",                  // tabs
           " 0.5 , -2 , 1 \n+30 ,4,2\n",              // blanks, a plus
           "\"0.5\",\"-2\",\"1\"\n\"30\",\"4\",2\n",  // quotes
           "5.0e-01,-2.e0,1.0\n3e1,4.0,2.000\n",      // of NumPy: labels are floats too
           "a,b,label\n0.5,-2,1\n30,4,2\n",           // a header
           "\"a, in cm\",b,label\n0.5,-2,1\n30,4,2\n",
           "150,b,c\n0.5,-2,1\n30,4,2\n",    // of scikit-learn: numbers in it
           "0,1,label\n0.5,-2,1\n30,4,2\n",  // of pandas: numbers of the columns
           "1,2,label\n0.5,-2,1\n30,4,2\n",
           "0,1,2\n0.5,-2,1\n30,4,2\n",  // of pandas, without any name
       }) {
    const Read read = read_text(text);
    EXPECT_EQ(read.features, kFeatures) << text;
    EXPECT_EQ(read.labels, kLabels) << text;
  }
}

TEST(CsvFile, TheLabelMayBeTheFirstColumn) {
  for (const std::string text : {"1,0.5,-2\n2,30,4\n", "label,0,1\n1,0.5,-2\n2,30,4\n"}) {
    const Read read = read_text(text, LabelColumn::first);
    EXPECT_EQ(read.features, kFeatures) << text;
    EXPECT_EQ(read.labels, kLabels) << text;
  }
  EXPECT_NE(read_text("1,0.5,-2\n", LabelColumn::first).description.find("label in the first column"),
            std::string::npos);
}

TEST(CsvFile, TwoColumnsThatCountMayBeAnExample) {
  const TempFolder folder;
  const ExampleTable table = read_csv(folder.write("data.csv", "0,1\n1,0\n"), {1, 2}, LabelColumn::last);
  EXPECT_EQ(table.labels, (std::vector<int32_t>{1, 0}));
}

TEST(CsvFile, Utf16AndZeroBytesAreSaid) {
  const TempFolder folder;
  for (const char* mark : {"\xff\xfe", "\xfe\xff"}) {
    const std::string path = folder.write("data.csv", mark + std::string("1\0,\0002\0", 6));
    expect_error([&] { read_all(path); }, {path + " is text in UTF-16; save it as UTF-8"});
  }
  const std::string path = folder.write("data.csv", std::string("1\0,2,0\n", 7));
  expect_error([&] { read_all(path); }, {"column 1: '1\\x00' is not a number; replace it, or remove the line"});
}

TEST(CsvFile, SaysWhetherThereIsAHeader) {
  EXPECT_NE(read_text("a,b,c\n1,2,0\n").description.find("a header"), std::string::npos);
  EXPECT_EQ(read_text("1,2,0\n").description.find("a header"), std::string::npos);
}

TEST(CsvFile, NamesLineAndColumnOfWhatIsWrong) {
  const TempFolder folder;
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", " is empty (0 bytes)"},
      {"\n\n", " holds no line of numbers"},
      {"a,b,label\n", " holds no line of numbers"},
      {"1,2,3,0\n", ", line 1 has 4 columns, and the model needs 3: 2 features and a label"},
      {"1,2,0\n1,2\n", ", line 2 has 2 columns, and the lines before it have 3"},
      {"a,b,label\n1,2,0\n1,2,0,\n", ", line 3 has 4 columns, and the lines before it have 3"},
      {"1,2,0\n\n1,2,0\n", ", line 2 is empty, and more lines follow"},
      {"1,2,0\n1,x,0\n", ", line 2, column 2: 'x' is not a number"},
      {"1,2x,0\n", ", line 1, column 2: '2x' is not a number"},
      {"1,+-2,0\n", ", line 1, column 2: '+-2' is not a number"},
      {"1,0x10,0\n", ", line 1, column 2: '0x10' is not a number"},
      {"1,2,0\n1,,0\n", ", line 2, column 2: the cell is empty"},
      {"1,nan,0\n", ", line 1, column 2: 'nan' is not a finite number"},
      {"-inf,2,0\n", ", line 1, column 1: '-inf' is not a finite number"},
      {"1,1e39,0\n", ", line 1, column 2: '1e39' is not a finite number"},
      {"1,1e999,0\n", ", line 1, column 2: '1e999' is not a finite number"},
      {"1,2,3\n", ", line 1, column 3: label '3' is not an integer from 0 to 2"},
      {"1,2,-1\n", ", line 1, column 3: label '-1' is not an integer"},
      {"1,2,0.5\n", ", line 1, column 3: label '0.5' is not an integer"},
      {"1,2,nan\n", ", line 1, column 3: label 'nan' is not an integer"},
      {"1,2,0\n1,2,\n", ", line 2, column 3: label '' is not an integer"},
      {"5.1,2,setosa\n", ", line 1, column 3: label 'setosa' is not an integer"},
      {"1,\"2,0\n", ", line 1 has a double quote that is not closed"},
      {"1,2,0\n" + std::string(5000, '1') + "\n", ", line 2 has more than 768 bytes"},
      {std::string(1 << 20, '\0'), ", line 1 has more than 768 bytes"},
  };
  for (const auto& [text, sentence] : cases) {
    const std::string path = folder.write("data.csv", text);
    expect_error([&] { read_all(path); }, {path + sentence});
    if (text.empty()) continue;
    const std::string compressed = folder.write("data.csv.gz", gzip(text));
    expect_error([&] { read_all(compressed); }, {compressed + sentence});
  }
}

TEST(CsvFile, SaysWhereTheLabelMayBe) {
  const TempFolder folder;
  const std::string path = folder.write("data.csv", "1,20,30\n");
  expect_error([&] { read_all(path); }, {"--data-label first"});
  expect_error([&] { read_all(folder.write("data.csv", "30,20,1\n"), LabelColumn::first); }, {"--data-label last"});
  for (const char* text : {"5.1,2,setosa\n", "3,1,4\n"})
    expect_error([&] { read_all(folder.write("data.csv", text)); },
                 {"the classes of the model; replace it, or remove the line"});
}

TEST(CsvFile, LongCellsAreCutInSentences) {
  const TempFolder folder;
  const std::string path = folder.write("data.csv", "1," + std::string(300, 'x') + ",0\n");
  EXPECT_LT(expect_error([&] { read_all(path); }, {"xxx...' is not a number"}).size(), path.size() + 150);
}

// A cut within a number leaves another number, which nothing can tell; lines before it must be as they were.
TEST(CsvFile, CutAtAnyByteItIsRefusedOrKeepsItsWholeLines) {
  const TempFolder folder;
  const std::string whole = "x,y,label\n0.5,-2,1\n30,4,2\n-1e3,12,0\n";
  const Read all = read_text(whole);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const std::string path = folder.write("cut.csv", whole.substr(0, length));
    const auto num_lines = std::count(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length), '\n');
    try {
      const Read read = read_all(path);
      ASSERT_GE(read.labels.size() + 1, static_cast<std::size_t>(num_lines));
      for (std::size_t i = 0; i + 1 < static_cast<std::size_t>(num_lines); ++i) {
        EXPECT_EQ(read.labels[i], all.labels[i]);
        EXPECT_EQ(read.features[2 * i], all.features[2 * i]);
      }
    } catch (const Error& error) {
      EXPECT_TRUE(std::string(error.what()).starts_with(path)) << error.what();
    }
  }
}

TEST(CsvFile, CutGzipIsRefusedAtEveryByte) {
  const TempFolder folder;
  const std::string whole = gzip("0.5,-2,1\n30,4,2\n-1e3,12,0\n");
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const std::string path = folder.write("cut.csv.gz", whole.substr(0, length));
    expect_error([&] { read_all(path); }, {path});
  }
}

TEST(CsvLine, QuotesHoldSeparators) {
  EXPECT_EQ(separator_of("\"a,b\";c"), ';');
  EXPECT_EQ(separator_of("abc"), ',');
  EXPECT_EQ(split_cells("\"a,b\", c ,", ','), (std::vector<std::string_view>{"a,b", "c", ""}));
  EXPECT_EQ(split_cells("\"a", ','), std::nullopt);
}

TEST(CsvLine, NumbersAreWholeCells) {
  EXPECT_EQ(parse_cell("-1.5e3"), -1500);
  EXPECT_EQ(parse_cell("+2"), 2);
  EXPECT_EQ(parse_cell("1e-999"), 0);
  const std::string zeros(400, '0'), infinite = "1" + zeros;
  EXPECT_EQ(parse_cell(infinite), std::numeric_limits<double>::infinity());
  EXPECT_EQ(parse_cell(infinite + "e-3"), std::numeric_limits<double>::infinity());
  EXPECT_EQ(parse_cell("-" + infinite), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(parse_cell("0." + zeros + "1"), 0);
  EXPECT_EQ(parse_cell("0." + zeros + "1e5"), 0);
  for (const char* const text : {"", "1 2", "1,5", "--1", "+", "1e", "one"})
    EXPECT_EQ(parse_cell(text), std::nullopt) << text;
}

}  // namespace
}  // namespace tessera::host
