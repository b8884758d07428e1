// Names in reports.
// A class of memory is "compute copies" in a text and "compute_copies" as a key of JSON: one table (memory_report.cc)
// has the names, and the order in which every report lists them.

#include "plan/format.h"

#include <algorithm>
#include <cmath>

namespace tessera::host {

std::string class_list(const BytesByClass& bytes) {
  std::string text;
  for (const MemoryClass what : all_memory_classes())
    if (bytes[what] > 0)
      text += (text.empty() ? "" : ", ") + std::string(to_string(what)) + " " + human_bytes(bytes[what]);
  return text;
}

// For a sentence or a heading: "in host memory", but "in files".
std::string place_name(uint32_t memory) {
  if (memory == TSR_MEMORY_FILE) return "files";
  const std::string name = memory_name(memory);
  return name.starts_with("memory") ? name : name + " memory";
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words)
    text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::string number_text(double number, int num_digits) {
  const int magnitude = number > 0 ? static_cast<int>(std::floor(std::log10(number))) : 0;
  std::string text = format("%.*f", std::max(0, num_digits - 1 - magnitude), number);
  if (text.find('.') == text.npos) return text;
  text.erase(text.find_last_not_of('0') + 1);
  return text.ends_with('.') ? text.substr(0, text.size() - 1) : text;
}

std::string seconds_text(double seconds, int num_digits) {
  if (seconds >= 1000) return duration_text(seconds);
  if (seconds >= 0.1) return number_text(seconds, num_digits) + " s";
  if (seconds >= 1e-3) return number_text(1e3 * seconds, num_digits) + " ms";
  return number_text(1e6 * seconds, num_digits) + " us";
}

std::string class_key(MemoryClass what) {
  std::string text(to_string(what));
  std::ranges::replace(text, ' ', '_');
  return text;
}

std::array<MemoryClass, kNumMemoryClasses> all_memory_classes() {
  std::array<MemoryClass, kNumMemoryClasses> all;
  for (size_t i = 0; i < all.size(); ++i)
    all[i] = static_cast<MemoryClass>(i);
  return all;
}

}  // namespace tessera::host
