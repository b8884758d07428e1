// Holds homes against the layout: what ranks own together is each parameter once, and what is not split is in the same
// places on ranks of one class.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "program/program.h"
#include "verify/diagnostics.h"

namespace tessera::host {

/// A range of a rank's part of a parameter.
struct OwnedRange {
  uint64_t begin, end;
  int rank;
};

/// Of the ranks of one job.
class HomeVerifier {
 public:
  /// A program of any rank that has its homes.
  using HomesOf = std::function<const Program&(int rank)>;
  HomeVerifier(const Mesh& mesh, HomesOf homes_of) : mesh_(mesh), homes_of_(std::move(homes_of)) {}

  /// Checks the rank of `program` and the ranks that differ from it on an axis that splits a parameter: ranks that
  /// share such an axis are checked once, for the first of them.
  void check(const Program& program, DiagnosticList& diagnostics);
  /// Checks a rank that `walked` is walked for: it keeps a parameter where the rank of `walked` does, or, of one that
  /// the layout splits, where the rank of that class with the same slice does. `own` gives its program if that is
  /// another rank.
  void check_places(const Program& walked, int rank, const std::function<const Program&()>& own,
                    DiagnosticList& diagnostics);

 private:
  /// A parameter that ranks own together over these axes, by the first rank on them.
  struct Shared {
    int parameter;
    std::vector<int> axes;
    int first_rank;
    bool is_here;  ///< the layout has it on their stage
    auto operator<=>(const Shared&) const = default;
  };
  /// By parameter.
  using Owned = std::map<int, std::vector<OwnedRange>>;

  /// Parameters by the axes on which ranks may have other elements of them.
  using ByAxes = std::map<std::vector<int>, std::vector<bool>>;

  const ByAxes& parameters_by_axes(const Program& program);
  const std::vector<int>& axes_of(const Program& program, int parameter, uint32_t role);
  bool splits_batch(const std::vector<int>& axes) const;
  const Owned& owned_by(int rank);
  int first_over(const Program& program, const std::vector<int>& axes) const;
  std::vector<int> ranks_over(const Program& program, const std::vector<int>& axes) const;
  bool is_shared_right(const Program& program, int parameter, uint32_t role, const std::vector<int>& axes,
                       DiagnosticList& diagnostics);

  const Mesh& mesh_;
  const HomesOf homes_of_;
  std::map<std::pair<int, uint32_t>, std::vector<int>> axes_;  // that split a parameter's role
  std::map<int, Owned> owned_;                                 // by rank
  std::map<Shared, bool> checked_;                             // whether it is right
  ByAxes by_axes_;
};

}  // namespace tessera::host
