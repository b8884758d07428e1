// One pass over the lines. Every cell is checked; the error is that of the first bad line and names file, line, column,
// what the cell holds and what it should hold.
//
//     f0,f1,f2,label        a header: the label's cell and another one are not numbers
//     0,1,2,3               the same, as pandas writes it without names: cells that count the columns
//     0.5,1,7e-3,2          an example of class 2
//
// A line is an example unless it cannot be one, so a name in the label's place alone is an error, not a header: it
// would be left out without a word.

#include "data/examples/csv_file.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/concat.h"
#include "data/examples/csv_line.h"
#include "data/examples/line_reader.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

constexpr std::size_t kMaxBytesPerCell = 256;  // on average over a line

// A cell in an error, shortened. A zero byte would end the error.
std::string shown(std::string_view cell) {
  constexpr std::size_t kMost = 40;
  return concat("'", printable(cell.substr(0, kMost)), cell.size() <= kMost ? "'" : "...'");
}

bool begins_as_utf16(std::string_view line) {
  return line.starts_with("\xff\xfe") || line.starts_with("\xfe\xff");
}

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t") == line.npos;
}

class CsvReader {
 public:
  CsvReader(const std::string& path, const ExampleShape& shape, LabelColumn label)
      : path_(path),
        shape_(shape),
        num_columns_(static_cast<std::size_t>(shape.num_features) + 1),
        label_(label == LabelColumn::first ? 0 : num_columns_ - 1),
        lines_(path, kMaxBytesPerCell * num_columns_) {}

  ExampleTable read() {
    while (lines_.next())
      read_line();
    if (labels_.empty()) refuse_file(lines_.num_bytes() == 0 ? "is empty (0 bytes)" : "holds no line of numbers");
    ExampleTable table{std::make_unique<HeldFeatures<float>>(std::move(features_)), std::move(labels_),
                       FeatureKind::columns, ""};
    table.description = concat(path_, ": CSV, ", has_header_ ? "a header, " : "", "label in the ",
                               label_ == 0 ? "first" : "last", " column");
    return table;
  }

 private:
  [[noreturn]] void refuse_file(std::string_view what) const {
    throw Error(TSR_E_INVALID_ARGUMENT, concat(path_, " ", what, "; give a CSV file with a line for each example"));
  }
  [[noreturn]] void refuse_line(const std::string& what) const {
    throw Error(TSR_E_INVALID_ARGUMENT, concat(path_, ", line ", lines_.number(), what));
  }
  [[noreturn]] void refuse_cell(std::size_t column, const std::string& what) const {
    refuse_line(concat(", column ", column + 1, ": ", what));
  }

  void read_line() {
    if (lines_.number() == 1 && begins_as_utf16(lines_.line()))
      throw Error(TSR_E_UNSUPPORTED, concat(path_, " is text in UTF-16; save it as UTF-8"));
    if (is_blank(lines_.line())) {
      if (first_blank_ == 0) first_blank_ = lines_.number();
      return;
    }
    if (first_blank_ != 0)
      throw Error(TSR_E_INVALID_ARGUMENT,
                  concat(path_, ", line ", first_blank_, " is empty, and more lines follow; remove it"));
    if (lines_.number() == 1) separator_ = separator_of(lines_.line());
    const auto cells = split_cells(lines_.line(), separator_);
    if (!cells) refuse_line(" has a double quote that is not closed; close or remove it");
    check_width(cells->size());
    if (lines_.number() == 1 && is_header(*cells)) {
      has_header_ = true;
      return;
    }
    add_example(*cells);
  }

  void check_width(std::size_t width) const {
    if (width == num_columns_) return;
    if (lines_.number() > 1)
      refuse_line(concat(" has ", counted(width, "column"), ", and the lines before it have ", num_columns_,
                         "; give every line the same columns"));
    refuse_line(concat(" has ", counted(width, "column"), ", and the model needs ", num_columns_, ": ",
                       shape_.num_features, " features and a label; use data of that width, or a model for this one"));
  }

  // pandas numbers the columns of a table without names. Two columns may as well be an example.
  static bool counts_columns(const std::vector<std::string_view>& cells) {
    for (std::size_t i = 0; i < cells.size(); ++i)
      if (cells[i] != std::to_string(i)) return false;
    return cells.size() > 2;
  }

  // A header has names in place of numbers. A label that is a name does not make one: it is an error.
  bool is_header(const std::vector<std::string_view>& cells) const {
    if (counts_columns(cells)) return true;
    if (parse_cell(cells[label_])) return false;
    const std::size_t first = label_ == 0 ? 1 : 0;
    const auto begin = parse_cell(cells[first]);
    bool has_name = false, counts = begin == 0 || begin == 1;
    for (std::size_t i = first; i < cells.size(); ++i) {
      if (i == label_) continue;
      const auto number = parse_cell(cells[i]);
      has_name = has_name || !number;
      counts = counts && number == *begin + static_cast<double>(i - first);
    }
    return has_name || counts;
  }

  void add_example(const std::vector<std::string_view>& cells) {
    if ((features_.size() + cells.size()) * sizeof(float) > kMaxFeatureBytes)
      refuse_line(concat(": the features up to here take ", kMaxFeatureBytes,
                         " bytes of memory, which is the limit; use fewer examples, or IDX files of bytes"));
    for (std::size_t i = 0; i < cells.size(); ++i)
      if (i == label_)
        labels_.push_back(label_of(cells));
      else
        features_.push_back(feature_of(cells[i], i));
  }

  float feature_of(std::string_view cell, std::size_t column) const {
    if (cell.empty()) refuse_cell(column, "the cell is empty; give a number, or remove the line");
    const auto value = parse_cell(cell);
    if (!value) refuse_cell(column, concat(shown(cell), " is not a number; replace it, or remove the line"));
    const auto feature = static_cast<float>(*value);
    if (!std::isfinite(feature))
      refuse_cell(column, concat(shown(cell), " is not a finite number of float32; replace it, or remove the line"));
    return feature;
  }

  std::optional<int32_t> as_label(std::string_view cell) const {
    const auto value = parse_cell(cell);
    const auto num_classes = static_cast<double>(shape_.num_classes);
    const bool is_label = value && *value >= 0 && *value < num_classes && *value == std::floor(*value);
    return is_label ? std::optional(static_cast<int32_t>(*value)) : std::nullopt;
  }

  int32_t label_of(const std::vector<std::string_view>& cells) const {
    if (const auto label = as_label(cells[label_])) return *label;
    const char* const other = label_ == 0 ? "last" : "first";
    const bool may_be_other = as_label(label_ == 0 ? cells.back() : cells.front()).has_value();
    const std::string advice = may_be_other
                                   ? concat("if the label is in the ", other, " column, add --data-label ", other)
                                   : std::string("replace it, or remove the line");
    refuse_cell(label_, concat("label ", shown(cells[label_]), " is not an integer from 0 to ", shape_.num_classes - 1,
                               ", the classes of the model; ", advice));
  }

  std::string path_;
  ExampleShape shape_;
  std::size_t num_columns_;
  std::size_t label_;  // its column
  LineReader lines_;
  char separator_ = ',';
  bool has_header_ = false;
  uint64_t first_blank_ = 0;
  std::vector<float> features_;
  std::vector<int32_t> labels_;
};

}  // namespace

ExampleTable read_csv(const std::string& path, const ExampleShape& shape, LabelColumn label) {
  return CsvReader(path, shape, label).read();
}

}  // namespace tessera::host
