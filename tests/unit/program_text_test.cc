#include "program/program_text.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <iostream>
#include <map>
#include <random>

#include "passes/dependencies.h"
#include "support/expect_error.h"
#include "support/program_builder.h"
#include "support/program_parser/parse_program.h"

namespace tessera::testing {
using namespace host;
namespace {

class ProgramText : public ::testing::Test {
 protected:
  Mesh mesh_{{{"pp", 4, TSR_SPLITS_LAYERS}, {"dp", 2, TSR_SPLITS_BATCH}}};
  Model model_ = toy_model();

  Program parse(std::string_view text) const { return parse_program(text, model_, mesh_); }

  // fsdp's gather of a block, its use, and the update.
  Program small() const {
    Program p = empty_program(model_, mesh_, {3, 1});
    const uint32_t gather = p.comm_stream(1, "gather");
    const int group = p.group({1, {}});
    const uint64_t x = transient(p, "x.0 mb=0", 128), y = transient(p, "x.1 mb=0", 128);
    const uint64_t home = persistent(p, "h.0", 192), gathered = transient(p, "h.0", 384, TSR_BUFFER_GATHERED);
    p.homes.push_back({p.next_id++, "h.0", 1, {}, 192, {}});
    add_action(p, TSR_ACTION_FORWARD, 0, {write(x, TSR_SLOT(TSR_ROLE_OUTPUT, 0))}).segment = 0;
    Action& all_gather = add_action(p, TSR_ACTION_ALL_GATHER, gather, {read(home), write(gathered)});
    all_gather.group = group;
    Action& forward = add_action(p, TSR_ACTION_FORWARD, 0,
                                 {read(gathered, TSR_SLOT(TSR_ROLE_PARAMETER, 0)).at(0, 256),
                                  read(gathered, TSR_SLOT(TSR_ROLE_PARAMETER, 1)).at(256, 16),
                                  read(x, TSR_SLOT(TSR_ROLE_INPUT, 0)), write(y, TSR_SLOT(TSR_ROLE_OUTPUT, 0))});
    forward.segment = 1;
    forward.micro_batch = 0;
    Action& optimizer = add_action(p, TSR_ACTION_OPTIMIZER, 0, {add(home)});
    optimizer.home = p.homes[0].id;
    optimizer.flags = TSR_ACTION_PREDICATED;
    derive_dependencies(p);
    return p;
  }
};

constexpr const char* kSmall = R"(program step  variant 0  coordinates pp=3 dp=1
shape micro_batches=1 reduce_every=step dtype=f32 reduce_dtype=f32 optimizer=adamw beta1=0.9 beta2=0.95 epsilon=1e-08 weight_decay=0 max_norm=0
stream comm.dp.gather
group dp

%1 = home h.0 persistent f32[192]

%2 = activation x.0 mb=0 f32[128]
0     compute         forward wte  w %2 o:x.0
%3 = gathered h.0 f32[384]
1     comm.dp.gather  all_gather group=dp  r %1 src  w %3 dst
%4 = activation x.1 mb=0 f32[128]
2     compute         forward h.0.fc mb=0  r %3+0:256 p:fc.weight  r %3+256:16 p:fc.bias  r %2 i:x.0  w %4 o:x.1  # 1
3     compute         optimizer home=h.0 predicated  a %1 dst
)";

TEST_F(ProgramText, LooksLikeThis) {
  EXPECT_EQ(print_program(small()), kSmall);
}

TEST_F(ProgramText, TheTextOfAClassLeavesOutOnlyTheCoordinates) {
  Program p = small(), other_rank = p, other_step = p, other_wait = p, other_optimizer = p;
  other_rank.coordinates = {0, 0};
  other_step.actions[2].micro_batch = 1;
  other_wait.actions[2].dependencies.clear();
  other_optimizer.step_config.weight_decay = 0.1;
  EXPECT_EQ(print_program(p, false), print_program(other_rank, false));
  EXPECT_NE(print_program(p), print_program(other_rank));
  EXPECT_NE(print_program(p, false), print_program(other_step, false));
  EXPECT_NE(print_program(p, false), print_program(other_wait, false));
  EXPECT_NE(print_program(p, false), print_program(other_optimizer, false));
}

TEST_F(ProgramText, IdsDoNotShow) {
  const Program p = small();
  Program renumbered = p;
  const auto add_1000 = [](uint64_t& id) { id += id ? 1000 : 0; };
  for (Buffer& buffer : renumbered.buffers)
    add_1000(buffer.id);
  for (Home& home : renumbered.homes)
    add_1000(home.id);
  for (Action& action : renumbered.actions) {
    add_1000(action.id);
    add_1000(action.home);
    for (Binding& binding : action.bindings)
      add_1000(binding.buffer);
  }
  EXPECT_EQ(print_program(renumbered), print_program(p));
}

TEST_F(ProgramText, ANameThatLooksLikeAMarkIsQuoted) {
  Program p = small();
  p.buffers[0].name = "sums";
  p.buffers[0].state = {1, TSR_ON_CHANGE_KEEP};
  Program named = small();
  named.buffers[0].name = "sums state=1:keep";
  EXPECT_NE(print_program(p), print_program(named));
  EXPECT_EQ(print_program(parse(print_program(p))), print_program(p));
  EXPECT_EQ(print_program(parse(print_program(named))), print_program(named));
}

std::string random_name(std::mt19937& random) {
  constexpr std::string_view kNames[] = {"h.0",
                                         "x mb=1",
                                         "",
                                         "host",
                                         "a \"quoted\" one",
                                         "two\nlines",
                                         "back\\slash",
                                         "  ",
                                         "f32[3]",
                                         "h.0 persistent",
                                         "%3",
                                         "#",
                                         "\t",
                                         "x=",
                                         "name",
                                         "=",
                                         "w"};
  return std::string(kNames[random() % std::size(kNames)]);
}

// Nonsense to run, with every attribute, slot and kind somewhere.
Program random_program(const Model& model, const Mesh& mesh, uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](uint64_t n) { return static_cast<uint32_t>(random() % n); };
  Program p = empty_program(model, mesh, {static_cast<int>(below(4)), static_cast<int>(below(2))});
  p.purpose = 1 + below(3);
  p.variant = below(3);
  p.step_config = {
      1 + below(4), 1 + below(2), below(2) ? TSR_F32 : TSR_BF16, TSR_F16, TSR_OP_SGD, 0.1, 1.0 / 3, 1e-300, 0.1, 1, {}};
  for (const char* lane : {"gather", "a lane", "x.y"})
    if (below(2)) p.comm_stream(static_cast<int>(below(3)) - 1, lane);
  for (const Group& group : {Group{}, Group{0, {}}, Group{0, {0, 3}}, Group{1, {1}}})
    if (below(2)) p.group(group);
  for (int i = 0; i < 3; ++i)
    p.homes.push_back({p.next_id++, "home " + std::to_string(i), 0, {}, 0, {}});
  constexpr tsr_dtype kDtypes[] = {TSR_I8,  TSR_I32, TSR_I64, TSR_U8,  TSR_U16,
                                   TSR_U32, TSR_F16, TSR_F32, TSR_F64, TSR_BF16};
  for (uint32_t i = 0, n = 1 + below(12); i < n; ++i)
    p.add_buffer({0, random_name(random), 1 + below(12), 1 + below(2), kDtypes[below(10)], below(3) == 0, below(100),
                  below(3) == 0 ? static_cast<int>(below(20)) : -1});
  constexpr uint32_t kKinds[] = {1,  2,  3,  4,  5,  6,  17, 18, 19, 20, 21, 22, 23,
                                 24, 25, 26, 32, 33, 34, 35, 36, 48, 49, 50, 64};
  for (uint32_t i = 0, n = below(30); i < n; ++i) {
    std::vector<Use> uses;
    for (uint32_t k = 0, m = below(5); k < m; ++k) {
      const Buffer& buffer = p.buffers[below(p.buffers.size())];
      const uint64_t offset = below(buffer.num_elements + 1), length = below(buffer.num_elements - offset + 1);
      const Use use{buffer.id, 1 + below(3), TSR_SLOT(1 + below(13), below(4) ? below(3) : below(65536))};
      uses.push_back(below(2) ? use : use.at(offset, length));
    }
    Action& action = add_action(p, kKinds[below(std::size(kKinds))], below(p.streams.size()), uses);
    if (below(2)) action.segment = static_cast<int>(below(model.segments.size()));
    if (below(2)) action.micro_batch = static_cast<int>(below(9));
    if (below(2) && !p.groups.empty()) action.group = static_cast<int>(below(p.groups.size()));
    if (below(3) == 0) action.peer = static_cast<int>(below(4));
    if (below(3) == 0) action.reduce = 1 + below(4);
    if (below(3) == 0) action.tag = (uint64_t{random()} << 32) + random();
    if (below(3) == 0) action.home = p.homes[below(3)].id;
    if (below(3) == 0)
      action.scale = std::ldexp(static_cast<double>(random()) + 0.1, static_cast<int>(below(400)) - 200);
    if (below(3) == 0) action.strategy = static_cast<int>(below(2));
    if (below(3) == 0) action.code = static_cast<uint32_t>(below(3));
    if (below(3) == 0) action.flags = TSR_ACTION_PREDICATED;
    for (uint32_t k = below(3); k > 0; --k)
      action.counts.push_back(uint64_t{random()} << below(32));
    for (uint32_t k = below(3); k > 0; --k)
      action.peers.push_back(static_cast<int>(below(4)));
  }
  derive_dependencies(p);
  return p;
}

