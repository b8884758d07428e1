// Two lists that only grow at their heads. Plugins are never unloaded, so neither is what is known of them. A handler
// of signals may take no lock, and needs none: an entry is complete before the head names it, and never changes after
// that. Searching is linear: the watch does it five times a second, everything else when something has gone wrong.

#include "guard/known_functions.h"

#include <link.h>
#include <sys/stat.h>

#include <atomic>
#include <cstring>
#include <mutex>

#include "base/concat.h"

namespace tessera::host {
namespace {

/// The executable part of a plugin in memory.
struct KnownCode {
  uintptr_t begin, end;
  const char* plugin;
  struct stat file;  // when it was loaded; without a type if it is unknown
  const KnownCode* next;
};

constinit std::atomic<const KnownFunction*> first_function{nullptr};
constinit std::atomic<const KnownCode*> first_code{nullptr};
constinit std::mutex writing;  // readers need none

const char* kept(const std::string& text) {
  return ::strdup(text.c_str());
}

/// A text that lives for ever: that of a function of this plugin, if there is one already.
const char* kept_plugin(const std::string& plugin) {
  for (const KnownFunction* known = first_function; known; known = known->next)
    if (plugin == known->plugin) return known->plugin;
  return kept(plugin);
}

void add_all(const std::string& plugin, std::span<const NamedFunction> functions) {
  for (const NamedFunction& named : functions)
    if (named.function && !find_function(named.function))
      first_function = new KnownFunction{named.function, kept_plugin(plugin), kept(concat("its function ", named.name)),
                                         named.limit, first_function};
}

struct Search {
  uintptr_t entry;
  const char* plugin;
  struct stat file {};
};

int add_code_of(dl_phdr_info* object, size_t, void* data) {
  const auto& search = *static_cast<const Search*>(data);
  const auto holds = [&](const ElfW(Phdr) & segment) {
    const uintptr_t begin = object->dlpi_addr + segment.p_vaddr;
    return segment.p_type == PT_LOAD && search.entry >= begin && search.entry - begin < segment.p_memsz;
  };
  const std::span segments(object->dlpi_phdr, object->dlpi_phnum);
  bool is_it = false;
  for (const auto& segment : segments)
    is_it |= holds(segment);
  if (!is_it) return 0;
  for (const auto& segment : segments) {
    const uintptr_t begin = object->dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) != 0)
      first_code = new KnownCode{begin, begin + segment.p_memsz, search.plugin, search.file, first_code};
  }
  return 1;
}

}  // namespace

void know_functions(const std::string& plugin, std::span<const NamedFunction> functions) {
  const std::lock_guard lock(writing);
  add_all(plugin, functions);
}

void know_more_functions(const void* known, std::span<const NamedFunction> functions) {
  const KnownFunction* of = find_function(known);
  if (!of) return;
  const std::lock_guard lock(writing);
  add_all(of->plugin, functions);
}

const KnownFunction* find_function(const void* function) noexcept {
  for (const KnownFunction* known = first_function; known; known = known->next)
    if (known->function == function) return known;
  return nullptr;
}

std::string plugin_text(const void* function) {
  const KnownFunction* known = find_function(function);
  return known ? concat("the plugin ", known->plugin) : "a plugin";
}

std::string call_text(const void* function) {
  const KnownFunction* known = find_function(function);
  return known ? concat("the plugin ", known->plugin, " in ", known->place) : "a plugin";
}

bool is_plugin_name(std::string_view name) {
  const std::string begin = concat(name, " ("), end = concat("/", name, ".so)");  // "gloo (/usr/lib/gloo-comm.so)"
  for (const KnownFunction* known = first_function; known; known = known->next) {
    const std::string_view plugin = known->plugin;
    if (plugin.starts_with(begin) || plugin.ends_with(end)) return true;
  }
  return false;
}

void know_code(const void* entry, const std::string& plugin) {
  if (find_code(entry)) return;
  const std::lock_guard lock(writing);
  Search search{reinterpret_cast<uintptr_t>(entry), kept_plugin(plugin)};
  if (::stat(plugin.c_str(), &search.file) != 0) search.file = {};
  ::dl_iterate_phdr(add_code_of, &search);
}

const char* find_code(const void* instruction) noexcept {
  const auto at = reinterpret_cast<uintptr_t>(instruction);
  for (const KnownCode* code = first_code; code; code = code->next)
    if (at >= code->begin && at < code->end) return code->plugin;
  return nullptr;
}

const char* find_changed_file() noexcept {
  const auto is_same = [](const timespec& a, const timespec& b) {
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
  };
  for (const KnownCode* code = first_code; code; code = code->next) {
    struct stat now {};
    if (code->file.st_mode == 0 || ::stat(code->plugin, &now) != 0) continue;
    const bool is_it = now.st_dev == code->file.st_dev && now.st_ino == code->file.st_ino;
    if (is_it && (now.st_size != code->file.st_size || !is_same(now.st_mtim, code->file.st_mtim))) return code->plugin;
  }
  return nullptr;
}

const void* address_for(const std::string& plugin, const std::string& place) {
  const std::lock_guard lock(writing);
  for (const KnownFunction* known = first_function; known; known = known->next)
    if (known->function == known && plugin == known->plugin && place == known->place) return known;
  auto* made = new KnownFunction{nullptr, kept_plugin(plugin), kept(place), CallLimit::start, first_function};
  made->function = made;
  first_function = made;
  return made;
}

}  // namespace tessera::host
