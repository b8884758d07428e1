// Loads a plugin. No code of it runs before it has been checked:
//
//     read_plugin_file        which users may write it; its bytes and hash
//     inspect_shared_object   an ELF file for this machine that exports the one entry symbol
//     check_libraries         where the libraries that it brings are, and which users may write there
//     try_in_child            the rest, in a child process, unless the plugin comes with the program
//     dlopen                  RTLD_NOW: missing symbols now, not at step 300; RTLD_LOCAL: no symbol is shared
//     handshake               ranges of ABI versions, magic number
//     descriptor, tables      copied and checked
//
// Each step may refuse the plugin, with one sentence that begins with the file's path. A plugin is never unloaded: its
// threads, tables and strings may be in use until the process ends.

#include "plugins/loader.h"

#include <dlfcn.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <mutex>
#include <set>
#include <type_traits>

#include "base/concat.h"
#include "config/usage_error.h"
#include "guard/call_watch.h"
#include "guard/known_functions.h"
#include "guard/process_state.h"
#include "guard/readable.h"
#include "plugins/elf_inspect.h"
#include "plugins/function_names.h"
#include "plugins/host_services.h"
#include "plugins/interface_check.h"
#include "plugins/needed_libraries.h"
#include "plugins/plugin_file.h"
#include "plugins/trial.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

constexpr uint32_t kHostMinorMin = TSR_OLDEST_MINOR;
constexpr uint32_t kHostMinorMax = TSR_ABI_MINOR;
constexpr uint32_t kNotSaid = std::numeric_limits<uint32_t>::max();
constexpr uint32_t kFactoryFloor = TSR_END_OF(tsr_factory, get_interface);

using Query = std::remove_pointer_t<tsr_plugin_query_fn>;

// What of a plugin runs before its first function does, for reports.
constexpr const char* kConstructors = "its constructors (while it is loaded)";
constexpr const char* kTables = "its descriptor and tables";

std::string list_of(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < 5; ++i)
    text += (i == 0 ? "" : ", ") + names[i];
  return names.size() > 5 ? concat(text, " and ", names.size() - 5, " more") : text;
}

// Throws the end of a sentence, as do the following functions; about() puts the file before it.
void check_exports(const SharedObject& exports) {
  bool has_entry = false;
  std::vector<std::string> others;
  for (const std::string& name : exports.names) {
    if (name == TSR_ENTRY_SYMBOL)
      has_entry = true;
    else
      others.push_back(name);
  }
  if (!has_entry)
    throw UsageError(
        concat("does not export ", TSR_ENTRY_SYMBOL, "; is it a plugin? Build it with tessera_add_plugin()"));
  if (std::ranges::count(exports.functions, TSR_ENTRY_SYMBOL) == 0)
    throw UsageError(concat("exports ", TSR_ENTRY_SYMBOL, ", which is not a function; declare it as in core.h"));
  if (!exports.unique.empty())
    throw UsageError(concat("has unique symbols, which all plugins of a process would share (", list_of(exports.unique),
                            "); build it with -fno-gnu-unique, as tessera_add_plugin() does"));
  if (!others.empty())
    throw UsageError(concat("exports more than ", TSR_ENTRY_SYMBOL, " (", list_of(others),
                            "); build it with a version script, as tessera_add_plugin() does"));
}

// Code cannot be mapped from such a file system; /tmp and /home often are.
bool is_mounted_noexec(const std::string& path) {
  struct statvfs mount {};
  return ::statvfs(path.c_str(), &mount) == 0 && (mount.f_flag & ST_NOEXEC) != 0;
}

// Whether ld.so's error is about a lack of memory, rather than about a missing library.
bool is_of_memory(std::string_view text) {
  const bool cannot_map = text.find("failed to map segment") != std::string_view::npos;
  const bool may_not = text.find("Operation not permitted") != std::string_view::npos;
  return (cannot_map && !may_not) || text.find("annot allocate memory") != std::string_view::npos ||
         text.find("cannot map zero-fill pages") != std::string_view::npos;
}

/// With what the system's loader says of it.
[[noreturn]] void refuse_unloadable(const std::string& path, const std::string& why) {
  if (is_mounted_noexec(path))
    throw UsageError(
        "cannot be loaded: its file system is mounted noexec; move the plugin to another folder, or mount that one "
        "with exec");
  if (why.find("static TLS") != why.npos)  // the system's loader calls that memory, and no memory helps
    throw UsageError(concat("cannot be loaded: ", why,
                            "; build it, and the libraries that it brings, without -ftls-model=initial-exec"));
  if (is_of_memory(why))
    throw UsageError(concat("cannot be loaded: not enough memory for it and its libraries (", why,
                            "); raise ulimit -v, or free memory"),
                     TSR_E_RESOURCE_EXHAUSTED);
  throw UsageError(concat("cannot be loaded: ", why, "; install what it needs, or build it again"));
}