// All that the text promises to keep; buffers are matched by where they are bound.
void expect_equal(const Program& p, const Program& q) {
  EXPECT_EQ(p.purpose, q.purpose);
  EXPECT_EQ(p.variant, q.variant);
  EXPECT_EQ(p.coordinates, q.coordinates);
  EXPECT_EQ(std::tie(p.step_config.num_micro_batches, p.step_config.reduce_every, p.step_config.dtype,
                     p.step_config.reduce_dtype, p.step_config.beta1),
            std::tie(q.step_config.num_micro_batches, q.step_config.reduce_every, q.step_config.dtype,
                     q.step_config.reduce_dtype, q.step_config.beta1));
  EXPECT_EQ(std::tie(p.step_config.optimizer, p.step_config.beta2, p.step_config.epsilon, p.step_config.weight_decay,
                     p.step_config.max_norm),
            std::tie(q.step_config.optimizer, q.step_config.beta2, q.step_config.epsilon, q.step_config.weight_decay,
                     q.step_config.max_norm));
  EXPECT_EQ(p.groups, q.groups);
  ASSERT_EQ(p.streams.size(), q.streams.size());
  for (size_t i = 0; i < p.streams.size(); ++i) {
    EXPECT_EQ(p.streams[i].name, q.streams[i].name);
    EXPECT_EQ(p.streams[i].axis, q.streams[i].axis);
  }
  EXPECT_EQ(p.buffers.size(), q.buffers.size());
  ASSERT_EQ(p.actions.size(), q.actions.size());
  std::map<uint64_t, uint64_t> same;
  for (size_t i = 0; i < p.actions.size(); ++i) {
    const Action &a = p.actions[i], &b = q.actions[i];
    EXPECT_EQ(std::tie(a.kind, a.stream, a.segment, a.micro_batch, a.group, a.peer, a.reduce, a.flags),
              std::tie(b.kind, b.stream, b.segment, b.micro_batch, b.group, b.peer, b.reduce, b.flags));
    EXPECT_EQ(std::tie(a.tag, a.scale, a.strategy, a.code, a.counts, a.peers, a.dependencies),
              std::tie(b.tag, b.scale, b.strategy, b.code, b.counts, b.peers, b.dependencies));
    const auto home_name = [](const Program& of, uint64_t id) { return id ? of.home(id).name : ""; };
    EXPECT_EQ(home_name(p, a.home), home_name(q, b.home));
    ASSERT_EQ(a.bindings.size(), b.bindings.size());
    for (size_t k = 0; k < a.bindings.size(); ++k) {
      const Binding &x = a.bindings[k], &y = b.bindings[k];
      EXPECT_EQ(std::tie(x.offset, x.num_elements, x.slot, x.mode), std::tie(y.offset, y.num_elements, y.slot, y.mode));
      const Buffer &u = p.buffer(x.buffer), &v = q.buffer(y.buffer);
      EXPECT_EQ(same.emplace(u.id, v.id).first->second, v.id);
      EXPECT_EQ(std::tie(u.name, u.kind, u.memory, u.dtype, u.persistent, u.num_elements, u.strategy),
                std::tie(v.name, v.kind, v.memory, v.dtype, v.persistent, v.num_elements, v.strategy));
    }
  }
}

