// A checkpoint, opened: its index, and any elements of its tensors, each checked before it is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/index.h"
#include "model/architecture.h"
#include "model/model.h"
#include "model/model_name.h"
#include "model/parameter_source.h"
#include "storage/read_ahead.h"
#include "weights/safetensors.h"

namespace tessera::host {

/// A complete checkpoint in `folder`, which a run may have saved under any mesh. Parameters are read by their names,
/// and their moments as "optim.<name>.m" and "optim.<name>.v". A file is opened when something in it is first read;
/// blocks of kChecksumBytes are read whole and compared with their checksums, and the last ones are kept: at most 16
/// MiB. Functions are [any-thread].
class Checkpoint : public ParameterSource {
 public:
  /// Reads the index. Throws NOT_FOUND, naming the folder, where there is none, and what parse_index throws.
  explicit Checkpoint(const std::string& folder);
  ~Checkpoint() override;

  const std::string& folder() const { return folder_; }
  const CheckpointIndex& index() const { return index_; }
  bool has(std::string_view tensor) const { return index_.tensors.contains(tensor); }

  /// out[i] = element offset + i of the tensor, row-major. Throws DATA_LOSS, naming file and tensor, for bytes that are
  /// not what was written, for a file that was cut and for one that is not there; NOT_FOUND for a tensor that the
  /// checkpoint lacks; INVALID_ARGUMENT for a range beyond it.
  void read(std::string_view tensor, uint64_t offset, std::span<float> out) const override;
  /// The same elements as they are; `out` is of their size.
  void read_bytes(std::string_view tensor, uint64_t offset, std::span<std::byte> out) const;

  /// Elements [offset, offset + count) of the tensor will be read soon: the disk may begin, with as much of them as
  /// there is memory for. Throws what read() throws.
  void expect(std::string_view tensor, uint64_t offset, uint64_t count) const;

  /// Opens all files of tensors, which then can be read even if the checkpoint is removed, as a run that keeps only its
  /// newest does. Throws what read() throws.
  void open_files() const;

  /// Reads every byte of every file and compares all checksums. Returns one sentence for each file or part of a tensor
  /// that is not what was written.
  std::vector<std::string> verify() const;
  /// The path of the config.json that was saved with it. Throws DATA_LOSS when it is not what was written.
  std::string config_path() const;

 private:
  struct Block {
    const TensorPart* part = nullptr;
    uint64_t number = 0;
    FileBytes content;
  };

  const SafetensorsFile& file(size_t number) const;
  void check_file(const SavedFile& saved) const;
  std::unique_ptr<SafetensorsFile> open_file(size_t number) const;
  void check_tensors(const SafetensorsFile& opened, size_t number) const;
  void read_block(const std::string& name, const TensorPart& part, uint64_t number, FileBytes& content) const;
  /// Where an element is: the bytes of its block in the file, and the element in it.
  struct Place {
    const TensorPart* part = nullptr;
    uint64_t block = 0;         // number
    uint64_t within = 0;        // bytes before it in the block
    uint64_t num_elements = 0;  // from it on, one after another in the block
  };
  Place place_of(const SavedTensor& tensor, uint64_t element) const;
  using Take = std::function<void(std::span<const std::byte> elements, uint64_t before)>;
  void read_in_pieces(std::string_view name, uint64_t offset, uint64_t count, const Take& take) const;
  bool keeps(const TensorPart& part, uint64_t number) const;
  const Block& block(const std::string& name, const TensorPart& part, uint64_t number) const;
  [[noreturn]] void fail(const std::string& what) const;

  std::string folder_;
  CheckpointIndex index_;
  mutable std::mutex mutex_;  // guards what follows
  mutable std::vector<std::unique_ptr<SafetensorsFile>> files_;
  mutable std::list<Block> blocks_;  // the last one used first
  mutable ReadAhead ahead_;
};

/// The model that was saved: from the config.json in the checkpoint, else by its name.
NamedArchitecture architecture_of(const Checkpoint& checkpoint);

/// Throws FAILED_PRECONDITION, naming what differs, for a checkpoint of another model than the job's. `facts` are its
/// architecture's.
void require_model(const Checkpoint& checkpoint, std::span<const ModelFact> facts,
                   std::span<const Parameter> parameters);

}  // namespace tessera::host