// RTLD_NODELETE: never unloaded.
Query* open_library(const std::string& path) {
  void* library = nullptr;
  try {
    library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  } catch (const std::exception& error) {
    throw UsageError(
        concat("cannot be loaded: one of its constructors threw an exception", text_in_parentheses(error)));
  } catch (...) {
    throw UsageError("cannot be loaded: one of its constructors threw an exception");
  }
  void* const entry = library ? ::dlsym(library, TSR_ENTRY_SYMBOL) : nullptr;
  if (!entry) {
    const char* const why = ::dlerror();
    refuse_unloadable(path, why ? why : TSR_ENTRY_SYMBOL " is not there");
  }
  return reinterpret_cast<Query*>(entry);
}

std::string minors(uint32_t major, uint32_t min, uint32_t max) {
  const std::string first = concat(major, ".", min);
  return min == max ? first : concat(first, " to ", major, ".", max);
}

void check_handshake(const tsr_handshake& answer, tsr_status status, const tsr_error& error) {
  const bool has_said =
      answer.plugin_abi_major != kNotSaid && answer.plugin_minor_min != kNotSaid && answer.plugin_minor_max != kNotSaid;
  const std::string host = minors(TSR_ABI_MAJOR, kHostMinorMin, kHostMinorMax);
  const bool is_newer =
      has_said && (answer.plugin_abi_major > TSR_ABI_MAJOR ||
                   (answer.plugin_abi_major == TSR_ABI_MAJOR && answer.plugin_minor_min > kHostMinorMax));
  const char* remedy = is_newer ? "; use a later host, or build the plugin with a TSR_TARGET_MINOR that this one has"
                                : "; build it again with this version's plugin-api, or use the host it was built for";
  if (has_said && (answer.plugin_abi_major != TSR_ABI_MAJOR || answer.plugin_minor_min > kHostMinorMax ||
                   answer.plugin_minor_max < kHostMinorMin || answer.plugin_minor_min > answer.plugin_minor_max))
    throw UsageError(
        concat("needs plugin ABI ", minors(answer.plugin_abi_major, answer.plugin_minor_min, answer.plugin_minor_max),
               ", but this host has ", host, remedy),
        TSR_E_ABI);
  if (status != TSR_OK) {
    const std::string why(error.message, strnlen(error.message, sizeof error.message));
    throw UsageError(concat("refused this host, which has plugin ABI ", host, " (status ", status, ": ",
                            why.empty() ? "no reason given" : why, ")", remedy),
                     TSR_E_ABI);
  }
  if (answer.magic != TSR_MAGIC)
    throw UsageError(concat("answered the handshake with a wrong magic number", remedy), TSR_E_ABI);
  if (!has_said)
    throw UsageError(concat("did not report which plugin ABI it needs; this host has ", host, remedy), TSR_E_ABI);
}

/// Calls the entry, and copies what it returns. `refuse_changes` compares the process after a call.
LoadedPlugin query(Query* entry, const std::string& path, const Log& log, const TrialStep& step,
                   const std::function<void(const char* place)>& refuse_changes) {
  const HostServices host(log);
  // The plugin's fields start as kNotSaid: a missing answer must not pass for version 0.
  tsr_handshake handshake{TSR_MAGIC, sizeof(tsr_handshake), TSR_ABI_MAJOR, kHostMinorMin, kHostMinorMax, kNotSaid,
                          kNotSaid,  8 * sizeof(void*),     kNotSaid};
  tsr_error error{};
  const tsr_factory* factory = nullptr;
  const NamedFunction named{reinterpret_cast<const void*>(entry), TSR_ENTRY_SYMBOL};
  know_functions(path, {&named, 1});
  step("its function " TSR_ENTRY_SYMBOL);
  const tsr_status status = enter(entry, &handshake, host.before_query(entry), &factory, &error);
  check_handshake(handshake, status, error);
  refuse_changes("its function " TSR_ENTRY_SYMBOL);
  if (!is_readable(factory, kFactoryFloor) || factory->struct_size < kFactoryFloor || !factory->get_interface)
    throw UsageError(concat("returned a factory that is missing or shorter than ", kFactoryFloor,
                            " bytes; build it again with this version's plugin-api"),
                     TSR_E_ABI);
  check_known_bits(factory->reserved, 0, "the reserved word of its factory");
  const auto read_tables = [&](const auto& read) {
    step(kTables);
    const PluginCall here(address_for(path, kTables));
    read();
  };
  LoadedPlugin plugin;
  read_tables([&] { copy_descriptor(factory->descriptor, plugin); });
  plugin.abi_minor = std::min(kHostMinorMax, handshake.plugin_minor_max);
  const NamedFunction getter{reinterpret_cast<const void*>(factory->get_interface), "get_interface"};
  know_functions(path, {&getter, 1});
  step("its function get_interface");
  const void* const table = enter(factory->get_interface, str(interface_id(plugin.kind)));
  const void* const of_no_id = enter(factory->get_interface, str("org.tessera.no-interface"));
  refuse_changes("its function get_interface");
  if (of_no_id)
    throw UsageError("returned an interface for an id that it does not have; get_interface returns NULL for those",
                     TSR_E_ABI);
  read_tables([&] { plugin.interface = checked_interface(table, plugin.kind); });
  return plugin;
}

