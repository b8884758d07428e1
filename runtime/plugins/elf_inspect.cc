// Reads the exported symbols of a shared object from its bytes, without dlopen: loading runs constructors, so a file is
// inspected before it may run anything. This finds files that are not plugins, truncated ones, and plugins that export
// more than the entry, whose symbols would collide with another plugin's; and what the linker would load with it.
//
//     ELF header -> program headers -> PT_DYNAMIC -> symbol table, string table, hash table
//                   PT_LOAD: address -> file offset
//
// Only what the dynamic linker uses is read; section headers may be stripped. The file is untrusted: every access is
// checked against its end.

#include "plugins/elf_inspect.h"

#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <optional>

#include "base/concat.h"
#include "config/text_values.h"
#include "config/usage_error.h"

#ifndef DF_1_PIE
#define DF_1_PIE 0x08000000
#endif

namespace tessera::host {
namespace {

using Header = ElfW(Ehdr);
using Segment = ElfW(Phdr);
using Dynamic = ElfW(Dyn);
using Symbol = ElfW(Sym);

constexpr uint64_t kMaxSymbols = 1 << 20;
static_assert(kElfMagicBytes == SELFMAG);

// A bounded view of the file.
class Bytes {
 public:
  explicit Bytes(std::span<const char> file) : file_(file) {}

  bool holds(uint64_t offset, uint64_t num_bytes) const {
    return offset <= file_.size() && num_bytes <= file_.size() - offset;
  }

  template <class T>
  T at(uint64_t offset, const char* what) const {
    if (!holds(offset, sizeof(T)))
      throw UsageError(concat("is truncated: its ", what, " at byte ", offset, " is past its end at byte ",
                              file_.size(), "; build or copy it again"));
    T value;
    std::memcpy(&value, file_.data() + offset, sizeof value);
    return value;
  }

  // A zero-terminated name inside [begin, begin + num_bytes).
  std::string name(uint64_t begin, uint64_t num_bytes, uint64_t index) const {
    if (!holds(begin, num_bytes) || index >= num_bytes) throw UsageError("has a symbol without a name; build it again");
    const char* first = file_.data() + begin + index;
    const char* last = file_.data() + begin + num_bytes;
    return std::string(first, std::find(first, last, '\0'));
  }

 private:
  std::span<const char> file_;
};

// The ELF header of this program, for the machine it was built for.
Header own_header() {
  Header header{};
  std::ifstream("/proc/self/exe", std::ios::binary).read(reinterpret_cast<char*>(&header), sizeof header);
  return header;
}

Header checked_header(std::span<const char> file) {
  check_elf_magic(file);
  const Bytes bytes(file);
  const auto header = bytes.at<Header>(0, "header");
  static const Header own = own_header();
  if (header.e_ident[EI_CLASS] != own.e_ident[EI_CLASS] || header.e_ident[EI_DATA] != own.e_ident[EI_DATA] ||
      header.e_machine != own.e_machine)
    throw UsageError(concat("was built for another machine (class ", int{header.e_ident[EI_CLASS]}, ", byte order ",
                            int{header.e_ident[EI_DATA]}, ", processor ", header.e_machine, "; here ",
                            int{own.e_ident[EI_CLASS]}, ", ", int{own.e_ident[EI_DATA]}, ", ", own.e_machine,
                            "); build it for this one"));
  if (header.e_type != ET_DYN)
    throw UsageError(concat("is an ELF file of type ", header.e_type, ", not a shared object; link it with -shared"));
  if (header.e_shoff != 0 && !bytes.holds(header.e_shoff, uint64_t{header.e_shnum} * header.e_shentsize))
    throw UsageError("is truncated: its section headers are past its end; build or copy it again");
  return header;
}

struct DynamicTable {
  std::optional<uint64_t> hash, gnu_hash, symbols, names;  // addresses
  uint64_t names_num_bytes = 0;
  uint64_t flags = 0;
  bool has_text_relocations = false;
  std::vector<uint64_t> needed, run_paths, r_paths;  // in the string table
};

class Inspector {
 public:
  explicit Inspector(std::span<const char> file) : bytes_(file), header_(checked_header(file)) {
    if (header_.e_phentsize != sizeof(Segment)) throw UsageError("has malformed program headers; build it again");
    for (uint64_t i = 0; i < header_.e_phnum; ++i)
      add_segment(bytes_.at<Segment>(header_.e_phoff + i * sizeof(Segment), "program header"));
    read_dynamic();
  }

