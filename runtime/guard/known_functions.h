// The names of plugins' functions, by address. Handlers of signals read them: nothing is ever removed, and a reader
// needs no lock.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tessera::host {

/// Which time-out holds for a function.
enum class CallLimit : uint8_t {
  start,  ///< --start-timeout-ms: loads, creates, plans, prepares
  step,   ///< --timeout-ms: what a step calls, and what ends an object
  abort,  ///< two seconds, as communicator.h promises
};

/// A function as a table names it.
struct NamedFunction {
  const void* function;
  const char* name;
  CallLimit limit = CallLimit::start;
};

/// A function that is known. Lives for ever.
struct KnownFunction {
  const void* function;
  const char* plugin;  ///< "fsdp (/usr/lib/tessera/fsdp.so)"
  const char* place;   ///< "its function lower"
  CallLimit limit;
  const KnownFunction* next;
};

/// Adds the functions, except null ones and those that are known.
void know_functions(const std::string& plugin, std::span<const NamedFunction> functions);
/// The same, for another table of the plugin that `known` is of.
void know_more_functions(const void* known, std::span<const NamedFunction> functions);
/// Null if it is not known. Safe in handlers.
const KnownFunction* find_function(const void* function) noexcept;
/// "the plugin fsdp (/usr/lib/tessera/fsdp.so)", "the plugin fsdp (...) in its function lower": for sentences.
std::string plugin_text(const void* function);
std::string call_text(const void* function);

/// Whether a plugin of that name, or in a file NAME.so, is known.
bool is_plugin_name(std::string_view name);

/// The code of a loaded plugin, so that a crash of a thread of its own is named: adds the executable segments of the
/// object that holds `entry`. `plugin`: its file.
void know_code(const void* entry, const std::string& plugin);
/// The plugin whose code that is, or null. Safe in handlers.
const char* find_code(const void* instruction) noexcept;
/// A plugin whose file was changed in its place since it was loaded, and with it the code in memory; null: none. Safe
/// in handlers.
const char* find_changed_file() noexcept;

/// Stands for what is not a function of a table: `place` may be "its constructors". Always the same for a plugin's
/// place.
const void* address_for(const std::string& plugin, const std::string& place);

}  // namespace tessera::host
