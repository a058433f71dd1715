#include "interposer/kernels/unknown_kernels.h"

#include <array>
#include <exception>
#include <string>

#include "interposer/driver/loader.h"
#include "interposer/driver/table.h"
#include "interposer/kernels/kernel_arguments.h"
#include "interposer/kernels/readable_memory.h"
#include "interposer/log.h"

namespace superpipe {

void UnknownKernels::say(CUfunction function) noexcept try {
  {
    const std::lock_guard lock(mutex_);
    if (!said_.insert(function).second) return;
  }
  const OptionalCalls optional;  // since CUDA 12.3
  const char* name = nullptr;
  if (driver().cuFuncGetName(&name, function) != CUDA_SUCCESS) name = nullptr;
  log_line(LogLevel::kWarning,
           std::string("the driver does not tell the parameters of kernel ") +
               (name == nullptr ? "without a name" : name) +
               ": all that its arguments may name stays on the device from now on; what it finds "
               "through pointers in device memory may not be there");
} catch (const std::exception&) {
  // Out of memory: it is said at another launch.
}

void UnknownKernels::collect(const ResidencyManager& residency, const TensorMaps& maps,
                             void* const* parameters, WordList& words) noexcept {
  const auto is_pointer = [&residency](std::uint64_t word) {
    return residency.in_arena(word) && residency.find(word).has_value();
  };
  for (std::size_t i = 0; i < kParameters; ++i) {
    const void* place = nullptr;
    std::array<char, kParameterBytes> bytes;
    const auto pointer = read_if_readable(&parameters[i], static_cast<void*>(&place), sizeof place);
    if (pointer && *pointer != sizeof place) return;
    const auto read = pointer ? read_if_readable(place, bytes.data(), bytes.size()) : std::nullopt;
    if (!read) return words.fail();
    if (*read == 0) return;  // no parameter any more
    collect_bytes(bytes.data(), *read, is_pointer, words);
    maps.collect_all(bytes.data(), *read, 0, TensorMaps::kStepInArguments, words);
  }
}

}  // namespace superpipe
