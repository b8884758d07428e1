// Findings as aligned text, and as JSON. A level is shown only where something is amiss, and the remedy below its
// finding, so that a machine without problems is a short list of facts:
//
//     machine
//               cores                  8
//       note    memory of other ranks  kernel.yama.ptrace_scope is 1
//                                      -> Ranks on one machine may have to copy through sockets; set it to 0, or ...
//
// Texts come from plugins, files and other machines, so they are escaped (base/concat.h).

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/concat.h"
#include "base/log.h"
#include "doctor/finding.h"

namespace tessera::host {
namespace {

using Json = nlohmann::ordered_json;

const char* level_name(Finding::Level level) {
  constexpr const char* kNames[] = {"ok", "note", "warning", "failure"};
  return kNames[static_cast<size_t>(level)];
}

std::string padded(std::string text, size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text;
}

}  // namespace

std::string findings_text(const Findings& findings) {
  size_t width = 0;
  for (const Finding& one : findings)
    width = std::max(width, one.name.size());
  std::string text, section;
  for (const Finding& one : findings) {
    if (one.section != section) text += concat(section.empty() ? "" : "\n", one.section, "\n");
    section = one.section;
    const bool is_silent = one.level == Finding::Level::ok;
    text += concat("  ", padded(is_silent ? "" : level_name(one.level), 8), padded(printable(one.name), width), "  ",
                   printable(one.value), "\n");
    if (!one.remedy.empty()) text += concat("  ", std::string(8 + width + 2, ' '), "-> ", printable(one.remedy), "\n");
  }
  return text;
}

std::string findings_json(const Findings& findings, bool works) {
  Json all = Json::array();
  for (const Finding& one : findings)
    all.push_back({{"section", one.section},
                   {"name", one.name},
                   {"level", level_name(one.level)},
                   {"value", one.value},
                   {"remedy", one.remedy}});
  const Json json = {{"works", works}, {"findings", all}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tessera::host