/// Loads the plugin into this process and asks what it is. What it changes of the process is restored and refused.
LoadedPlugin load_here(const std::string& path, const Log& log, const TrialStep& step) {
  ProcessState before;
  const std::function refuse_changes = [&](const char* place) {
    if (const std::string change = before.restore(); !change.empty())
      throw UsageError(concat("in ", place, " ", change));
  };
  Query* entry = nullptr;
  {
    step(kConstructors);
    const PluginCall here(address_for(path, kConstructors));
    entry = open_library(path);
  }
  refuse_changes(kConstructors);
  know_code(reinterpret_cast<const void*>(entry), path);
  return query(entry, path, log, step, refuse_changes);
}

/// Plugins that come with the program are trusted to load.
bool comes_with_the_program(const std::filesystem::path& path) {
  std::error_code error;
  return path.parent_path() == std::filesystem::weakly_canonical(default_plugin_folder(), error);
}

void try_once(const std::string& path) {
  static std::set<std::string> tried;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (comes_with_the_program(path) || !tried.insert(path).second) return;
  try_in_child([&](const TrialStep& step) { load_here(path, Log(LogLevel::off), step); });
}

// Runs `check`, and puts the file before the sentence of a refusal.
template <class Check>
void about(const PluginFile& file, Check&& check) {
  try {
    check();
  } catch (const UsageError& error) {
    throw UsageError(concat("the plugin ", file.path, " ", error.what()), error.code());
  } catch (const Error& error) {  // from a call into it; a whole sentence
    throw UsageError(error.what(), error.code());
  }
}

/// The checks of a file that need no loading; returns warnings.
std::vector<std::string> check_object(const PluginFile& file) {
  const SharedObject object = inspect_shared_object(file.bytes);
  check_exports(object);
  if (object.has_executable_stack)
    throw UsageError(
        "would make the stack of the process executable; link it with -z noexecstack, and give assembler files a "
        ".note.GNU-stack section");
  if (object.has_text_relocations)
    throw UsageError("has text relocations, so its code would be writable while it is loaded; build it with -fPIC");
  return check_libraries(file.path, object);
}

}  // namespace

void check_plugin_file(const std::filesystem::path& path) {
  const PluginFile file = read_plugin_file(path);
  about(file, [&] { check_object(file); });
}

LoadedPlugin load_plugin(const std::filesystem::path& path, const Log& log) {
  const PluginFile file = read_plugin_file(path);
  if (!file.warning.empty()) log.warning(file.warning);
  watch_calls();
  note_libraries_of_program();
  note_paths_of_program();
  LoadedPlugin plugin;
  about(file, [&] {
    for (const std::string& warning : check_object(file))
      log.warning(warning);
    try_once(file.path);
    // By path, not by descriptor: users who could replace the file were refused or warned of, and debuggers and $ORIGIN
    // need the real name.
    plugin = load_here(file.path, log, [](const char*) {});
  });
  plugin.path = file.path;
  plugin.sha256 = file.sha256;
  plugin.libraries = libraries_text(inspect_needs(file.bytes));
  know_functions_of(plugin);
  return plugin;
}

LoadedPlugin load_plugin(PluginKind kind, std::string_view name, const std::vector<std::filesystem::path>& folders,
                         const Log& log) {
  LoadedPlugin plugin = load_plugin(find_plugin(kind, name, folders), log);
  if (plugin.kind != kind)
    throw UsageError(concat("the plugin ", plugin.path, " is ", with_article(plugin.kind), ", but ", flag_of(kind),
                            " needs ", with_article(kind), "; use it with ", flag_of(plugin.kind)));
  // If --strategy fsdp ran something else, the mistake would be hard to find (decision 0006).
  if (name.find('/') == std::string_view::npos && plugin.name != name)
    throw UsageError(concat("the plugin ", plugin.path, " calls itself ", plugin.name, ", not ", name,
                            "; rename the file to ", plugin.name, file_suffix(kind), ".so, or give its path"));
  return plugin;
}

}  // namespace tessera::host
