// Which of our functions a looked-up driver function becomes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "interposer/generated/driver_table.h"

namespace superpipe {

/// A function that we export under the driver's name.
struct ExportedFunction {
  void* address;
  bool hooked;  ///< whether it does more than jump to the driver
};

/// What cuGetProcAddress can be asked for, and the function (an index into the driver table) that
/// answers it.
struct EntryPoint {
  const char* name;
  int version;
  bool per_thread;
  std::size_t function;
};

/// What the library exports, in the order of the driver table. Only the library itself has it.
extern const ExportedFunction kExportedFunctions[kDriverFunctionCount];

extern const EntryPoint kEntryPoints[];
extern const std::size_t kEntryPointCount;

/// Tells the lookup hooks what the library exports, before any of them runs. `exported` has
/// kDriverFunctionCount elements, in the order of the driver table, and lives as long as the
/// process. Without it (in tests) every lookup is the driver's own.
void set_exported_functions(const ExportedFunction* exported) noexcept;

/// Maps the driver's functions to ours by pointer identity.
///
/// Immutable once made: reads need no lock.
class FunctionMap {
 public:
  /// `real` holds the driver's address of each function, null where it has none.
  FunctionMap(const void* const* real, std::size_t count);

  /// The functions that the driver has at `address`: usually one; several if it exports one body
  /// under several names; none if `address` is no exported function of it. O(1).
  [[nodiscard]] std::vector<std::size_t> functions_at(const void* address) const;

 private:
  struct Slot {
    const void* address = nullptr;
    std::size_t function = 0;
  };
  std::vector<Slot> slots_;
};

/// The function that `name` of `version` (or the latest before it) means. `kNoFunction` if the
/// header does not know it.
inline constexpr std::size_t kNoFunction = SIZE_MAX;
[[nodiscard]] std::size_t function_of_entry_point(std::string_view name, int version,
                                                  bool per_thread) noexcept;

/// Whether every pointer that cuGetProcAddress returned so far was an exported function of the
/// driver. False: lookups fall back to name and version, and doctor says so.
[[nodiscard]] bool pointer_identity_holds() noexcept;

}  // namespace superpipe
