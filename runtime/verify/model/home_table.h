// Which elements of which parameters a rank keeps in its persistent buffers.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "program/program.h"
#include "verify/model/content.h"

namespace tessera::host {

/// Numbers for persistent buffers, by kind, strategy and name: a buffer that several programs or ranks have is one.
class KeptBuffers {
 public:
  int number_of(const Buffer& buffer);
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::map<std::string, int> numbers_;
  std::vector<std::string> names_;
};

/// Elements of a home that are next to one another in the rank's part of a parameter.
struct HomeRun {
  uint64_t offset = 0, num_elements = 0;  ///< in the home
  int parameter = -1;
  uint64_t element = 0;
};
/// Of one home, ascending. What is in none is padding.
std::vector<HomeRun> runs_of(const Home& home, const Model& model);

/// A rank's own homes, for checks of ranks whose programs are equal and whose homes are not: its init program, which
/// has them, and the model that this borrows.
struct RankHomes {
  std::shared_ptr<const Model> model;
  Program init;
};
using HomesOf = std::function<RankHomes(int rank)>;

/// How elements came about, as far as the model does not say it.
enum class Origin : uint8_t {
  named,     ///< as the model names them
  averaged,  ///< over all replicas that may diverge
  made,      ///< by a strategy's call
};

/// Elements of the rank's part of a parameter that it keeps, or updates with.
struct KeptElements {
  int parameter = -1;
  uint32_t role = 0;  ///< TSR_HOME_*; GRADIENT: what the optimizer took
  int buffer = -1;    ///< by number; -1: of a gradient
  uint64_t begin = 0, end = 0;
  Origin origin = Origin::named;
  // Of what a call has made of elements that the model names:
  uint32_t made_of = 0;  ///< a set of UsedElements
  int64_t place = 0;     ///< where element 0 is, or would be, in what the call wrote

  /// Whether another rank has them in the same way.
  bool is_alike(const KeptElements& other) const {
    return origin == other.origin && made_of == other.made_of && place == other.place;
  }
};

/// What kept contents are on this rank.
class HomeTable {
 public:
  HomeTable(const Program& program, KeptBuffers& buffers);
  /// The same parts, with states and zeros for what was kept.
  ContentParts resolve(const ContentParts& parts) const;
  /// Where the value of an element is kept, and how many elements that follow are beside it; nothing: not on this rank.
  struct Place {
    Content kept;
    uint64_t num_elements;
  };
  std::optional<Place> place_of(int parameter, uint64_t element) const;
  /// How many elements from one on that is not kept are not kept either.
  uint64_t num_missing(int parameter, uint64_t element) const;

 private:
  struct Kept {
    uint64_t end;
    Content content;  // of the range's first element on: the shift counts from there
  };
  void resolve(const ContentPart& part, ContentParts& result) const;

  std::map<int, std::map<uint64_t, Kept>> kept_;      // by buffer, by begin
  std::map<std::pair<int, uint64_t>, Place> places_;  // by parameter and first element
};

}  // namespace tessera::host
