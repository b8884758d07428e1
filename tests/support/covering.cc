#include "support/covering.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <stdexcept>
#include <tuple>

namespace tessera::testing {
namespace {

bool contains(const std::vector<std::string>& values, const std::string& value) {
  return std::ranges::find(values, value) != values.end();
}

/// Pairs that no combination has shown yet.
class Uncovered {
 public:
  using Pair = std::tuple<size_t, size_t, size_t, size_t>;  // factor, value, a later factor, its value

  void add(size_t a, size_t u, size_t b, size_t v) { pairs_.emplace(a, u, b, v); }
  bool empty() const { return pairs_.empty(); }
  Pair first() const { return *pairs_.begin(); }
  void erase(const Pair& pair) { pairs_.erase(pair); }
  bool contains(size_t a, size_t u, size_t b, size_t v) const {
    return pairs_.contains(a < b ? Pair(a, u, b, v) : Pair(b, v, a, u));
  }
  void erase(const Space::Row& row) {
    for (size_t a = 0; a < row.size(); ++a)
      for (size_t b = a + 1; b < row.size(); ++b)
        pairs_.erase(Pair(a, row[a], b, row[b]));
  }

 private:
  std::set<Pair> pairs_;
};

std::vector<size_t> in_order(size_t num_values) {
  std::vector<size_t> values(num_values);
  for (size_t i = 0; i < num_values; ++i)
    values[i] = i;
  return values;
}

}  // namespace

Space::Space(std::vector<Factor> factors, std::vector<Rule> rules)
    : factors_(std::move(factors)), rules_(std::move(rules)) {
  const size_t n = factors_.size();
  forbidden_.resize(n);
  for (size_t a = 0; a < n; ++a) {
    forbidden_[a].assign(factors_[a].values.size(), std::vector<std::vector<bool>>(n));
    for (auto& of_value : forbidden_[a])
      for (size_t b = 0; b < n; ++b)
        of_value[b].resize(factors_[b].values.size());
  }
  for (const Rule& rule : rules_) {
    const size_t a = find(rule.factor), b = find(rule.other);
    for (size_t u = 0; u < factors_[a].values.size(); ++u)
      for (size_t v = 0; v < factors_[b].values.size(); ++v)
        if (contains(rule.values, factors_[a].values[u]) && !contains(rule.allowed, factors_[b].values[v]))
          forbidden_[a][u][b][v] = forbidden_[b][v][a][u] = true;
  }
}

Space Space::with(const std::string& factor, std::vector<std::string> values) const {
  std::vector<Factor> factors = factors_;
  factors[find(factor)].values = std::move(values);
  return Space(std::move(factors), rules_);
}

size_t Space::find(const std::string& factor) const {
  const auto found = std::ranges::find(factors_, factor, &Factor::name);
  if (found == factors_.end()) throw std::invalid_argument("unknown factor " + factor);
  return static_cast<size_t>(found - factors_.begin());
}

size_t Space::find(const std::string& factor, const std::string& value) const {
  const std::vector<std::string>& values = factors_[find(factor)].values;
  const auto found = std::ranges::find(values, value);
  if (found == values.end()) throw std::invalid_argument("factor " + factor + " has no value " + value);
  return static_cast<size_t>(found - values.begin());
}

const std::string& Space::value(const Row& row, const std::string& factor) const {
  const size_t index = find(factor);
  return factors_[index].values[row[index]];
}

std::string Space::text(const Row& row) const {
  std::string text;
  for (size_t i = 0; i < row.size(); ++i)
    text += (i ? " " : "") + factors_[i].name + "=" + factors_[i].values[row[i]];
  return text;
}

std::string Space::test_name(const Row& row) const {
  std::string name;
  for (size_t i = 0; i < row.size(); ++i)
    if (factors_[i].values.size() > 1) name += (i ? "_" : "") + factors_[i].values[row[i]];
  std::ranges::replace_if(
      name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
}

bool Space::fits(const Partial& chosen, size_t factor, size_t value) const {
  for (size_t other = 0; other < chosen.size(); ++other)
    if (chosen[other] >= 0 && forbidden_[factor][value][other][static_cast<size_t>(chosen[other])]) return false;
  return true;
}

/// Chooses what is not chosen yet, factor by factor, trying the values in the order that order_of(chosen, factor)
/// gives. Returns false and changes nothing if no such combination exists.
template <class Order>
bool Space::complete(Partial& chosen, const Order& order_of) const {
  const auto next = std::ranges::find(chosen, -1);
  if (next == chosen.end()) return true;
  const auto factor = static_cast<size_t>(next - chosen.begin());
  for (const size_t value : order_of(chosen, factor)) {
    if (!fits(chosen, factor, value)) continue;
    chosen[factor] = static_cast<int>(value);
    if (complete(chosen, order_of)) return true;
    chosen[factor] = -1;
  }
  return false;
}

bool Space::allows(const Row& row) const {
  for (size_t a = 0; a < row.size(); ++a)
    for (size_t b = 0; b < a; ++b)
      if (forbidden_[a][row[a]][b][row[b]]) return false;
  return true;
}

std::vector<Space::Row> Space::all(const std::vector<std::string>& fixed) const {
  std::vector<Row> rows;
  Partial chosen(factors_.size(), -1);
  const auto extend = [&](const auto& self, size_t factor) -> void {
    if (factor == factors_.size()) {
      rows.emplace_back(chosen.begin(), chosen.end());
      return;
    }
    const size_t num_values = contains(fixed, factors_[factor].name) ? 1 : factors_[factor].values.size();
    for (size_t value = 0; value < num_values; ++value) {
      if (!fits(chosen, factor, value)) continue;
      chosen[factor] = static_cast<int>(value);
      self(self, factor + 1);
      chosen[factor] = -1;
    }
  };
  extend(extend, 0);
  return rows;
}

std::vector<Space::Row> Space::covering_pairs() const {
  Uncovered uncovered;
  for (size_t a = 0; a < factors_.size(); ++a)
    for (size_t b = a + 1; b < factors_.size(); ++b)
      for (size_t u = 0; u < factors_[a].values.size(); ++u)
        for (size_t v = 0; v < factors_[b].values.size(); ++v)
          if (!forbidden_[a][u][b][v]) uncovered.add(a, u, b, v);

  std::vector<std::vector<size_t>> times_used;
  for (const Factor& factor : factors_)
    times_used.emplace_back(factor.values.size());
  // The values that show most new pairs first, then those that were used least.
  const auto best_first = [&](const Partial& chosen, size_t factor) {
    std::vector<size_t> values = in_order(factors_[factor].values.size());
    const auto rank = [&](size_t value) {
      ptrdiff_t new_pairs = 0;
      for (size_t other = 0; other < chosen.size(); ++other)
        if (chosen[other] >= 0)
          new_pairs += uncovered.contains(factor, value, other, static_cast<size_t>(chosen[other]));
      return std::pair(-new_pairs, times_used[factor][value]);
    };
    std::ranges::stable_sort(values, {}, rank);
    return values;
  };

  std::vector<Row> rows;
  while (!uncovered.empty()) {
    const auto [a, u, b, v] = uncovered.first();
    Partial chosen(factors_.size(), -1);
    chosen[a] = static_cast<int>(u);
    chosen[b] = static_cast<int>(v);
    if (!complete(chosen, best_first)) {
      uncovered.erase(Uncovered::Pair(a, u, b, v));  // a third factor keeps these two apart
      continue;
    }
    const Row& row = rows.emplace_back(chosen.begin(), chosen.end());
    uncovered.erase(row);
    for (size_t factor = 0; factor < row.size(); ++factor)
      ++times_used[factor][row[factor]];
  }
  return rows;
}

}  // namespace tessera::testing
