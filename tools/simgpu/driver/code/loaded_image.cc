#include "tools/simgpu/driver/code/loaded_image.h"

#include <utility>

namespace simgpu {

KernelCode::KernelCode(const KernelImage& image, const SimgpuKernel* host)
    : image_(image), host_(host) {
  if (!image.parameters.empty()) {
    const ParameterLayout& last = image.parameters.back();
    parameter_bytes_ = last.offset + last.size;
  }
}

const KernelWords& KernelCode::words() const {
  std::call_once(demangled_, [this] { words_.emplace(image_.name, image_.parameters); });
  return *words_;
}

LoadedImage::LoadedImage(ModuleImage image, const KernelPlugins& plugins)
    : image_(std::move(image)) {
  for (const KernelImage& kernel : image_.kernels) {
    kernel_index_.emplace(kernel.name, static_cast<int>(kernels_.size()));
    kernels_.push_back(std::make_unique<KernelCode>(kernel, plugins.find(kernel.name)));
  }
  for (const GlobalImage& global : image_.globals) globals_.emplace(global.name, &global);
}

int LoadedImage::find_kernel(std::string_view name) const {
  const auto found = kernel_index_.find(name);
  return found == kernel_index_.end() ? -1 : found->second;
}

const GlobalImage* LoadedImage::find_global(std::string_view name) const {
  const auto found = globals_.find(name);
  return found == globals_.end() ? nullptr : found->second;
}

}  // namespace simgpu