TEST_F(ProgramText, RoundTripsOnRandomPrograms) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const Program p = random_program(model_, mesh_, seed);
    const std::string text = print_program(p);
    const Program q = parse(text);
    expect_equal(p, q);
    ASSERT_EQ(print_program(q), text) << "seed " << seed;
    ASSERT_EQ(print_program(q, false), print_program(p, false));
    if (HasFailure()) FAIL() << "seed " << seed << "\n" << text;
  }
}

TEST_F(ProgramText, SlotNamesAreShortAndGiveWayToIndicesWhereTheyWouldBeUnclear) {
  Model model = toy_model();
  model.parameters[2].name = "fc.weight";  // "h.0.fc.weight" without its unit is the same
  model.values[2].name = "h.0.mid";
  model.values[3].name = "7";
  Program p = empty_program(model, mesh_);
  const uint64_t w = transient(p, "w", 4);
  add_action(p, TSR_ACTION_FORWARD, 0,
             {write(w, TSR_SLOT(TSR_ROLE_PARAMETER, 0)), read(w, TSR_SLOT(TSR_ROLE_PARAMETER, 1)),
              read(w, TSR_SLOT(TSR_ROLE_OUTPUT, 0)), read(w, TSR_SLOT(TSR_ROLE_INPUT_GRADIENT, 0))})
      .segment = 1;
  const std::string text = print_program(p);
  EXPECT_NE(text.find("w %1 p:0  r %1 p:1  r %1 o:0  r %1 di:mid\n"), std::string::npos) << text;
  EXPECT_EQ(print_program(parse_program(text, model, mesh_)), text);
}

