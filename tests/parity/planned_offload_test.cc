// What docs/offload.md promises of memory and bytes, read from the programs: over blocks, widths, tokens, micro-batches
// and distances. Nothing runs.
//
// Of a micro-batch a bytes of each block leave; A = blocks * a. With ahead = k and linger = l:
//   host memory                    A
//   copied out, and copied in      A M
//   device, in the forward         a (1 + l) of what leaves, beside the two values between blocks
//   device, in the backward        a (1 + k) fetched
// So the peak grows with each block by its states and gradient at most, and no more by what it saves. With k = l = 0
// the gap of the last norm, over the loss, is long enough too: its input and its two statistics leave beside A.
//
// With `stream` a parameter of a block passes 24 bytes in and 16 out in a step of one micro-batch: its value in three
// times, m, v and the gradient for the update; the gradient, value, m and v out. Each further micro-batch adds 12 in, 4
// out. Squares are summed before a gradient leaves, or it would come in once more.
//
// State that rests elsewhere, of P trained elements, in chunks of c elements: host memory 8 P, copied in and out 8 P
// each, on the device nothing between steps and at most 8 c (1 + k + l) in the update. m or v alone: half of that. With
// gradients, of M micro-batches: 4 P more in and out, and as much for each further micro-batch. Updated on the host,
// all 12 P rest there: 4 P of values in, 4 P of gradients out; `stream` fetches values twice a micro-batch.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "plan/moved.h"
#include "support/compiled_job.h"
#include "support/temp_folder.h"

namespace tessera::testing {
namespace {

struct Size {
  int num_blocks, width, seq, batch = 1, micro_batches = 1;
};

void PrintTo(const Size& s, std::ostream* out) {
  *out << s.num_blocks << " blocks of width " << s.width << ", " << s.batch << " x " << s.seq << " tokens, "
       << s.micro_batches << " micro-batches";
}

/// Sizes that no rounding of buffers to 256 bytes hides: tokens times heads are multiples of 64.
std::vector<Size> sizes() {
  std::vector<Size> all;
  for (const int num_blocks : {4, 7, 12})
    for (const int width : {32, 64, 160})
      for (const int seq : {64, 192})
        all.push_back({num_blocks, width, seq});
  all.insert(all.end(), {{6, 32, 64, 3}, {6, 32, 64, 1, 2}, {6, 64, 128, 2, 3}, {4, 96, 256, 1, 4}});
  return all;
}

/// The programs of one rank.
class Plan {
 public:
  Plan(const Size& size, std::vector<std::string> more) {
    const TempFolder folder;
    const auto n = [](int number) { return std::to_string(number); };
    folder.write("config.json", R"({"model_type": "gpt2", "layer_norm_epsilon": 1e-5, "vocab_size": 64, "n_embd": )" +
                                    n(size.width) + R"(, "n_positions": 256, "n_head": 2, "n_layer": )" +
                                    n(size.num_blocks) + R"(, "activation_function": "gelu_new"})");
    more.insert(more.end(), {"--model=" + folder.path(), "--seq-len=" + n(size.seq), "--batch-size=" + n(size.batch),
                             "--grad-accum=" + n(size.micro_batches)});
    const CompiledJob job(more, 1);
    moved_ = moved_in(job.step(0));
    for (const PlaceUse& place : places_of(job.of(0)))
      places_[place.memory] = place.report;
    for (const Home& home : job.step(0).homes)
      num_trained_ += home.num_elements;
    for (const Action& action : job.step(0).actions) {
      const std::string& stream = job.step(0).streams[action.stream].name;
      if (stream == "fetch" || stream == "evict")
        copied_[stream] += TSR_NUM_BYTES(dtype_of(job.step(0), action), action.bindings[0].num_elements);
    }
  }

  uint64_t copied(const char* stream) const {
    const auto found = copied_.find(stream);
    return found == copied_.end() ? 0 : found->second;
  }
  const Moved& moved() const { return moved_; }
  /// Of values and what ops saved, at their own peaks.
  uint64_t most_activations() const {
    const BytesByClass& most = places_.at(TSR_MEMORY_DEVICE).most;
    return most[MemoryClass::activations] + most[MemoryClass::saved];
  }
  uint64_t most_fetched() const { return places_.at(TSR_MEMORY_DEVICE).most[MemoryClass::fetched]; }
  uint64_t most_on_host() const {
    const auto found = places_.find(TSR_MEMORY_HOST);
    return found == places_.end() ? 0 : offloaded_bytes(found->second);
  }
  uint64_t num_trained() const { return num_trained_; }
  /// Of one class, between steps.
  uint64_t rests(uint32_t memory, MemoryClass what) const {
    const auto found = places_.find(memory);
    return found == places_.end() ? 0 : found->second.states[what];
  }
  uint64_t states() const { return places_.at(TSR_MEMORY_DEVICE).states.total(); }
  uint64_t peak() const { return places_.at(TSR_MEMORY_DEVICE).peak.total(); }

