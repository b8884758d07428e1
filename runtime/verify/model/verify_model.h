// Holds the programs of all ranks against the model: what a step must do follows from the model's segments and values
// (needs.h), and what the programs do from what each range holds while they are walked together (content.h).
#pragma once

#include <map>

#include "verify/collective_matching.h"
#include "verify/model/home_table.h"
#include "verify/model/rank_walk.h"
#include "verify/verify.h"

namespace tessera::host {

class HomeVerifier;

/// Of one job. Borrows all.
class ModelVerifier {
 public:
  /// `homes_of` is asked about ranks whose own program is not at hand.
  ModelVerifier(const Mesh& mesh, const RankClasses& classes, HomesOf homes_of)
      : mesh_(mesh), classes_(classes), homes_of_(std::move(homes_of)) {}

  /// Of every program of the job before the first check: what its calls write may be anything.
  void note_calls(const Program& program);

  /// Init first: the others find what it leaves. The programs have passed verify_ranks. Each segment runs once for a
  /// micro-batch; operands hold what the model names; each trainable element is updated once, after one clip that
  /// takes each square once; nothing else changes what outlives the program.
  /// `matched`: the actions of the ranks that `walked` has.
  Diagnostics check(const ProgramOf& program, const RankClasses& walked, const MatchedOps& matched);

  /// The homes of a rank that need not be one of those checked.
  const RankHomes& homes(int rank);

 private:
  void check_homes(const ProgramOf& init, DiagnosticList& diagnostics);
  void check_places(HomeVerifier& verifier, const ProgramOf& init, DiagnosticList& diagnostics);

  const Mesh& mesh_;
  const RankClasses& classes_;
  const HomesOf homes_of_;
  std::map<int, RankHomes> homes_;  // of ranks that were asked for
  WalkContext context_;
  std::map<int, KeptContents> kept_;  // what init left, by rank that is walked
};

}  // namespace tessera::host
