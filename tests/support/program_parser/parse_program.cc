// A line is recognized by its first word: program, shape, stream, group, %N (a buffer), or the number of an action.
// Errors name the line and what was expected there.

#include "support/program_parser/parse_program.h"

#include <algorithm>
#include <map>

#include "support/program_parser/header_lines.h"
#include "support/program_parser/text_line.h"

namespace tessera::testing {
namespace {

class Parser {
 public:
  Parser(const Model& model, const Mesh& mesh) : slots_(model) {
    program_.model = &model;
    program_.mesh = &mesh;
    for (size_t i = 0; i < model.segments.size(); ++i)
      segments_.emplace(model.segments[i].name, static_cast<int>(i));
  }

  Program parse(std::string_view text) {
    for (size_t number = 1; !text.empty(); ++number) {
      const size_t end = std::min(text.find('\n'), text.size());
      try {
        line(Line(text.substr(0, end)));
      } catch (const Error& error) {
        fail_text("line " + std::to_string(number) + " of the program: " + error.what());
      }
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    if (!has_program_line_) fail_text("the text of a program must begin with a 'program' line");
    if (!has_shape_line_) fail_text("the text of the program has no 'shape' line");
    return std::move(program_);
  }

 private:
  void line(Line words) {
    const std::string_view first = words.peek();
    if (first.empty()) return;
    if (first == "program" || !has_program_line_) {
      if (has_program_line_) fail_text("a second program begins");
      parse_program_line(words, program_);
      has_program_line_ = true;
    } else if (first == "shape") {
      parse_shape_line(words, program_);
      has_shape_line_ = true;
    } else if (first == "stream") {
      parse_stream_line(words, program_);
    } else if (first == "group") {
      parse_group_line(words, program_);
    } else if (first.starts_with('%')) {
      buffer(words);
    } else {
      action(words);
    }
    words.expect_end();
  }

  // %3 = home wte persistent f32[4608]
  void buffer(Line& words) {
    const std::string number(words.take("a buffer"));
    words.take_exactly("=");
    Buffer result;
    result.kind = buffer_kind_from(words.take("a buffer's kind"));
    result.name = buffer_name(words);
    std::string_view word = words.take("the buffer's type");
    if (word.starts_with(kStrategyOfBuffer)) {
      result.strategy = index_from(word.substr(kStrategyOfBuffer.size()), "strategy");
      word = words.take("the buffer's type");
    }
    if (word.starts_with(kStateOfBuffer)) {
      const std::string_view state = word.substr(kStateOfBuffer.size());
      const size_t colon = std::min(state.find(':'), state.size() - 1);
      result.state = {number_from<uint32_t>(state.substr(0, colon), "version of state"),
                      number_of(kOnChangeNames, state.substr(colon + 1), "word for what becomes of state")};
      word = words.take("the buffer's type");
    }
    if (word == kPersistentWord) {
      result.persistent = true;
      word = words.take("the buffer's type");
    }
    if (word == kHostWord) {
      result.memory = TSR_MEMORY_HOST;
      word = words.take("the buffer's type");
    }
    const size_t bracket = word.find('[');
    if (bracket == std::string_view::npos || !word.ends_with(']'))
      fail_text(in_quotes(word) + " is not a type like f32[128]");
    result.dtype = dtype_from(word.substr(0, bracket));
    result.num_elements =
        number_from<uint64_t>(word.substr(bracket + 1, word.size() - bracket - 2), "number of elements");
    if (!buffers_.emplace(number, program_.buffers.size()).second)
      fail_text("buffer " + number + " is declared already");
    program_.add_buffer(std::move(result));
  }

  static std::string buffer_name(Line& words) {
    std::string name(words.take("a buffer's name"));
    if (name.starts_with('"')) return unquoted(name);
    const auto ends_name = [](std::string_view word) {
      return word.empty() || word.starts_with(kStrategyOfBuffer) || word.starts_with(kStateOfBuffer) ||
             word == kPersistentWord || word == kHostWord || word.find('[') != std::string_view::npos;
    };
    while (!ends_name(words.peek()))
      name.append(" ").append(words.take("a name"));
    if (!is_plain_buffer_name(name)) fail_text(in_quotes(name) + " is not a plain name; put it in quotes");
    return name;
  }

  // 42  compute  forward h.0.qkv mb=0  r %12+1536:1769472 p:c_attn.weight  # 41
  void action(Line& words) {
    const std::string_view index = words.take("an action's number");
    if (number_from<size_t>(index, "line of a program") != program_.actions.size())
      fail_text("found action " + std::string(index) + " where action " + std::to_string(program_.actions.size()) +
                " was expected");
    Action result;
    result.id = program_.next_id++;
    result.stream = stream_index(unquoted(words.take("a stream")));
    result.kind = action_kind_from(words.take("a kind of action"));
    const auto is_mode = [](std::string_view word) {
      return std::ranges::find(kModeNames, word, &TextName::text) != std::end(kModeNames);
    };
    while (!words.empty() && !is_mode(words.peek()) && words.peek() != "#")
      attribute(result, words.take("an attribute"));
    while (is_mode(words.peek()))
      binding(result, words);
    if (!words.empty()) dependencies(result, words);
    program_.actions.push_back(std::move(result));
  }

  void attribute(Action& action, std::string_view word) {
    if (word == kPredicatedWord) {
      action.flags |= TSR_ACTION_PREDICATED;
      return;
    }
    if (word.starts_with('"') || word.find('=') == std::string_view::npos) {
      const auto found = segments_.find(unquoted(word));
      if (found == segments_.end()) fail_text(in_quotes(word) + " is not a segment of the model");
      action.segment = found->second;
      return;
    }
    const auto [key, value] = key_and_value(word);
    if (key == "mb")
      action.micro_batch = index_from(value, "micro-batch");
    else if (key == "group")
      action.group = group_index(value);
    else if (key == peer_key(action.kind))
      action.peer = index_from(value, "coordinate");
    else if (key == "reduce")
      action.reduce = number_of(kReduceNames, value, "reduction");
    else if (key == "tag")
      action.tag = number_from<uint64_t>(value, "tag");
    else if (key == "home")
      action.home = home_id(unquoted(value));
    else if (key == "scale")
      action.scale = number_from<double>(value, "scale");
    else if (key == "strategy")
      action.strategy = index_from(value, "strategy");
    else if (key == "code")
      action.code = number_from<uint32_t>(value, "code");
    else if (key == "counts")
      action.counts = numbers_from<uint64_t>(value, "number of elements");
    else if (key == "peers")
      action.peers = numbers_from<int32_t>(value, "coordinate");
    else
      fail_text(in_quotes(key) + " is not an attribute of " + std::string(action_name(action.kind)));
  }

  uint32_t stream_index(const std::string& name) const {
    const auto found = std::ranges::find(program_.streams, name, &Stream::name);
    if (found == program_.streams.end()) fail_text(in_quotes(name) + " is not a stream of this program");
    return static_cast<uint32_t>(found - program_.streams.begin());
  }

  int group_index(std::string_view text) const {
    const auto found = std::ranges::find(program_.groups, group_from(text, *program_.mesh));
    if (found == program_.groups.end()) fail_text(in_quotes(text) + " is not a group of this program");
    return static_cast<int>(found - program_.groups.begin());
  }

  uint64_t home_id(const std::string& name) {
    const auto found = std::ranges::find(program_.homes, name, &Home::name);
    if (found != program_.homes.end()) return found->id;
    Home& home = program_.homes.emplace_back();
    home.id = program_.next_id++;
    home.name = name;
    return home.id;
  }

  void binding(Action& action, Line& words) {
    Binding result{};
    result.mode = number_of(kModeNames, words.take("a mode"), "mode");
    const std::string_view word = words.take("a buffer");
    const size_t plus = word.find('+');
    const auto found = buffers_.find(std::string(word.substr(0, plus)));
    if (found == buffers_.end()) fail_text(in_quotes(word.substr(0, plus)) + " is not declared above");
    const Buffer& buffer = program_.buffers[found->second];
    result.buffer = buffer.id;
    result.num_elements = buffer.num_elements;
    if (plus != std::string_view::npos) {
      const std::string_view range = word.substr(plus + 1);
      const size_t colon = std::min(range.find(':'), range.size());
      result.offset = number_from<uint64_t>(range.substr(0, colon), "offset");
      result.num_elements =
          number_from<uint64_t>(range.substr(std::min(colon + 1, range.size())), "number of elements");
    }
    if (result.offset > buffer.num_elements || result.num_elements > buffer.num_elements - result.offset)
      fail_text(in_quotes(word) + " is outside the buffer's " + std::to_string(buffer.num_elements) + " elements");
    result.slot = slot_from(slots_, action.segment, words.take("a slot"));
    action.bindings.push_back(result);
  }

  void dependencies(Action& action, Line& words) {
    words.take_exactly("#");
    while (!words.empty()) {
      const auto earlier = number_from<uint32_t>(words.take("an action"), "action");
      if (earlier >= program_.actions.size())
        fail_text("action " + std::to_string(earlier) + " cannot be waited for: it is not above this one");
      action.dependencies.push_back(earlier);
    }
  }

  Program program_;
  const SlotNames slots_;
  bool has_program_line_ = false, has_shape_line_ = false;
  std::map<std::string, int> segments_;
  std::map<std::string, size_t> buffers_;  // "%12" -> index
};

}  // namespace

Program parse_program(std::string_view text, const Model& model, const Mesh& mesh) {
  return Parser(model, mesh).parse(text);
}

}  // namespace tessera::testing