 private:
  static tsr_dtype dtype_of(const Program& program, const Action& action) {
    return program.buffer(action.bindings[0].buffer).dtype;
  }

  Moved moved_;
  uint64_t num_trained_ = 0;
  std::map<uint32_t, MemoryReport> places_;
  std::map<std::string, uint64_t> copied_;  // by stream
};

std::vector<std::string> activations(int ahead, int linger, const std::string& fraction = "1") {
  return {"--offload=activations", "--activations.min-bytes=0", "--activations.fraction=" + fraction,
          "--activations.ahead=" + std::to_string(ahead), "--activations.linger=" + std::to_string(linger)};
}

class Activations : public ::testing::TestWithParam<Size> {
 protected:
  static Size longer() {
    Size size = GetParam();
    ++size.num_blocks;
    return size;
  }
  static uint64_t num_tokens() {
    return static_cast<uint64_t>(GetParam().batch) * static_cast<uint64_t>(GetParam().seq);
  }
  /// Of a value of the model's width.
  static uint64_t value_bytes() { return num_tokens() * static_cast<uint64_t>(GetParam().width) * sizeof(float); }
};

TEST_P(Activations, TakeTheMemoryOfAFewBlocksAndMoveOnce) {
  const Size size = GetParam();
  const auto blocks = static_cast<uint64_t>(size.num_blocks), times = static_cast<uint64_t>(size.micro_batches);
  for (const auto& [ahead, linger] : {std::pair(0, 0), {1, 0}, {0, 1}, {1, 1}}) {
    SCOPED_TRACE("ahead " + std::to_string(ahead) + ", linger " + std::to_string(linger));
    const auto k = static_cast<uint64_t>(ahead), l = static_cast<uint64_t>(linger);
    const Plan plan(size, activations(ahead, linger)), next(longer(), activations(ahead, linger));
    const uint64_t a = next.most_on_host() - plan.most_on_host();
    EXPECT_GT(a, 12 * value_bytes());
    const uint64_t leaves = a * blocks + (k + l == 0 ? value_bytes() + 2 * num_tokens() * sizeof(float) : 0);
    EXPECT_EQ(plan.most_on_host(), leaves);
    EXPECT_EQ(plan.most_fetched(), a * (1 + k));
    EXPECT_EQ(plan.most_activations(), a * (1 + l) + 2 * value_bytes());
    const MovedBytes& forward = plan.moved().of(MovePhase::forward);
    const MovedBytes& backward = plan.moved().of(MovePhase::backward);
    const MovedBytes& update = plan.moved().of(MovePhase::update);
    EXPECT_EQ(forward.out_bytes, leaves * times);
    EXPECT_EQ(backward.in_bytes, leaves * times);
    EXPECT_EQ(forward.in_bytes + backward.out_bytes, 0u);
    EXPECT_EQ(plan.copied("evict"), leaves * times);
    EXPECT_EQ(plan.copied("fetch"), leaves * times);
    EXPECT_EQ(update.in_bytes + update.out_bytes, 0u);
    const uint64_t of_states = next.states() - plan.states();  // 12 bytes a parameter of a block
    EXPECT_LE(next.peak() - plan.peak(), of_states + of_states / 3);
  }
}

TEST_P(Activations, StayWithoutAPolicyAndThePeakGrowsByThem) {
  const Plan plan(GetParam(), {}), next(longer(), {});
  EXPECT_EQ(plan.moved().total().in_bytes + plan.moved().total().out_bytes, 0u);
  EXPECT_EQ(plan.most_fetched() + plan.most_on_host(), 0u);
  const uint64_t a = next.most_activations() - plan.most_activations();
  EXPECT_EQ(a, Plan(longer(), activations(1, 1)).most_on_host() - Plan(GetParam(), activations(1, 1)).most_on_host());
  // At the peak a block has its gradient or what it saved, whichever is more; both where gradients are added up over
  // micro-batches.
  const uint64_t of_states = next.states() - plan.states(), gradient = of_states / 3;
  EXPECT_EQ(next.peak() - plan.peak(),
            of_states + (GetParam().micro_batches > 1 ? gradient + a : std::max(gradient, a)));
}

TEST_P(Activations, AFractionLeavesWithinOneTensorOfIt) {
  const uint64_t all = Plan(GetParam(), activations(1, 1)).moved().total().out_bytes;
  const uint64_t largest = 4 * value_bytes();
  for (const double fraction : {0.0, 0.1, 0.3, 0.5, 0.9, 1.0}) {
    const double wanted = fraction * static_cast<double>(all);
    const Plan plan(GetParam(), activations(1, 1, std::to_string(fraction)));
    EXPECT_NEAR(static_cast<double>(plan.moved().total().out_bytes), wanted, static_cast<double>(largest)) << fraction;
  }
}

TEST_P(Activations, OfBlocksThatAreComputedAgainAreTheirInputs) {
  std::vector<std::string> flags = activations(1, 1);
  flags.push_back("--recompute=full");
  EXPECT_EQ(Plan(longer(), flags).most_on_host() - Plan(GetParam(), flags).most_on_host(), value_bytes());
}

struct Chunks {
  const char* size;
  uint64_t num_bytes;
};

TEST(OptimizerState, RestsElsewhereAndVisitsTheDeviceInChunks) {
  const Size size{4, 96, 64};
  const Plan none(size, {});
  const uint64_t state = none.rests(TSR_MEMORY_DEVICE, MemoryClass::optimizer);
  EXPECT_GE(state, 8 * none.num_trained());
  for (const Chunks& chunk : {Chunks{"4KiB", 4 << 10}, {"32KiB", 32 << 10}, {"16MiB", 16 << 20}})
    for (const auto& [ahead, linger] : {std::pair(0, 0), {2, 1}, {1, 3}})
      for (const char* states : {"all", "m"}) {
        SCOPED_TRACE(std::string(chunk.size) + " " + states + ", ahead " + std::to_string(ahead));
        const Plan plan(size, {"--offload=optimizer-state", std::string("--offload-chunk=") + chunk.size,
                               std::string("--optimizer-state.states=") + states,
                               "--optimizer-state.ahead=" + std::to_string(ahead),
                               "--optimizer-state.linger=" + std::to_string(linger)});
        const uint64_t parts = states == std::string("all") ? 2 : 1;  // of two
        EXPECT_EQ(plan.rests(TSR_MEMORY_HOST, MemoryClass::optimizer), state * parts / 2);
        EXPECT_EQ(plan.rests(TSR_MEMORY_DEVICE, MemoryClass::optimizer), state - state * parts / 2);
        const MovedBytes& update = plan.moved().of(MovePhase::update);
        EXPECT_EQ(update.in_bytes, update.out_bytes);
        EXPECT_GE(update.in_bytes, 4 * parts * none.num_trained());
        EXPECT_LE(update.in_bytes, state * parts / 2);  // with what lies between parameters
        EXPECT_EQ(plan.copied("fetch"), update.in_bytes);
        EXPECT_EQ(plan.copied("evict"), update.out_bytes);
        // A block has 447,360 bytes of values: enough for so many chunks of the smaller sizes. Within one buffer a
        // chunk lingers no longer than until the next one's fetch.
        const uint64_t both = chunk.num_bytes * parts;
        EXPECT_LE(plan.most_fetched(), both * static_cast<uint64_t>(1 + ahead + linger));
        if (chunk.num_bytes <= 32 << 10) {
          EXPECT_GE(plan.most_fetched(), both * static_cast<uint64_t>(1 + ahead));
        }
      }
}

/// What one block more moves in a step, an element of it.
class MovedOfABlock {
 public:
  MovedOfABlock(const Size& size, const std::vector<std::string>& flags) {
    Size longer = size;
    ++longer.num_blocks;
    const Plan plan(size, flags), next(longer, flags), plain(size, {}), longer_plain(longer, {});
    num_trained_ = longer_plain.num_trained() - plain.num_trained();
    num_padded_ = (longer_plain.states() - plain.states()) / 12;
    in_bytes_ = next.moved().total().in_bytes - plan.moved().total().in_bytes;
    out_bytes_ = next.moved().total().out_bytes - plan.moved().total().out_bytes;
  }
  /// A copy takes what is between parameters along, or leaves it, and a backward does not read all biases: within 1 %.
  void expect(uint64_t in, uint64_t out) const {
    EXPECT_GE(100 * in_bytes_, 99 * in * num_trained_);
    EXPECT_LE(in_bytes_, in * num_padded_);
    EXPECT_GE(out_bytes_, out * num_trained_);
    EXPECT_LE(out_bytes_, out * num_padded_);
    EXPECT_LT(100 * num_padded_, 101 * num_trained_) << "so that 4 bytes show";
  }

