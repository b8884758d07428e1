// Which combinations of settings to try: all of them, or a few in which every two values meet.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tessera::testing {

struct Factor {
  std::string name;
  std::vector<std::string> values;
};

/// Where `factor` has one of `values`, `other` has one of `allowed`.
struct Rule {
  std::string factor;
  std::vector<std::string> values;
  std::string other;
  std::vector<std::string> allowed;
};

/// Factors and the rules that tell which combinations exist.
class Space {
 public:
  /// Throws std::invalid_argument for a rule with a factor that is not there.
  Space(std::vector<Factor> factors, std::vector<Rule> rules);

  /// The same with these values of a factor only.
  Space with(const std::string& factor, std::vector<std::string> values) const;

  /// A combination: the index of a value for each factor.
  using Row = std::vector<size_t>;

  const std::vector<Factor>& factors() const { return factors_; }
  const std::vector<Rule>& rules() const { return rules_; }
  /// The index of a factor. Throws std::invalid_argument when there is none of that name.
  size_t find(const std::string& factor) const;
  /// The index of a value in its factor. Throws likewise.
  size_t find(const std::string& factor, const std::string& value) const;
  const std::string& value(const Row& row, const std::string& factor) const;
  /// "mesh=3 mode=fsdp ..."
  std::string text(const Row& row) const;
  /// "3_fsdp_...", in letters, digits and underscores, without factors that have one value: the name of a test.
  std::string test_name(const Row& row) const;

  /// Every combination that the rules allow; the factors in `fixed` keep their first value.
  std::vector<Row> all(const std::vector<std::string>& fixed = {}) const;
  bool allows(const Row& row) const;
  /// Few combinations, the same ones every time: any two values of two factors that occur together in some combination
  /// do so in one of these.
  std::vector<Row> covering_pairs() const;

 private:
  using Partial = std::vector<int>;  // -1: not chosen yet

  bool fits(const Partial& chosen, size_t factor, size_t value) const;
  template <class Order>
  bool complete(Partial& chosen, const Order& order_of) const;

  std::vector<Factor> factors_;
  std::vector<Rule> rules_;
  std::vector<std::vector<std::vector<std::vector<bool>>>> forbidden_;  // [factor][value][other][value]
};

}  // namespace tessera::testing
