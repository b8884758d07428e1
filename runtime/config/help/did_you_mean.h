// Suggestions for names that do not exist.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tessera::host {

/// Insertions, deletions, substitutions and swaps of neighbors that turn `a` into `b`.
size_t edit_distance(std::string_view a, std::string_view b);

/// The nearest of `known`, or empty when none is near (more than a third of the letters differ).
std::string nearest(std::string_view given, std::span<const std::string> known);

/// The one of `known` that others give this name, such as fp16 for f16; else the nearest.
std::string nearest_choice(std::string_view given, std::span<const std::string> known);

/// The end of the sentence "unknown flag --<given>": "; did you mean --lr?", "; use --lr" for a name that another
/// framework uses, or "; see --help". Names are without the leading dashes.
std::string suggest_flag(std::string_view given, std::span<const std::string> known);

/// The same for a flag of torchtitan or Lightning, whose flags are in sections: "; use --steps" for training.steps.
/// Empty for a name that is not of one of their sections.
std::string suggest_sectioned_flag(std::string_view given, std::span<const std::string> known);

}  // namespace tessera::host
