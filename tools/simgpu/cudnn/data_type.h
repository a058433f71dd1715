// The types of numbers that tensors hold.
#pragma once

#include <cstdint>

namespace simgpu::cudnn {

/// Bytes of one number of that cudnnDataType_t. Types below a byte count as one. Source: cuDNN,
/// cudnnDataType_t.
inline std::uint64_t bytes_of(int type) {
  switch (type) {
    case 1:   // double
    case 10:  // int64
    case 20:  // complex
      return 8;
    case 21:  // double complex
      return 16;
    case 2:  // half
    case 9:  // bfloat16
      return 2;
    case 0:   // float
    case 4:   // int32
    case 14:  // float in place of 8 bits
    case 19:  // uint32
      return 4;
    default:
      return 1;
  }
}

}  // namespace simgpu::cudnn
