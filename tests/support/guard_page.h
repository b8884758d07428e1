// Bytes that end where readable memory ends: reading one more is a crash, at once.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

namespace tessera::testing {

/// A copy of some bytes, the last of which is the last of a page; the page after it may not be touched.
class GuardedBytes {
 public:
  explicit GuardedBytes(const std::string& bytes) : page_size_(static_cast<size_t>(::sysconf(_SC_PAGESIZE))) {
    num_readable_ = (bytes.size() + page_size_ - 1) / page_size_ * page_size_;
    void* memory =
        ::mmap(nullptr, num_readable_ + page_size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::runtime_error("mmap failed");
    memory_ = static_cast<char*>(memory);
    if (::mprotect(memory_ + num_readable_, page_size_, PROT_NONE) != 0) throw std::runtime_error("mprotect failed");
    data_ = memory_ + num_readable_ - bytes.size();
    std::memcpy(data_, bytes.data(), bytes.size());
  }
  ~GuardedBytes() { ::munmap(memory_, num_readable_ + page_size_); }
  GuardedBytes(const GuardedBytes&) = delete;
  GuardedBytes& operator=(const GuardedBytes&) = delete;

  char* data() const { return data_; }

 private:
  size_t page_size_, num_readable_ = 0;
  char* memory_ = nullptr;
  char* data_ = nullptr;
};

/// An ABI struct on a guarded page. The second form makes an APPENDABLE one of `num_bytes` (of whole words, for the
/// alignment): a shorter host's, or, filled up with bytes that mean nothing, a longer one's.
template <class T>
class GuardedStruct {
 public:
  explicit GuardedStruct(const T& value) : bytes_(std::string(reinterpret_cast<const char*>(&value), sizeof value)) {}
  GuardedStruct(const T& value, uint32_t num_bytes) : bytes_(cut(value, num_bytes)) {}

  T* get() const { return reinterpret_cast<T*>(bytes_.data()); }

 private:
  static std::string cut(T value, uint32_t num_bytes) {
    value.struct_size = num_bytes;
    std::string bytes(reinterpret_cast<const char*>(&value), sizeof value);
    bytes.resize(num_bytes, '\xee');
    return bytes;
  }

  GuardedBytes bytes_;
};

}  // namespace tessera::testing
