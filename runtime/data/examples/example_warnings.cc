// Signs of a wrong label column or of a wrong file, which train without an error: every label equal, classes without an
// example. And steps that take all examples, where more ranks or micro-batches bring nothing.

#include "data/examples/example_warnings.h"

#include <algorithm>

#include "base/concat.h"

namespace tessera::host {
namespace {

constexpr std::size_t kMaxListed = 8;

std::string list_of(const std::vector<std::size_t>& classes) {
  std::string text;
  for (std::size_t i = 0; i < std::min(classes.size(), kMaxListed); ++i)
    text += concat(i == 0 ? "" : ", ", classes[i]);
  return classes.size() > kMaxListed ? concat(text, ", ... (", classes.size(), " classes)") : text;
}

}  // namespace

std::vector<std::string> example_warnings(const ExampleSource& source, int64_t examples_per_step) {
  std::vector<std::string> warnings;
  std::vector<std::size_t> seen, unseen;
  for (std::size_t i = 0; i < source.class_counts().size(); ++i)
    (source.class_counts()[i] > 0 ? seen : unseen).push_back(i);
  if (seen.size() == 1) {
    warnings.push_back(concat("every example of the data has label ", seen.front(),
                              "; is another column the label? (see --data-label)"));
  } else if (!unseen.empty()) {
    warnings.push_back(concat("the data has no example of class ", list_of(unseen), ", and the model has ",
                              source.shape().num_classes, " classes"));
  }
  if (static_cast<uint64_t>(examples_per_step) >= source.num_examples())
    warnings.push_back(concat("the data is short: a step takes ", counted(examples_per_step, "example"), ", and there ",
                              source.num_examples() == 1 ? "is " : "are ", source.num_examples(),
                              "; use more data, or a smaller --batch-size or --grad-accum"));
  return warnings;
}

}  // namespace tessera::host
