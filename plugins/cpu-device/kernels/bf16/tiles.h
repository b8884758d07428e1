// A bfloat16 product in tiles: each tile is a product of its own, by one thread, and the tiles are distributed over the
// threads. Tiles depend only on the extents and span the whole inner dim, so bits do not depend on the number of
// threads. Without AMX a thread computes a block of tiles together, which share widened parts of operands; each has the
// bits that it would have alone.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <utility>

#include "cpu-device/kernels/bf16/product.h"
#include "cpu-device/kernels/bf16/rows.h"
#include "cpu-device/kernels/parallel.h"

namespace tessera::cpu {

/// Rows and columns of the result.
struct Tile {
  uint64_t row, column, num_rows, num_columns;
};

/// Cuts [0, num_items) into the fewest parts of at most `most` items, all equal except the last, at multiples of 16.
struct EqualParts {
  EqualParts(uint64_t items, uint64_t most) : num_items(items) {
    const uint64_t least_parts = (items + most - 1) / most;
    length = ((items + least_parts - 1) / least_parts + 15) / 16 * 16;
    num_parts = (items + length - 1) / length;
  }
  uint64_t begin(uint64_t part) const { return part * length; }
  uint64_t end(uint64_t part) const { return std::min(begin(part) + length, num_items); }
  uint64_t size(uint64_t part) const { return end(part) - begin(part); }

  uint64_t num_items, length, num_parts;
};

/// The tiles of a result of `rows` x `columns`: float32 sums of a tile fit a core's second-level cache beside operands.
struct TileGrid {
  static constexpr uint64_t kMaxRows = 256, kMaxColumns = 384;

  TileGrid(uint64_t num_rows, uint64_t num_columns) : rows(num_rows, kMaxRows), columns(num_columns, kMaxColumns) {}
  uint64_t num_tiles() const { return rows.num_parts * columns.num_parts; }
  /// Elements of the largest.
  uint64_t tile_elements() const { return rows.length * columns.length; }
  Tile tile(uint64_t r, uint64_t c) const { return {rows.begin(r), columns.begin(c), rows.size(r), columns.size(c)}; }

  EqualParts rows, columns;
};

/// Where a product's tiles go: into a matrix with this stride, or, with kDense, each into a place of its own.
struct TileOutput {
  static constexpr uint64_t kDense = 0;
  uint64_t stride = kDense;
  bool accumulate = false;
};

/// Threads that share out tiles, at most: their scratch is a slot, and sized before the team is known.
inline constexpr uint64_t kMaxTileThreads = 32;

/// Tiles in scratch at once.
inline uint64_t num_scratch_tiles(const TileGrid& grid) {
  return std::min(grid.num_tiles(), kMaxTileThreads);
}
inline uint64_t tile_scratch_elements(const TileGrid& grid) {
  return num_scratch_tiles(grid) * grid.tile_elements();
}

class TiledProduct {
 public:
  TiledProduct(ProductExtents extents, Bf16Layout a, Bf16Layout b, TileOutput output)
      : grid_(extents.m, extents.n), a_(a), b_(b), stride_(output.stride) {
    for (uint64_t i = 0; i < grid_.num_tiles(); ++i) {
      const Tile tile = grid_.tile(i % grid_.rows.num_parts, i / grid_.rows.num_parts);
      const uint64_t stride = output.stride == TileOutput::kDense ? tile.num_columns : output.stride;
      if (products_.count({tile.num_rows, tile.num_columns}) == 0)
        products_.emplace(std::pair(tile.num_rows, tile.num_columns),
                          Bf16Product({tile.num_rows, tile.num_columns, extents.k}, a, b, stride, output.accumulate));
    }
  }

  /// c (+)= a b; the output has a stride.
  void run_in_place(const uint16_t* a, const uint16_t* b, float* c, int num_threads) const {
    run(
        a, b, num_threads, [&](const Tile& tile, uint64_t) { return c + tile.row * stride_ + tile.column; },
        [](const Tile&, float*) {});
  }

  /// Computes each tile in scratch[tile_scratch_elements()], where finish(tile, float* sums) finds it dense, in any
  /// order on any thread; rethrows an exception of one.
  template <class Finish>
  void run_in_scratch(const uint16_t* a, const uint16_t* b, float* scratch, int num_threads,
                      const Finish& finish) const {
    run(
        a, b, num_threads, [&](const Tile&, uint64_t slot) { return scratch + slot * grid_.tile_elements(); }, finish);
  }