TEST_F(ProgramText, AOneRankProgramHasNoCoordinates) {
  const Mesh one;
  const Program p = empty_program(model_, one);
  const std::string text = print_program(p);
  EXPECT_EQ(text.substr(0, text.find('\n')), "program step  variant 0");
  EXPECT_EQ(print_program(parse_program(text, model_, one)), text);
}

// Replaces the first `what` of the small program's text.
std::string corrupted(const std::string& what, const std::string& with) {
  std::string text = kSmall;
  const size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), with);
}

TEST_F(ProgramText, EveryCorruptionIsAnErrorWithItsLine) {
  const struct {
    const char *what, *with, *line, *says;
  } kCases[] = {
      {"program step", "programm step", "line 1", "'programm'"},
      {"step  variant", "stepp  variant", "line 1", "init, step, eval"},
      {"variant 0", "variant", "line 1", "'coordinates' is not a valid variant"},
      {"variant 0", "variant -1", "line 1", "'-1'"},
      {"pp=3", "pp=4", "line 1", "axis pp of 4"},
      {"pp=3", "tp=3", "line 1", "'pp'"},
      {"dp=1", "dp=1 tp=0", "line 1", "'tp=0'"},
      {"micro_batches=1", "micro_batches=x", "line 2", "'x'"},
      {"optimizer=adamw", "optimizer=adam", "line 2", "adamw, sgd"},
      {"dtype=f32", "dtype=f31", "line 2", "'f31'"},
      {"beta1=0.9", "beta1=0.9.1", "line 2", "'0.9.1'"},
      {" max_norm=0", "", "line 2", "'max_norm'"},
      {"shape", "program", "line 2", "second program"},
      {"comm.dp.gather\n", "comm.tp.gather\n", "line 3", "'comm.tp.gather'"},
      {"stream comm.dp.gather\n", "stream compute\n", "line 3", "twice"},
      {"group dp\n", "group tp\n", "line 4", "no axis tp"},
      {"group dp\n", "group dp{0,2}\n", "line 4", "coordinate 2"},
      {"group dp\n", "group pp{3,0}\n", "line 4", "ascend"},
      {"group dp\n", "group dp{0\n", "line 4", "'}' is missing"},
      {"group dp\n", "group world\n", "line 11", "'dp' is not a group"},
      {"= home", "home", "line 6", "'='"},
      {"= home", "= house", "line 6", "'house'"},
      {"h.0 persistent", "h.0 h[ persistent", "line 6", "'h['"},
      {"h.0 persistent", "\"h.0 persistent", "line 6", "quotes"},
      {"f32[192]", "f32[192", "line 6", "'f32[192'"},
      {"f32[192]", "f32[-192]", "line 6", "'-192'"},
      {"f32[192]", "f32[18446744073709551616]", "line 6", "'18446744073709551616'"},
      {"f32[192]", "f32[]", "line 6", "number of elements"},
      {"f32[192]", "", "line 6", "type"},
      {"%2 =", "%1 =", "line 8", "%1 is declared already"},
      {"0     compute", "1     compute", "line 9", "action 0 was expected"},
      {"0     compute", "compute", "line 9", "'compute'"},
      {"compute ", "computer ", "line 9", "'computer'"},
      {"forward wte", "forwards wte", "line 9", "'forwards'"},
      {"forward wte", "forward wpe", "line 9", "'wpe'"},
      {"o:x.0", "o:x.1", "line 9", "expected o:x.0"},
      {"o:x.0", "q:x.0", "line 9", "'q:x.0'"},
      {"o:x.0", "o:65536", "line 9", "'o:65536'"},
      {"o:x.0", "", "line 9", "a slot"},
      {"w %2", "w %5", "line 9", "'%5'"},
      {"w %2", "x %2", "line 9", "'x' is not a segment"},
      {"r %1 src", "r %1", "line 11", "'w' is not a slot"},
      {"r %1 src", "r %1+0 src", "line 11", "number of elements"},
      {"r %3+0:256", "r %3+300:256", "line 13", "outside"},
      {"r %3+0:256", "r %3+1:18446744073709551615", "line 13", "outside"},
      {"mb=0  r", "mb=-1  r", "line 13", "'-1'"},
      {"mb=0  r", "root=0  r", "line 13", "'root' is not an attribute of forward"},
      {"mb=0  r", "mb=0 reduce=summ  r", "line 13", "sum, avg, min, max"},
      {"# 1", "# 2", "line 13", "action 2"},
      {"# 1", "#1", "line 13", "'#1'"},
      {"# 1", "# 1 x", "line 13", "'x'"},
      {"predicated", "predicate", "line 14", "'predicate'"},
      {"home=h.0 ", "home=\"h.0 ", "line 14", "quotes"},
  };
  for (const auto& one : kCases) {
    SCOPED_TRACE(std::string(one.what) + " -> " + one.with);
    expect_error([&] { parse(corrupted(one.what, one.with)); }, {one.line, one.says});
  }
  expect_error([&] { parse(""); }, {"'program' line"});
  expect_error([&] { parse("program step  variant 0  coordinates pp=0 dp=0\n"); }, {"'shape' line"});
}

