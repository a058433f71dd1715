#include "examples/minilm/safetensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>

namespace minilm {
namespace {

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kMostHeaderBytes = 100'000'000;  // the format's own limit

/// Bytes of an element of the given type; 0 for a type that the format does not have.
std::uint64_t element_bytes(std::string_view type) {
  if (type == "F64" || type == "I64" || type == "U64") return 8;
  if (type == "F32" || type == "I32" || type == "U32") return 4;
  if (type == "F16" || type == "BF16" || type == "I16" || type == "U16") return 2;
  if (type == "I8" || type == "U8" || type == "BOOL" || type == "F8_E4M3" || type == "F8_E5M2") {
    return 1;
  }
  return 0;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path) : path_(path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) refuse(std::generic_category().message(errno));
  struct stat status = {};
  void* mapped = MAP_FAILED;
  if (fstat(file, &status) == 0 && status.st_size > 0) {
    size_ = static_cast<std::uint64_t>(status.st_size);
    mapped = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
  }
  const int error = errno;
  close(file);
  if (status.st_size == 0) refuse("it is empty");
  if (mapped == MAP_FAILED) refuse(std::generic_category().message(error));
  bytes_ = static_cast<const std::byte*>(mapped);
  try {
    read_header();
  } catch (...) {
    munmap(mapped, size_);
    throw;
  }
}

SafetensorsFile::~SafetensorsFile() {
  munmap(const_cast<std::byte*>(bytes_), size_);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
}

void SafetensorsFile::refuse(const std::string& why) const {
  throw std::runtime_error("cannot read '" + path_ + "': " + why);
}

void SafetensorsFile::read_header() {
  if (size_ < kLengthBytes) refuse("shorter than a safetensors header");
  std::uint64_t header_bytes = 0;  // little-endian in the file, as are all machines CUDA runs on
  std::memcpy(&header_bytes, bytes_, kLengthBytes);
  if (header_bytes > kMostHeaderBytes) refuse("not a safetensors file: impossible header length");
  if (header_bytes > size_ - kLengthBytes) refuse("cut off inside the header");
  data_offset_ = kLengthBytes + header_bytes;
  const std::uint64_t data_bytes = size_ - data_offset_;
  const char* const text = reinterpret_cast<const char*>(bytes_ + kLengthBytes);
  const auto header = nlohmann::json::parse(text, text + header_bytes, nullptr, false);
  if (!header.is_object()) refuse("not a safetensors file: the header is no JSON object");
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    Tensor tensor;
    try {
      tensor.type = entry.at("dtype").get<std::string>();
      tensor.shape = entry.at("shape").get<std::vector<std::uint64_t>>();
      const auto offsets = entry.at("data_offsets").get<std::vector<std::uint64_t>>();
      if (offsets.size() != 2) refuse("tensor '" + name + "' needs two data offsets");
      tensor.begin = offsets[0];
      tensor.end = offsets[1];
    } catch (const nlohmann::json::exception&) {
      refuse("the header's entry of tensor '" + name + "' is malformed");
    }
    std::uint64_t expected = element_bytes(tensor.type);
    if (expected == 0) refuse("tensor '" + name + "' has the unknown type " + tensor.type);
    for (const std::uint64_t extent : tensor.shape) {
      if (__builtin_mul_overflow(expected, extent, &expected)) {
        refuse("the shape of tensor '" + name + "' overflows");
      }
    }
    if (tensor.begin > tensor.end || tensor.end > data_bytes) {
      refuse("tensor '" + name + "' reaches past the end of the file (is it cut off?)");
    }
    if (tensor.end - tensor.begin != expected) {
      refuse("tensor '" + name + "' has other bytes than its type and shape need");
    }
    tensors_.emplace(name, std::move(tensor));
  }
}

std::span<const float> SafetensorsFile::floats(std::string_view name,
                                               std::span<const std::uint64_t> shape) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) refuse("it has no tensor '" + std::string(name) + "'");
  const Tensor& tensor = found->second;
  if (tensor.type != "F32") {
    refuse("tensor '" + std::string(name) + "' is " + tensor.type + ", need F32");
  }
  if (!std::equal(shape.begin(), shape.end(), tensor.shape.begin(), tensor.shape.end())) {
    refuse("tensor '" + std::string(name) + "' has another shape than the model's");
  }
  const std::byte* const begin = bytes_ + data_offset_ + tensor.begin;
  if (reinterpret_cast<std::uintptr_t>(begin) % alignof(float) != 0) {
    refuse("tensor '" + std::string(name) + "' is not aligned");
  }
  return {reinterpret_cast<const float*>(begin), (tensor.end - tensor.begin) / sizeof(float)};
}

}  // namespace minilm
