// Other processes, as /proc shows them.
#pragma once

#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
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

/// Process ids of those that run the file `program` and have `variable` ("NAME=value") in their environment.
inline std::vector<int> processes_of(const std::string& program, const std::string& variable) {
  namespace fs = std::filesystem;
  std::vector<int> found;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
    std::error_code error;
    const std::string name = entry.path().filename();
    int pid = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), pid).ec != std::errc()) continue;
    if (!fs::equivalent(entry.path() / "exe", program, error)) continue;
    std::ifstream in(entry.path() / "environ", std::ios::binary);
    const std::string environment{std::istreambuf_iterator<char>(in), {}};
    if (environment.find(variable + '\0') != std::string::npos && is_running(pid)) found.push_back(pid);
  }
  return found;
}

}  // namespace tessera::testing