// Whatever a byte is changed to, the answer is a program or an error.
TEST_F(ProgramText, NoChangeOfAByteCrashesTheParser) {
  std::mt19937 random(1);
  size_t num_errors = 0, num_programs = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = kSmall;
    for (uint32_t k = 1 + random() % 3; k > 0; --k) {
      const size_t at = random() % text.size();
      const char with = random() % 2 ? text[random() % text.size()] : static_cast<char>(random());
      if (random() % 3 == 0)
        text.erase(at, random() % 9);
      else
        text[at] = with;
    }
    try {
      parse(text);
      ++num_programs;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), TSR_E_INVALID_ARGUMENT);
      ++num_errors;
    }
  }
  EXPECT_GT(num_errors, 1000u);
  EXPECT_GT(num_programs, 100u);
}

TEST_F(ProgramText, WhatTheTextCannotSayIsAnError) {
  Program p = small();
  p.actions[0].flags = 6;
  expect_error([&] { print_program(p); }, {"flags", "6"});
  p = small();
  p.actions[0].bindings[0].slot = 3;
  expect_error([&] { print_program(p); }, {"slot 3"});
  p = small();
  p.actions[0].bindings[0].mode = 4;
  expect_error([&] { print_program(p); }, {"mode 4"});
  p = small();
  p.actions[1].reduce = 9;
  expect_error([&] { print_program(p); }, {"reduction 9"});
  p = small();
  p.buffers[0].memory = 7;
  expect_error([&] { print_program(p); }, {"memory 7"});
}

TEST_F(ProgramText, ALongProgramTakesASecond) {
  Program p = empty_program(model_, mesh_);
  std::vector<uint64_t> values;
  for (int i = 0; i < 40000; ++i) {
    values.push_back(transient(p, "h.0.x mb=3", 128));
    const uint64_t before = values[values.size() > 1 ? values.size() - 2 : 0];
    Action& action = add_action(
        p, TSR_ACTION_BACKWARD, 0,
        {write(values.back(), TSR_SLOT(TSR_ROLE_OUTPUT, 0)), read(before, TSR_SLOT(TSR_ROLE_PARAMETER, 0)).at(0, 64),
         read(before, TSR_SLOT(TSR_ROLE_PARAMETER, 1)).at(64, 64), read(before, TSR_SLOT(TSR_ROLE_INPUT, 0)),
         read(before, TSR_SLOT(TSR_ROLE_SAVED, 0))});
    action.segment = 1;
    action.micro_batch = i % 64;
  }
  const auto start = std::chrono::steady_clock::now();
  const std::string text = print_program(p);
  const auto printed = std::chrono::steady_clock::now();
  const Program q = parse(text);
  const auto parsed = std::chrono::steady_clock::now();
  const auto seconds = [](auto from, auto to) { return std::chrono::duration<double>(to - from).count(); };
  std::cout << "40000 actions, " << text.size() / 1024 << " KiB: printed in " << seconds(start, printed)
            << " s, parsed in " << seconds(printed, parsed) << " s\n";
  EXPECT_EQ(print_program(p, false), print_program(q, false));
}

}  // namespace
}  // namespace tessera::testing
