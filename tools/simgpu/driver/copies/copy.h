// Copies and fills of device and host memory as operations of streams.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/simgpu/driver/memory/address_space.h"
#include "tools/simgpu/driver/streams/stream_table.h"

namespace simgpu {

/// A box of bytes: `depth` slices of `height` rows of `width` bytes. A linear copy is one row.
struct Box {
  std::uint64_t width = 0;
  std::uint64_t height = 1;
  std::uint64_t depth = 1;

  [[nodiscard]] std::uint64_t bytes() const { return width * height * depth; }
  [[nodiscard]] bool linear() const { return height == 1 && depth == 1; }
};

/// Where an address lies, according to the function that the program called.
enum class Side { kHost, kDevice, kAny };

/// One end of a copy: where the box lies.
struct End {
  std::uint64_t address = 0;
  std::uint64_t pitch = 0;  ///< bytes from row to row
  std::uint64_t slice = 0;  ///< bytes from slice to slice
  Side side = Side::kAny;   ///< after classify(): kHost or kDevice
  bool pinned = false;      ///< host memory that the driver knows
  bool is_placed = false;   ///< the call says whose memory it is (cuMemcpyPeer)
  Claim claim;              ///< of device memory, by classify()

  /// The share of `box` that lies in pages on the host, by what is mapped now: exact where the box
  /// has no gaps, and else that of the range from its first byte to its last.
  [[nodiscard]] double share_in_host_pages(const Box& box) const;
  /// Bytes from the first to one past the last of `box`.
  [[nodiscard]] std::uint64_t extent(const Box& box) const {
    return (box.depth - 1) * slice + (box.height - 1) * pitch + box.width;
  }
};

/// Whether the call waits for the copy by its own definition.
enum class Wait { kSync, kAsync };

/// One copy: what a driver function submits, and what a node of a graph does at each launch.
struct CopyWork {
  const char* name = "";  ///< the function, for fault lines; a literal
  End target;
  End source;
  Box box;
};

/// Finds out which memory `end` names and whether all of it is there. Memory that a graph allocates
/// counts as there: whether it is shows when the work runs.
/// @return CUDA_ERROR_INVALID_VALUE if it is not, or is not what `end.side` says.
CUresult classify(End& end, const Box& box, bool write);

/// Enqueues a copy on `stream`, and waits where the driver documents it: synchronous calls except
/// between device memory, and whatever involves pageable memory that cannot be staged. Where
/// SIMGPU_PAGEABLE_STAGED says so, a synchronous call with a pageable source waits for the stream's
/// earlier work and for the staging, but not for the copy to the device. `name` is the function,
/// for fault lines; a literal. The copy begins behind `before` as well.
/// @return CUDA_ERROR_INVALID_VALUE, or the context's sticky error once it has waited.
CUresult copy(const char* name, const StreamPtr& stream, End target, End source, const Box& box,
              Wait wait, std::vector<CompletionPtr> before = {});

/// copy() on the stream that `handle` names in the current context.
/// @return also what resolve_stream() and SIMGPU_CONTEXT refuse with.
CUresult copy_on(const char* name, CUstream handle, NullStream null_stream, const End& target,
                 const End& source, const Box& box, Wait wait,
                 std::vector<CompletionPtr> before = {});

/// The operation that does `work`, whose ends classify() accepted, on a stream of `context`. It
/// names device memory as of now, and reads pageable memory when it runs.
Operation operation_of(const CopyWork& work, const Context& context);

/// The copy that `what` describes. @return CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_SUPPORTED
/// (arrays).
CUresult work_of(const char* name, const CUDA_MEMCPY3D& what, CopyWork* work);

/// The pieces of memory behind an end: what the copy engines see.
class View {
 public:
  /// @throws AccessFault if any of it is not accessible to `device` now.
  static View of(const End& end, std::uint64_t extent, bool write, int device);

  /// The bytes from `offset` on, and how many of them are contiguous.
  struct Piece {
    unsigned char* bytes;
    std::uint64_t size;
  };
  [[nodiscard]] Piece at(std::uint64_t offset) const;
  bool operator==(const View& other) const { return segments_ == other.segments_; }
  /// Drops the references to memory.
  void clear() { segments_.clear(); }

 private:
  std::vector<Segment> segments_;
};

/// When real work on `bytes` bytes has to begin so that it is done by `end`, but not before
/// `start`: as late as this machine's speed allows, so that a program that forgets to wait reads
/// old bytes.
Nanoseconds latest_begin(std::uint64_t bytes, Nanoseconds start, Nanoseconds end);
/// Tells latest_begin() how fast work on `bytes` bytes went.
void note_speed(std::uint64_t bytes, Nanoseconds took);

}  // namespace simgpu
