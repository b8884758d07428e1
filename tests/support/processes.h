// Other processes, as /proc shows them.
#pragma once

#include <fstream>
#include <string>
#include <vector>

namespace tessera::testing {

/// Process ids of the children that a process's main thread started: of the launcher, its ranks in order.
inline std::vector<int> children_of(int pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/task/" + std::to_string(pid) + "/children");
  std::vector<int> children;
  for (int child = 0; in >> child;)
    children.push_back(child);
  return children;
}

/// The process is there and not a zombie.
inline bool is_running(int pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(in, text);
  const size_t state = text.rfind(") ");
  return state != std::string::npos && text[state + 2] != 'Z' && text[state + 2] != 'X';
}

}  // namespace tessera::testing
