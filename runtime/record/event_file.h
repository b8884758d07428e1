// TensorBoard's event files.
//
// A file is a sequence of TFRecords, each of which holds one protobuf message, Event:
//
//     record    uint64 length | uint32 masked crc32c of these 8 bytes | the message | uint32 masked crc32c of it
//     Event     1: wall_time (double)   2: step (int64)   one of 3: file_version (text), 5: Summary, 7: SessionLog
//     Summary   1: Value, repeated      Value   1: tag (text)   2: simple_value (float)
//
// All numbers are little-endian. The first event of a file has the version "brain.Event:2". A SessionLog with START
// makes TensorBoard drop all points of earlier files in the folder from that step on: those that a run wrote after the
// checkpoint from which it was resumed.
//
// The messages are encoded here, in a few lines: protobuf's library would be a dependency at build and run time, with
// generated code, for five fields. The format: tensorflow/core/lib/io/record_writer.cc and core/util/event.proto.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tessera::host {

/// A value of one step.
struct Scalar {
  std::string_view tag;  ///< "train/loss"; the part before the slash groups the charts
  double value = 0;      ///< stored as float32
};

/// Each returns one record. `wall_time`: seconds since 1970.
std::string version_event(double wall_time);
std::string start_event(double wall_time, int64_t step);
std::string scalars_event(double wall_time, int64_t step, std::span<const Scalar> scalars);

/// The name of a new file in `folder`, which sorts after the existing ones: TensorBoard reads files in that order.
std::string new_event_file_name(const std::string& folder, double wall_time);

/// "events.out.tfevents.": the prefix of such names.
inline constexpr std::string_view kEventFilePrefix = "events.out.tfevents.";

}  // namespace tessera::host
