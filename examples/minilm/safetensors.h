// Reads files in the safetensors format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace minilm {

/// A safetensors file, mapped read-only into memory.
///
/// The header is checked whole when the file is opened: its size, its JSON, that every tensor's
/// bytes lie inside the file and are as many as type and shape say. So a cut or a damaged file is
/// refused, and no tensor reaches outside the mapping. Reading is safe from any thread.
/// Source: the format's description in the README of the safetensors project.
class SafetensorsFile {
 public:
  /// Maps the file. Throws std::runtime_error, naming the file and what is wrong with it.
  explicit SafetensorsFile(const std::string& path);
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;
  ~SafetensorsFile();

  /// The float32 tensor `name`, which must have exactly the given shape, row-major. Points into the
  /// mapping, valid while this object lives. Throws std::runtime_error where the tensor is missing,
  /// or of another type or shape.
  [[nodiscard]] std::span<const float> floats(std::string_view name,
                                              std::span<const std::uint64_t> shape) const;

 private:
  struct Tensor {
    std::string type;
    std::vector<std::uint64_t> shape;
    std::uint64_t begin;  // offsets into the data behind the header
    std::uint64_t end;
  };

  void read_header();
  [[noreturn]] void refuse(const std::string& why) const;

  std::string path_;
  const std::byte* bytes_ = nullptr;
  std::uint64_t size_ = 0;
  std::uint64_t data_offset_ = 0;
  std::map<std::string, Tensor, std::less<>> tensors_;
};

}  // namespace minilm
