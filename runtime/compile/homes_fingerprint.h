// What a rank owns, as hashes: the texts of programs leave it out, so that ranks of one class have one text.
#pragma once

#include <span>
#include <string>

#include "program/program.h"

namespace tessera::host {

/// Equal where all homes, with pieces, roles and the names of their buffers, and the layout are.
struct HomesFingerprint {
  std::string homes, layout;
};

/// Of a program whose passes have run.
HomesFingerprint fingerprint_of_homes(const Program& program);
/// A hash of where the homes of several programs are: equal for all ranks of a class, whatever pieces these own.
std::string fingerprint_of_places(std::span<const Program* const> programs);

}  // namespace tessera::host