  SharedObject needs() const {
    SharedObject found;
    found.has_executable_stack = has_executable_stack_;
    found.has_text_relocations = dynamic_.has_text_relocations;
    if (dynamic_.names) add_libraries(found);
    return found;
  }

  void add_exports(SharedObject& found) const {
    if (!dynamic_.symbols || !dynamic_.names) return;
    const uint64_t symbols = offset_of(*dynamic_.symbols);
    const uint64_t names = offset_of(*dynamic_.names);
    const uint64_t num_symbols = count_symbols();
    for (uint64_t i = 1; i < num_symbols; ++i) {
      const auto symbol = bytes_.at<Symbol>(symbols + i * sizeof(Symbol), "dynamic symbol");
      const auto binding = ELF64_ST_BIND(symbol.st_info);
      const auto visibility = ELF64_ST_VISIBILITY(symbol.st_other);
      // Undefined symbols are imports; hidden and local ones are not visible outside.
      if (symbol.st_shndx == SHN_UNDEF || binding == STB_LOCAL || visibility == STV_HIDDEN ||
          visibility == STV_INTERNAL)
        continue;
      found.names.push_back(bytes_.name(names, dynamic_.names_num_bytes, symbol.st_name));
      // g++ makes inline variables unique in the whole process, even with RTLD_LOCAL: two plugins would share them.
      if (binding == STB_GNU_UNIQUE) found.unique.push_back(found.names.back());
      const auto type = ELF64_ST_TYPE(symbol.st_info);
      if (type == STT_FUNC || type == STT_GNU_IFUNC) found.functions.push_back(found.names.back());
    }
  }

 private:
  void add_libraries(SharedObject& found) const {
    const uint64_t names = offset_of(*dynamic_.names);
    for (const uint64_t index : dynamic_.needed)
      found.needed.push_back(bytes_.name(names, dynamic_.names_num_bytes, index));
    // ld.so takes no notice of an RPATH beside a RUNPATH.
    for (const uint64_t index : dynamic_.run_paths.empty() ? dynamic_.r_paths : dynamic_.run_paths) {
      const std::string folders = bytes_.name(names, dynamic_.names_num_bytes, index);
      for (const std::string_view folder : split(folders, ':'))
        found.folders.emplace_back(folder);
    }
  }

  void add_segment(const Segment& segment) {
    // Without such a header the system gives the process the executable stack of old times.
    if (segment.p_type == PT_GNU_STACK) has_executable_stack_ = (segment.p_flags & PF_X) != 0;
    if (segment.p_type != PT_LOAD && segment.p_type != PT_DYNAMIC) return;
    if (!bytes_.holds(segment.p_offset, segment.p_filesz))
      throw UsageError("is truncated: one of its segments is past its end; build or copy it again");
    (segment.p_type == PT_LOAD ? loads_ : dynamics_).push_back(segment);
  }