 private:
  static constexpr uint64_t kMaxDown = 4, kMaxAcross = 2;

  /// Tiles that a thread computes together, by their parts of the grid.
  struct Block {
    uint64_t row, column, num_down, num_across;
  };

  /// Blocks of as many tiles as the scratch holds for each thread, and as leave each thread some blocks.
  struct Blocks {
    Blocks(const TileGrid& grid, uint64_t team) : num_rows(grid.rows.num_parts), num_columns(grid.columns.num_parts) {
      if (has_amx()) return;
      const uint64_t most = std::max<uint64_t>(num_scratch_tiles(grid) / team, 1);
      down = std::min({kMaxDown, num_rows, most});
      across = std::min({kMaxAcross, num_columns, most / down});
      while (team > 1 && down * across > 1 && size() < 4 * team)
        --(across > 1 ? across : down);
    }
    uint64_t num_down() const { return (num_rows + down - 1) / down; }
    uint64_t size() const { return num_down() * ((num_columns + across - 1) / across); }
    /// Down the rows first: neighbors share columns of b, usually the larger operand.
    Block block(uint64_t index) const {
      const uint64_t row = index % num_down() * down, column = index / num_down() * across;
      return {row, column, std::min(down, num_rows - row), std::min(across, num_columns - column)};
    }

    uint64_t num_rows, num_columns;  // of the grid, in tiles
    uint64_t down = 1, across = 1;   // tiles of a block
  };

  /// place(tile, slot) is where a tile goes, `slot` a place in scratch of its own.
  template <class Place, class Finish>
  void run(const uint16_t* a, const uint16_t* b, int num_threads, const Place& place, const Finish& finish) const {
    const uint64_t team = std::min(static_cast<uint64_t>(std::max(num_threads, 1)), kMaxTileThreads);
    const Blocks blocks(grid_, team);
    parallel_for_throwing(static_cast<int>(team), blocks.size(), 1, [&](uint64_t begin, uint64_t end, int thread) {
      const uint64_t first_slot = static_cast<uint64_t>(thread) * blocks.down * blocks.across;
      for (uint64_t i = begin; i < end; ++i)
        run_block(blocks.block(i), a, b, first_slot, place, finish);
    });
  }

  template <class Place, class Finish>
  void run_block(const Block& block, const uint16_t* a, const uint16_t* b, uint64_t slot, const Place& place,
                 const Finish& finish) const {
    std::array<const uint16_t*, kMaxDown> left{};
    std::array<const uint16_t*, kMaxAcross> right{};
    std::array<Tile, kMaxDown * kMaxAcross> tiles{};
    std::array<Bf16Product::Result, kMaxDown * kMaxAcross> results{};
    size_t num_tiles = 0;
    for (uint64_t j = 0; j < block.num_across; ++j)
      for (uint64_t i = 0; i < block.num_down; ++i, ++num_tiles) {
        const Tile& tile = tiles[num_tiles] = grid_.tile(block.row + i, block.column + j);
        left[i] = a + tile.row * (a_.transposed ? 1 : a_.stride);
        right[j] = b + tile.column * (b_.transposed ? b_.stride : 1);
        results[num_tiles] = {&products_.at({tile.num_rows, tile.num_columns}), place(tile, slot + num_tiles)};
      }
    Bf16Product::run_all({left.data(), block.num_down}, {right.data(), block.num_across}, {results.data(), num_tiles});
    for (size_t i = 0; i < num_tiles; ++i)
      finish(tiles[i], results[i].c);
  }

  const TileGrid grid_;
  const Bf16Layout a_, b_;
  const uint64_t stride_;
  std::map<std::pair<uint64_t, uint64_t>, Bf16Product> products_;  // by the tile's extents: at most four
};

/// The tile's part of `matrix`, whose rows are `stride` apart, (+)= its dense `sums`, rounded once; `sums` is
/// overwritten.
inline void store_tile(const Tile& tile, float* sums, bool accumulate, uint64_t stride, uint16_t* matrix) {
  for (uint64_t r = 0; r < tile.num_rows; ++r)
    store(sums + r * tile.num_columns, tile.num_columns, accumulate, matrix + (tile.row + r) * stride + tile.column);
}

}  // namespace tessera::cpu