 private:
  uint64_t num_trained_, num_padded_, in_bytes_, out_bytes_;
};

TEST(Stream, MovesABlockByTheFormula) {
  for (const char* chunk : {"16MiB", "32KiB"})
    for (const uint64_t times : {1u, 2u, 4u}) {
      SCOPED_TRACE(std::string(chunk) + ", micro-batches: " + std::to_string(times));
      const Size size{6, 96, 64, 1, static_cast<int>(times)};
      const std::string chunks = std::string("--offload-chunk=") + chunk;
      MovedOfABlock(size, {"--offload=stream", chunks}).expect(24 + 12 * (times - 1), 16 + 4 * (times - 1));
      MovedOfABlock(size, {"--offload=stream", chunks, "--stream.gradients=false"}).expect(20 + 8 * (times - 1), 12);
    }
}

// Gradients of the last blocks stay: their updates come soon enough.
TEST(OptimizerState, TakesGradientsAlongByTheFormula) {
  for (const uint64_t times : {1u, 2u, 4u}) {
    SCOPED_TRACE("micro-batches: " + std::to_string(times));
    const Size size{8, 96, 64, 1, static_cast<int>(times)};
    MovedOfABlock(size, {"--offload=optimizer-state"}).expect(8, 8);
    MovedOfABlock(size, {"--offload=optimizer-state", "--optimizer-state.gradients"})
        .expect(12 + 4 * (times - 1), 8 + 4 * times);
  }
}

// What the host updates comes to the device as values only, and leaves it as gradients; a sum of squares and three
// scalars besides, which are of the step and not of a block.
TEST(UpdateOnTheHost, MovesByTheFormula) {
  for (const uint64_t times : {1u, 2u, 4u}) {
    SCOPED_TRACE("micro-batches: " + std::to_string(times));
    const Size size{8, 96, 64, 1, static_cast<int>(times)};
    const std::string state = "--offload=optimizer-state", on_host = "--optimizer-state.update=host";
    MovedOfABlock(size, {state, on_host}).expect(4, 4);
    MovedOfABlock(size, {state, on_host, "--optimizer-state.gradients"}).expect(4 + 4 * (times - 1), 4 * times);
    MovedOfABlock(size, {"--offload=stream", "--stream.update=host"}).expect(8 * times + 4 * (times - 1), 4 * times);
  }
}

TEST(UpdateOnTheHost, LeavesNothingOnTheDeviceBetweenSteps) {
  const Size size{4, 96, 64};
  const Plan none(size, {});
  for (const std::string policy : {"optimizer-state", "stream"}) {
    const Plan plan(size, {"--offload=" + policy, "--" + policy + ".update=host"});
    EXPECT_EQ(plan.rests(TSR_MEMORY_HOST, MemoryClass::optimizer),
              none.rests(TSR_MEMORY_DEVICE, MemoryClass::optimizer));
    EXPECT_EQ(plan.rests(TSR_MEMORY_HOST, MemoryClass::parameters),
              none.rests(TSR_MEMORY_DEVICE, MemoryClass::parameters));
    EXPECT_EQ(plan.rests(TSR_MEMORY_DEVICE, MemoryClass::optimizer), 0u);
    EXPECT_EQ(plan.rests(TSR_MEMORY_DEVICE, MemoryClass::parameters), 0u);
    EXPECT_GE(plan.most_on_host(), 16 * none.num_trained()) << "with gradients, within the step";
    EXPECT_LE(plan.most_on_host(), none.states() / 12 * 16 + 5 * 256) << "and five scalars";
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, Activations, ::testing::ValuesIn(sizes()),
                         [](const auto& test) { return "size_" + std::to_string(test.index); });

}  // namespace
}  // namespace tessera::testing
