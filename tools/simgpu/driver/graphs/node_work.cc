#include "tools/simgpu/driver/graphs/node_work.h"

#include <utility>

#include "tools/simgpu/driver/device/device.h"
#include "tools/simgpu/driver/graphs/capture.h"

namespace simgpu {
namespace {

CUgraphExecUpdateResult check_kernel(const KernelNodeWork& now, const KernelNodeWork& next) {
  if (now.launch.function->context != next.launch.function->context) {
    return CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE;
  }
  return now.launch.shape.cooperative != next.launch.shape.cooperative
             ? CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED
             : CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

CUgraphExecUpdateResult check_copy(const CopyNodeWork& now, const CopyNodeWork& next) {
  const bool same = now.context == next.context && now.copy.source.side == next.copy.source.side &&
                    now.copy.target.side == next.copy.target.side;
  return same ? CU_GRAPH_EXEC_UPDATE_SUCCESS : CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
}

CUgraphExecUpdateResult check_fill(const FillNodeWork& now, const FillNodeWork& next) {
  const FillWork& from = now.fill;
  const FillWork& to = next.fill;
  const bool rows = from.height > 1 || to.height > 1;
  const bool same_rows = from.height == to.height && from.width == to.width &&
                         from.pitch == to.pitch && from.element_size == to.element_size;
  return now.context == next.context && (!rows || same_rows)
             ? CU_GRAPH_EXEC_UPDATE_SUCCESS
             : CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
}

/// Calls of functions by the kind of work.
template <typename... Functions>
struct ByKind : Functions... {
  using Functions::operator()...;
};
template <typename... Functions>
ByKind(Functions...) -> ByKind<Functions...>;

}  // namespace

NodeWorkPtr seal(NodeWork work) {
  auto sealed = std::make_shared<NodeWork>(std::move(work));
  if (auto* const kernel = std::get_if<KernelNodeWork>(sealed.get())) {
    std::vector<std::byte>& buffer = kernel->launch.parameters;
    kernel->pointers.clear();
    for (const ParameterLayout& parameter : kernel->launch.function->code->image().parameters) {
      kernel->pointers.push_back(buffer.data() + parameter.offset);
    }
    kernel->size = buffer.size();
    kernel->extra = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer.data(), CU_LAUNCH_PARAM_BUFFER_SIZE,
                     &kernel->size, CU_LAUNCH_PARAM_END};
  }
  return sealed;
}

NodeWorkPtr seal(PreparedLaunch launch, const Stream& /*stream*/) {
  KernelNodeWork work;
  work.launch = std::move(launch);
  return seal(std::move(work));
}

NodeWorkPtr seal(const CopyWork& copy, const Stream& stream) {
  return seal(CopyNodeWork{copy, description_of(copy), &context_of(stream)});
}

NodeWorkPtr seal(const FillWork& fill, const Stream& stream) {
  return seal(FillNodeWork{fill, &context_of(stream)});
}

CUgraphNodeType type_of(const NodeWork& work) {
  constexpr CUgraphNodeType kTypes[] = {
      CU_GRAPH_NODE_TYPE_EMPTY,        CU_GRAPH_NODE_TYPE_KERNEL,     CU_GRAPH_NODE_TYPE_MEMCPY,
      CU_GRAPH_NODE_TYPE_MEMSET,       CU_GRAPH_NODE_TYPE_HOST,       CU_GRAPH_NODE_TYPE_GRAPH,
      CU_GRAPH_NODE_TYPE_EVENT_RECORD, CU_GRAPH_NODE_TYPE_WAIT_EVENT, CU_GRAPH_NODE_TYPE_MEM_ALLOC,
      CU_GRAPH_NODE_TYPE_MEM_FREE,     CU_GRAPH_NODE_TYPE_CONDITIONAL};
  static_assert(std::size(kTypes) == std::variant_size_v<NodeWork>);
  return kTypes[work.index()];
}

Context* context_of(const NodeWork& work) {
  if (const auto* const kernel = std::get_if<KernelNodeWork>(&work)) {
    return kernel->launch.function->context;
  }
  if (const auto* const copy = std::get_if<CopyNodeWork>(&work)) return copy->context;
  if (const auto* const fill = std::get_if<FillNodeWork>(&work)) return fill->context;
  return nullptr;
}

bool is_memory_work(const NodeWork& work) {
  return std::holds_alternative<AllocateWork>(work) || std::holds_alternative<FreeWork>(work);
}

CUDA_MEMCPY3D description_of(const CopyWork& copy) {
  CUDA_MEMCPY3D description{};
  const auto rows_of = [](const End& end) { return end.pitch == 0 ? 0 : end.slice / end.pitch; };
  const auto is_device = [](const End& end) { return end.side == Side::kDevice; };
  if (is_device(copy.source)) {
    description.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    description.srcDevice = copy.source.address;
  } else {
    description.srcMemoryType = CU_MEMORYTYPE_HOST;
    description.srcHost = reinterpret_cast<const void*>(copy.source.address);
  }
  description.srcPitch = copy.source.pitch;
  description.srcHeight = rows_of(copy.source);
  if (is_device(copy.target)) {
    description.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    description.dstDevice = copy.target.address;
  } else {
    description.dstMemoryType = CU_MEMORYTYPE_HOST;
    description.dstHost = reinterpret_cast<void*>(copy.target.address);
  }
  description.dstPitch = copy.target.pitch;
  description.dstHeight = rows_of(copy.target);
  description.WidthInBytes = copy.box.width;
  description.Height = copy.box.height;
  description.Depth = copy.box.depth;
  return description;
}

Operation operation_of(const NodeWorkPtr& work, Context& context) {
  return std::visit(
      ByKind{[](const KernelNodeWork& kernel) { return operation_of(kernel.launch); },
             [&](const CopyNodeWork& copy) { return operation_of(copy.copy, context); },
             [&](const FillNodeWork& fill) { return operation_of(fill.fill, context); },
             [](const HostWork& host) {
               Operation call;
               call.label = "a host function";
               call.host_function = true;
               call.work = [host] {
                 const HostFunctionScope scope;
                 host.function(host.data);
               };
               return call;
             },
             [](const AllocateWork& allocate) {
               return GraphAllocation::allocate(allocate.allocation);
             },
             [](const FreeWork& release) { return GraphAllocation::free(release.allocation); },
             [](const auto&) {
               Operation nothing;
               nothing.label = "a node of a graph";
               return nothing;
             }},
      *work);
}

CUgraphExecUpdateResult check_change(const NodeWork& now, const NodeWork& next) {
  if (now.index() != next.index()) return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
  if (const auto* const kernel = std::get_if<KernelNodeWork>(&now)) {
    return check_kernel(*kernel, std::get<KernelNodeWork>(next));
  }
  if (const auto* const copy = std::get_if<CopyNodeWork>(&now)) {
    return check_copy(*copy, std::get<CopyNodeWork>(next));
  }
  if (const auto* const fill = std::get_if<FillNodeWork>(&now)) {
    return check_fill(*fill, std::get<FillNodeWork>(next));
  }
  if (is_memory_work(now)) return CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
  if (const auto* const conditional = std::get_if<ConditionalWork>(&now)) {
    const auto& other = std::get<ConditionalWork>(next);
    return conditional->type != other.type || conditional->bodies.size() != other.bodies.size()
               ? CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED
               : CU_GRAPH_EXEC_UPDATE_SUCCESS;
  }
  return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

}  // namespace simgpu
