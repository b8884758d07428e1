// Buffers are named, since their ids depend on what else is in the program. A name has its length before it.

#include "compile/homes_fingerprint.h"

#include <string_view>

#include "base/concat.h"
#include "base/sha256.h"

namespace tessera::host {
namespace {

std::string text_of_pieces(const Home& home) {
  std::string text = "pieces";
  for (const tsr_piece& p : home.pieces)
    text += concat(" ", p.parameter, "+", p.parameter_offset, ">", p.home_offset, ":", p.num_elements);
  return text + "\n";
}

std::string text_of_place(const Program& program, const Home& home) {
  std::string text = concat(home.name.size(), ":", home.name, " ", home.unit, " ", home.num_elements);
  for (const auto& [number, role] : home.roles) {
    const Buffer* const buffer = role.buffer ? &program.buffer(role.buffer) : nullptr;
    const std::string_view name = buffer ? std::string_view(buffer->name) : "none";
    text += concat(" role ", number, " ", buffer ? buffer->kind : 0, " ", name.size(), ":", name, "+", role.offset, ":",
                   role.num_elements);
  }
  return text + "\n";
}

std::string text_of(const LayoutEntry& e) {
  std::string text = concat(e.parameter, " ", e.axis, " ", e.roles, " ", e.kind, " ", e.dim, " ", e.parts, " ",
                            e.blocks, " ", e.padded_size, " ", e.name, " on");
  for (const int coordinate : e.coordinates)
    text += concat(" ", coordinate);
  return text + "\n";
}

}  // namespace

HomesFingerprint fingerprint_of_homes(const Program& program) {
  std::string homes, layout;
  for (const Home& home : program.homes)
    homes += text_of_place(program, home) + text_of_pieces(home);
  for (const LayoutEntry& entry : program.layout)
    layout += text_of(entry);
  return {sha256_hex(homes), sha256_hex(layout)};
}

std::string fingerprint_of_places(std::span<const Program* const> programs) {
  std::string places;
  for (const Program* program : programs) {
    places += concat("program ", program->purpose, " ", program->variant, "\n");
    for (const Home& home : program->homes)
      places += text_of_place(*program, home);
  }
  return sha256_hex(places);
}

}  // namespace tessera::host