  void read_dynamic() {
    if (dynamics_.size() != 1)
      throw UsageError("has no dynamic section, so it is not a shared object; link it with -shared");
    for (uint64_t i = 0; i < dynamics_[0].p_filesz / sizeof(Dynamic); ++i) {
      const auto entry = bytes_.at<Dynamic>(dynamics_[0].p_offset + i * sizeof(Dynamic), "dynamic entry");
      if (entry.d_tag == DT_NULL) break;
      if (entry.d_tag == DT_HASH) dynamic_.hash = entry.d_un.d_ptr;
      if (entry.d_tag == DT_GNU_HASH) dynamic_.gnu_hash = entry.d_un.d_ptr;
      if (entry.d_tag == DT_SYMTAB) dynamic_.symbols = entry.d_un.d_ptr;
      if (entry.d_tag == DT_STRTAB) dynamic_.names = entry.d_un.d_ptr;
      if (entry.d_tag == DT_STRSZ) dynamic_.names_num_bytes = entry.d_un.d_val;
      if (entry.d_tag == DT_FLAGS_1) dynamic_.flags = entry.d_un.d_val;
      dynamic_.has_text_relocations |=
          entry.d_tag == DT_TEXTREL || (entry.d_tag == DT_FLAGS && (entry.d_un.d_val & DF_TEXTREL) != 0);
      // The two others give their symbols in place of the file's own; their code is loaded in the same way.
      if (entry.d_tag == DT_NEEDED || entry.d_tag == DT_AUXILIARY || entry.d_tag == DT_FILTER)
        dynamic_.needed.push_back(entry.d_un.d_val);
      if (entry.d_tag == DT_RUNPATH) dynamic_.run_paths.push_back(entry.d_un.d_val);
      if (entry.d_tag == DT_RPATH) dynamic_.r_paths.push_back(entry.d_un.d_val);
    }
    // Position-independent executables are ET_DYN as well; dlopen's own error would not say what to do.
    if (dynamic_.flags & DF_1_PIE) throw UsageError("is an executable, not a shared object; link it with -shared");
  }

  // The file offset of what is loaded at `address`.
  uint64_t offset_of(uint64_t address) const {
    for (const Segment& load : loads_)
      if (address >= load.p_vaddr && address - load.p_vaddr < load.p_filesz)
        return load.p_offset + (address - load.p_vaddr);
    throw UsageError("has a dynamic section that points outside its segments; build it again");
  }

  uint64_t count_symbols() const {
    const uint64_t num_symbols = dynamic_.hash       ? bytes_.at<uint32_t>(offset_of(*dynamic_.hash) + 4, "symbol hash")
                                 : dynamic_.gnu_hash ? count_gnu_symbols(offset_of(*dynamic_.gnu_hash))
                                                     : 0;
    if (num_symbols > kMaxSymbols)
      throw UsageError(concat("has ", num_symbols, " dynamic symbols; a plugin exports one, so build it again"));
    return num_symbols;
  }

  // The GNU hash table has no count: it is the end of the chain of the highest bucket.
  uint64_t count_gnu_symbols(uint64_t table) const {
    const uint64_t num_buckets = bytes_.at<uint32_t>(table, "symbol hash");
    const uint64_t first_symbol = bytes_.at<uint32_t>(table + 4, "symbol hash");
    const uint64_t num_blooms = bytes_.at<uint32_t>(table + 8, "symbol hash");
    const uint64_t buckets = table + 16 + num_blooms * sizeof(ElfW(Addr));
    const uint64_t chains = buckets + num_buckets * 4;
    uint64_t last = 0;
    for (uint64_t i = 0; i < num_buckets; ++i)
      last = std::max<uint64_t>(last, bytes_.at<uint32_t>(buckets + i * 4, "symbol hash"));
    if (last < first_symbol) return first_symbol;
    while ((bytes_.at<uint32_t>(chains + (last - first_symbol) * 4, "symbol hash") & 1u) == 0)
      ++last;
    return last + 1;
  }

  Bytes bytes_;
  Header header_;
  std::vector<Segment> loads_, dynamics_;
  DynamicTable dynamic_;
  bool has_executable_stack_ = true;
};

}  // namespace

SharedObject inspect_shared_object(std::span<const char> file) {
  const Inspector inspector(file);
  SharedObject found = inspector.needs();
  inspector.add_exports(found);
  return found;
}

SharedObject inspect_needs(std::span<const char> file) {
  return Inspector(file).needs();
}

void check_elf_magic(std::span<const char> begin) {
  if (begin.size() < kElfMagicBytes || std::memcmp(begin.data(), ELFMAG, kElfMagicBytes) != 0)
    throw UsageError("is not an ELF file; give a shared object that was built as a plugin");
}

}  // namespace tessera::host
