// How much device memory a CUDA array takes.
#pragma once

#include <optional>

#include "interposer/driver/cuda_api.h"
#include "policy/units.h"

namespace superpipe {

/// The least that `levels` mipmap levels of `array` take: their elements, without the padding of
/// rows and tiles, which only the driver knows. Pure.
/// @return nullopt if the array gets no memory when it is made (sparse arrays, deferred mappings),
/// or if the driver will refuse the description.
[[nodiscard]] std::optional<Bytes> array_size(const CUDA_ARRAY3D_DESCRIPTOR& array,
                                              unsigned int levels) noexcept;

}  // namespace superpipe
