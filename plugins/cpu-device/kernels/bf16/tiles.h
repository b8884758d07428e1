// A bfloat16 product in tiles: each tile is a product of its own, by one thread, and the tiles are distributed over the
// threads. Tiles depend only on the extents and span the whole inner dim, so bits do not depend on the number of
// threads.
#pragma once

#include <algorithm>
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
  uint64_t size(uint64_t part) const { return std::min(length, num_items - begin(part)); }

  uint64_t num_items, length, num_parts;
};

/// The tiles of a result of `rows` x `columns`: float32 sums of a tile fit a core's second-level cache beside operands.
struct TileGrid {
  static constexpr uint64_t kMostRows = 256, kMostColumns = 384;

  TileGrid(uint64_t num_rows, uint64_t num_columns) : rows(num_rows, kMostRows), columns(num_columns, kMostColumns) {}
  uint64_t num_tiles() const { return rows.num_parts * columns.num_parts; }
  /// Elements of the largest.
  uint64_t tile_elements() const { return rows.length * columns.length; }
  /// Down the rows first: neighbours share columns of b, usually the larger operand.
  Tile tile(uint64_t index) const {
    const uint64_t r = index % rows.num_parts, c = index / rows.num_parts;
    return {rows.begin(r), columns.begin(c), rows.size(r), columns.size(c)};
  }

  EqualParts rows, columns;
};

/// Where a product's tiles go: into a matrix with this stride, or, with kDense, each into a place of its own.
struct TileOutput {
  static constexpr uint64_t kDense = 0;
  uint64_t stride = kDense;
  bool accumulate = false;
};

class TiledProduct {
 public:
  TiledProduct(ProductExtents extents, Bf16Layout a, Bf16Layout b, TileOutput output)
      : grid_(extents.m, extents.n), a_(a), b_(b) {
    for (uint64_t i = 0; i < grid_.num_tiles(); ++i) {
      const Tile tile = grid_.tile(i);
      const uint64_t stride = output.stride == TileOutput::kDense ? tile.num_columns : output.stride;
      if (products_.count({tile.num_rows, tile.num_columns}) == 0)
        products_.emplace(std::pair(tile.num_rows, tile.num_columns),
                          Bf16Product({tile.num_rows, tile.num_columns, extents.k}, a, b, stride, output.accumulate));
    }
  }

  const TileGrid& grid() const { return grid_; }

  /// c, the tile's first element, (+)= the tile's rows of a times its columns of b. [any thread]
  void run(const Tile& tile, const uint16_t* a, const uint16_t* b, float* c) const {
    products_.at({tile.num_rows, tile.num_columns})
        .run(a + tile.row * (a_.transposed ? 1 : a_.stride), b + tile.column * (b_.transposed ? b_.stride : 1), c);
  }

 private:
  const TileGrid grid_;
  const Bf16Layout a_, b_;
  std::map<std::pair<uint64_t, uint64_t>, Bf16Product> products_;  // by the tile's extents: at most four
};

/// Threads that share out tiles, at most: their scratch is a slot, and sized before the team is known.
inline constexpr uint64_t kMostTileThreads = 32;

inline uint64_t tile_scratch_elements(const TileGrid& grid) {
  return std::min(grid.num_tiles(), kMostTileThreads) * grid.tile_elements();
}

/// Calls body(tile, thread) for every tile, thread < kMostTileThreads; rethrows an exception of one.
template <class Body>
void for_each_tile(const TileGrid& grid, int num_threads, const Body& body) {
  const int team = std::min(num_threads, static_cast<int>(kMostTileThreads));
  parallel_for_throwing(team, grid.num_tiles(), 1, [&](uint64_t begin, uint64_t end, int thread) {
    for (uint64_t i = begin; i < end; ++i)
      body(grid.tile(i), static_cast<uint64_t>(thread));
  });
}

/// The tile's part of `matrix`, whose rows are `stride` apart, (+)= its dense `sums`, rounded once; `sums` is
/// overwritten.
inline void store_tile(const Tile& tile, float* sums, bool accumulate, uint64_t stride, uint16_t* matrix) {
  for (uint64_t r = 0; r < tile.num_rows; ++r)
    store(sums + r * tile.num_columns, tile.num_columns, accumulate, matrix + (tile.row + r) * stride + tile.column);
}

}  // namespace tessera::cpu
