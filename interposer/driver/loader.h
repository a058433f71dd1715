// Finds the real driver, opens it, and fills the driver table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "interposer/driver/cuda_api.h"

namespace superpipe {

/// The processors for which libraries are found.
enum class Processor : std::uint8_t { kX8664, kAarch64 };

/// The one that this library was compiled for.
#if defined(__aarch64__)
inline constexpr Processor kOwnProcessor = Processor::kAarch64;
#else
inline constexpr Processor kOwnProcessor = Processor::kX8664;
#endif

/// Where a driver may lie; a value, so that the search is tested without the machine's own driver.
struct DriverSearch {
  std::string chosen;                   ///< SUPERPIPE_DRIVER; empty: search
  std::string library_path;             ///< LD_LIBRARY_PATH
  std::string cache_file;               ///< the loader's cache, /etc/ld.so.cache
  std::vector<std::string> folders;     ///< searched last
  std::string own_file;                 ///< this library, never taken for the driver
  Processor processor = kOwnProcessor;  ///< whose libraries of the cache are taken
};

/// What was found: `path` is empty if nothing was, and `problem` then says what to do.
struct FoundDriver {
  std::string path;
  std::string problem;
};

/// Looks for the driver as the loader would, skipping ourselves and the toolkit's link-time stub.
///
/// Reads the file system, loads nothing. A chosen driver that is missing is an error; no other is
/// then looked for.
[[nodiscard]] FoundDriver find_driver(const DriverSearch& search);

/// The search of this process: its environment and the usual folders.
[[nodiscard]] DriverSearch search_of_process();

/// The folders in which distributions, NVIDIA's packages, WSL and Tegra's system put the driver of
/// a machine with `processor`; those of forward compatibility, which few devices take, last.
[[nodiscard]] std::vector<std::string> driver_folders(Processor processor);

/// The paths under which the loader's cache file (format "glibc-ld.so.cache1.1") knows the library
/// `name` of 64-bit programs for `processor`, in its order. Empty if the file is missing or
/// malformed. Source: glibc, dl-cache.h and ldconfig.h.
[[nodiscard]] std::vector<std::string> paths_in_loader_cache(const std::string& cache_file,
                                                             const std::string& name,
                                                             Processor processor);

/// Whether the ELF file binds its own symbols first (-Bsymbolic): its internal cu* calls then never
/// reach us, and RTLD_DEEPBIND is not needed. False if it cannot be read.
[[nodiscard]] bool is_linked_symbolically(const std::string& path);

/// The driver's function for slot `index`, loading the driver if it is not loaded; null if the
/// driver or the function is missing, or if called from the driver's own initialisation.
///
/// Any thread; the first call takes as long as dlopen does.
[[nodiscard]] void* resolve_driver_function(std::size_t index) noexcept;

/// What a call to a function that could not be resolved returns: CUDA_ERROR_NO_DEVICE from cuInit,
/// CUDA_ERROR_NOT_INITIALIZED from the rest when there is no driver, CUDA_ERROR_NOT_SUPPORTED when
/// the driver is older than the function. One line says so, once per function, unless OptionalCalls
/// are made.
[[nodiscard]] CUresult answer_without_function(std::size_t index) noexcept;

/// While one lives, what the calling thread calls of the driver is optional: where an older one
/// lacks a function, answer_without_function() says nothing of it.
class OptionalCalls {
 public:
  OptionalCalls() noexcept;
  ~OptionalCalls();
  OptionalCalls(const OptionalCalls&) = delete;
  OptionalCalls& operator=(const OptionalCalls&) = delete;
};

/// Keeps `text` to be logged as an error when the driver is loaded: what concerns only programs
/// that use CUDA stays unsaid in others. Not thread-safe: called before the program starts.
void say_when_driver_loads(std::string text);

/// Has `function` called once the driver was looked for: it is loaded, or a line has said why it is
/// not. Not thread-safe: called before the program starts.
void call_when_driver_is_looked_for(void (*function)() noexcept);

/// Whether anything has called the driver, or is about to, in this process or in one that was
/// forked to it: until then, a forked child is as good as a new process. Any thread.
[[nodiscard]] bool driver_was_looked_for() noexcept;

/// The driver that was loaded; empty before, and when there is none.
[[nodiscard]] const std::string& loaded_driver_path() noexcept;

/// Whether the driver that is loaded is of CUDA 11 or before, so that all hooks pass through from
/// its loading on (hooks_disabled). The hook that loaded it asks.
[[nodiscard]] bool driver_is_too_old() noexcept;

/// Whether a driver is loaded (false before the first call).
[[nodiscard]] bool driver_is_loaded() noexcept;

/// Says in one line each which other drivers the process has opened: by an absolute path, or by a
/// name that leads past us (libcuda.so). We do not see what is called through those. Further calls
/// say nothing of a driver that was said. Looks at the loader's list of libraries, which takes
/// microseconds, so it is called where a context begins and at exit. Any thread; calls no driver
/// function.
bool say_foreign_drivers();

}  // namespace superpipe
