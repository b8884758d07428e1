// Prints a program in the format of program_text.h. The text is what ranks compare (by hash), what the golden files
// hold and what --print-program shows. So it leaves out what may differ between equal ranks (coordinates on request,
// ids, pieces of homes) and holds everything else: buffers are numbered by appearance, doubles are printed so that they
// read back to the same bits.

#include "program/program_text.h"

#include <algorithm>

#include "program/text_words.h"

namespace tessera::host {
namespace {

using std::to_string;

template <class... Parts>
void append(std::string& text, const Parts&... parts) {
  (text.append(std::string_view(parts)), ...);
}

template <class Number>
std::string list_word(const std::vector<Number>& numbers) {
  std::string text;
  for (const Number number : numbers)
    append(text, text.empty() ? "" : ",", to_string(number));
  return text;
}

// "dp", "world", or "pp{0,2}" for single coordinates of an axis.
std::string group_word(const Program& program, const Group& group) {
  if (group.axis == TSR_WORLD_AXIS) return "world";
  std::string text = program.mesh->axes()[group.axis].name;
  if (!group.coordinates.empty()) append(text, "{", list_word(group.coordinates), "}");
  return text;
}

std::string padded(std::string text, size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

class Printer {
 public:
  explicit Printer(const Program& program) : program_(program), slots_(*program.model) {
    for (const Stream& stream : program.streams)
      stream_width_ = std::max(stream_width_, stream.name.size());
    numbers_.resize(program.buffers.size(), 0);
  }

  // Buffers that nothing binds are declared at the end: without them, unequal programs could have equal texts.
  std::string print(bool with_coordinates) {
    header(with_coordinates);
    add("\n");
    for (const Buffer& buffer : program_.buffers)
      if (buffer.persistent) declare(buffer);
    add("\n");
    for (size_t i = 0; i < program_.actions.size(); ++i)
      action(i);
    for (const Buffer& buffer : program_.buffers)
      declare(buffer);
    return std::move(text_);
  }

 private:
  template <class... Parts>
  void add(const Parts&... parts) {
    append(text_, parts...);
  }
  void attribute(std::string_view key, std::string_view value) { add(" ", key, "=", value); }
  const std::string& axis_name(int axis) const { return program_.mesh->axes()[axis].name; }

  void header(bool with_coordinates) {
    const size_t num_axes = program_.mesh->axes().size();
    add("program ", text_of(kPurposeNames, program_.purpose, "purpose"), "  variant ", to_string(program_.variant));
    if (with_coordinates && num_axes > 0) add("  coordinates");
    for (size_t i = 0; with_coordinates && i < num_axes; ++i)
      attribute(axis_name(static_cast<int>(i)), to_string(program_.coordinates.at(i)));
    add("\n");
    shape();
    // Every program has the first three.
    for (size_t i = TSR_STREAM_COPY_OUT + 1; i < program_.streams.size(); ++i)
      add("stream ", quoted_unless_plain(program_.streams[i].name), "\n");
    for (const Group& group : program_.groups)
      add("group ", group_word(program_, group), "\n");
  }

  void shape() {
    const StepConfig& s = program_.step_config;
    add("shape");
    attribute("micro_batches", to_string(s.num_micro_batches));
    attribute("reduce_every", text_of(kReduceEveryNames, s.reduce_every, "reduction point"));
    attribute("dtype", dtype_name(s.dtype));
    attribute("reduce_dtype", dtype_name(s.reduce_dtype));
    attribute("optimizer", text_of(kOptimizerNames, s.optimizer, "optimizer"));
    attribute("beta1", number_text(s.beta1));
    attribute("beta2", number_text(s.beta2));
    attribute("epsilon", number_text(s.epsilon));
    attribute("weight_decay", number_text(s.weight_decay));
    attribute("max_norm", number_text(s.max_norm));
    add("\n");
  }

  // Numbers a buffer on its first appearance: an id depends on which passes ran before.
  void declare(const Buffer& buffer) {
    uint64_t& number = numbers_[&buffer - program_.buffers.data()];
    if (number) return;
    number = ++num_declared_;
    if (buffer.memory < TSR_MEMORY_DEVICE || buffer.memory > TSR_MEMORY_FILE)
      throw Error(TSR_E_INVALID_ARGUMENT,
                  "buffer " + buffer.name + " is in memory " + to_string(buffer.memory) + ", which does not exist");
    add("%", to_string(number), " = ", buffer_kind_name(buffer.kind), " ",
        is_plain_buffer_name(buffer.name) ? buffer.name : quote(buffer.name));
    if (buffer.strategy >= 0) attribute("strategy", to_string(buffer.strategy));
    if (buffer.state != StateDescription())
      add(" ", kStateOfBuffer, to_string(buffer.state.version), ":",
          text_of(kOnChangeNames, buffer.state.on_change, "what becomes of state"));
    if (buffer.persistent) add(" ", kPersistentWord);
    if (buffer.memory == TSR_MEMORY_HOST) add(" ", kHostWord);
    if (buffer.memory == TSR_MEMORY_FILE) add(" ", kFileWord);
    add(" ", dtype_name(buffer.dtype), "[", to_string(buffer.num_elements), "]\n");
  }

  void action(size_t index) {
    const Action& action = program_.actions[index];
    for (const Binding& one : action.bindings)
      declare(program_.buffer(one.buffer));
    add(padded(to_string(index), 4), "  ");
    add(padded(quoted_unless_plain(program_.streams.at(action.stream).name), stream_width_), "  ");
    add(action_name(action.kind));
    attributes(action);
    for (const Binding& one : action.bindings)
      binding(action, one);
    if (!action.dependencies.empty()) add("  #");
    for (const uint32_t earlier : action.dependencies)
      add(" ", to_string(earlier));
    add("\n");
  }

  // An attribute without a value is left out, so a new kind of attribute leaves the texts of other actions as they are.
  void attributes(const Action& action) {
    if (action.segment >= 0) add(" ", segment_word(program_.model->segments.at(action.segment).name));
    if (action.micro_batch >= 0) attribute("mb", to_string(action.micro_batch));
    if (action.group >= 0) attribute("group", group_word(program_, program_.groups.at(action.group)));
    if (action.peer >= 0) attribute(peer_key(action.kind), to_string(action.peer));
    if (action.reduce) attribute("reduce", text_of(kReduceNames, action.reduce, "reduction"));
    if (action.tag) attribute("tag", to_string(action.tag));
    if (action.home) attribute("home", quoted_unless_plain(program_.home(action.home).name));
    if (action.scale != 0) attribute("scale", number_text(action.scale));
    if (action.strategy >= 0) attribute("strategy", to_string(action.strategy));
    if (action.code) attribute("code", to_string(action.code));
    if (!action.counts.empty()) attribute("counts", list_word(action.counts));
    if (!action.peers.empty()) attribute("peers", list_word(action.peers));
    if (action.flags & TSR_ACTION_PREDICATED) add(" ", kPredicatedWord);
    if (action.flags & ~TSR_ACTION_PREDICATED)
      throw Error(TSR_E_INVALID_ARGUMENT, "an action has flags that do not exist: " + to_string(action.flags));
  }

  void binding(const Action& action, const Binding& binding) {
    const Buffer& buffer = program_.buffer(binding.buffer);
    const uint64_t number = numbers_[&buffer - program_.buffers.data()];
    add("  ", text_of(kModeNames, binding.mode, "mode"), " %", to_string(number));
    if (binding.offset != 0 || binding.num_elements != buffer.num_elements)
      add("+", to_string(binding.offset), ":", to_string(binding.num_elements));
    add(" ", slots_.name(action.segment, binding.slot));
  }

  const Program& program_;
  const SlotNames slots_;
  size_t stream_width_ = 0;
  std::vector<uint64_t> numbers_;  // of each buffer; 0: not declared yet
  uint64_t num_declared_ = 0;
  std::string text_;
};

}  // namespace

std::string print_program(const Program& program, bool with_coordinates) {
  return Printer(program).print(with_coordinates);
}

}  // namespace tessera::host
