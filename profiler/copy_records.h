// What a process copied out of its device: the file that the library writes of it, and reads again
// for `superpipe verify`.
//
// The file is text. Its first line is "superpipe copies 3 PID STARTED PROGRAM"; each other line is
// a fact of its own, so that what a process wrote before it died can be read. A copy that was
// unseen when it was queued has a second line once it was seen:
//     place PLACE
//     kernel INDEX NAME
//     site INDEX FRAME[<TAB>FRAME...]
//     copy THREAD NUMBER BYTES SITE DIGEST [OFFSET BUFFER [KERNEL LAUNCH]]
//     unseen THREAD NUMBER BYTES SITE
// SITE is an index from 1, or 0 where it is not known.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "policy/units.h"

namespace superpipe {

/// 128 bits that tell contents apart. Digests of different processes can be compared.
using CopyDigest = std::array<std::uint64_t, 2>;

/// A launch that named what was copied.
struct CopyLaunch {
  std::size_t kernel = 0;    ///< index in ProcessCopies::kernels
  std::uint64_t number = 0;  ///< of the launch in its process, from 1
  bool operator==(const CopyLaunch&) const = default;
};

/// Where a copy came from.
struct CopySource {
  Bytes offset;                        ///< in its allocation
  Bytes buffer;                        ///< the size of the allocation
  std::optional<CopyLaunch> launch{};  ///< the last before the copy that named the allocation
  bool operator==(const CopySource&) const = default;
};

/// One copy from the device to the host.
struct CopyRecord {
  std::uint64_t thread = 0;  ///< of the program, in the order of their first copies, from 1
  std::uint64_t number = 0;  ///< of the copy among those of its thread, from 1
  Bytes bytes;
  std::size_t site = 0;                ///< index in ProcessCopies::sites, from 1; 0: not known
  std::optional<CopyDigest> digest{};  ///< none: the library did not see when the copy was done
  std::optional<CopySource> source{};
};

/// All copies of one process.
struct ProcessCopies {
  int pid = 0;
  std::uint64_t started = 0;  ///< nanoseconds of the system's clock
  std::string program;
  /// What tells the process from the others of its run, and is the same in each run of the program
  /// if it can be: its rank, else its command line. Processes may have the same; empty: not told.
  std::string place;
  std::vector<CopyRecord> copies;  ///< by thread, and then by number
  std::vector<std::string> kernels;
  /// Where the program asked for copies: frames, innermost first, as call sites of traces have them
  /// (docs/trace-format.md).
  std::vector<std::vector<std::string>> sites;

  /// The frames of a copy; empty where they are not known.
  [[nodiscard]] std::vector<std::string> frames_of(const CopyRecord& copy) const {
    return copy.site > 0 && copy.site <= sites.size() ? sites[copy.site - 1]
                                                      : std::vector<std::string>();
  }
};

/// The lines of the file, each with its end.
[[nodiscard]] std::string copies_header(int pid, std::uint64_t started, const std::string& program);
[[nodiscard]] std::string place_line(const std::string& place);
[[nodiscard]] std::string kernel_line(std::size_t index, const std::string& name);
/// `frames`: one a line.
[[nodiscard]] std::string site_line(std::size_t index, const std::string& frames);
[[nodiscard]] std::string copy_line(const CopyRecord& record);

/// Reads the file at `path`. A last line without an end is left out: its process died in it.
/// @return what is wrong with it, in one line that names the file, if it is not such a file.
[[nodiscard]] std::variant<ProcessCopies, std::string> read_copies(const std::string& path);

}  // namespace superpipe
