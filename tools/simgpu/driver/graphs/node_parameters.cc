#include "tools/simgpu/driver/graphs/node_parameters.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "tools/simgpu/driver/context/context_table.h"
#include "tools/simgpu/driver/device/device.h"
#include "tools/simgpu/driver/entry/unsupported.h"
#include "tools/simgpu/driver/graphs/capture.h"
#include "tools/simgpu/driver/process/log.h"
#include "tools/simgpu/driver/streams/event.h"

namespace simgpu {
namespace {

struct ConditionalHandle {
  unsigned value = 0;
  bool has_value = false;
};

/// Under graphs_mutex().
std::map<CUgraphConditionalHandle, ConditionalHandle>& conditional_handles() {
  static auto* const handles = new std::map<CUgraphConditionalHandle, ConditionalHandle>;
  return *handles;
}

/// The context that a node names, the current one for null.
Context* node_context_of(Context& current, CUcontext handle) {
  Context* const context = handle == nullptr ? &current : find_context(handle);
  return context != nullptr && context->alive() ? context : nullptr;
}

bool is_valid_size(const CUDA_CONDITIONAL_NODE_PARAMS& parameters) {
  switch (parameters.type) {
    case CU_GRAPH_COND_TYPE_IF:
      return parameters.size == 1 || parameters.size == 2;
    case CU_GRAPH_COND_TYPE_WHILE:
      return parameters.size == 1;
    case CU_GRAPH_COND_TYPE_SWITCH:
      return parameters.size >= 1;
    default:
      return false;
  }
}

/// Says once what simgpu makes of conditional nodes.
void note_conditional_nodes() {
  static std::atomic<bool> said{false};
  if (!said.exchange(true)) {
    log_line(LogLevel::kWarning,
             "conditional nodes of graphs follow the default values of their handles: simgpu runs "
             "no device code that could set others");
  }
}

/// Refuses kind number `Kind` of nodes, and says so once.
template <int Kind>
CUresult unsupported_node(const char* description) {
  static std::atomic<bool> said{false};
  return unsupported(description, said);
}

}  // namespace

CUresult work_of(Context& context, const CUDA_KERNEL_NODE_PARAMS_v2& parameters,
                 NodeWorkPtr* work) {
  CUfunction function = parameters.func;
  Context* owner = &context;
  if (function != nullptr) {
    const FunctionPtr found = ModuleRegistry::instance().find(function);
    if (found != nullptr) owner = found->context;
  } else {
    if (parameters.kern == nullptr) return CUDA_ERROR_INVALID_VALUE;
    function = reinterpret_cast<CUfunction>(parameters.kern);
    if (parameters.ctx != nullptr) owner = find_context(parameters.ctx);
    if (owner == nullptr || !owner->alive()) return CUDA_ERROR_INVALID_CONTEXT;
  }
  LaunchRequest request;
  request.function = function;
  request.shape.grid = {parameters.gridDimX, parameters.gridDimY, parameters.gridDimZ};
  request.shape.block = {parameters.blockDimX, parameters.blockDimY, parameters.blockDimZ};
  request.shape.shared_bytes = parameters.sharedMemBytes;
  request.parameters = parameters.kernelParams;
  request.extra = parameters.extra;
  KernelNodeWork made;
  if (const CUresult result = prepare(*owner, request, &made.launch); result != CUDA_SUCCESS) {
    return result;
  }
  made.as_extra = parameters.extra != nullptr;
  *work = seal(std::move(made));
  return CUDA_SUCCESS;
}

CUresult work_of(Context& context, const CUDA_MEMCPY3D& parameters, CUcontext node_context,
                 NodeWorkPtr* work) {
  Context* const owner = node_context_of(context, node_context);
  if (owner == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  CopyNodeWork made;
  made.description = parameters;
  made.context = owner;
  CUresult result = work_of("a memcpy node", parameters, &made.copy);
  if (result == CUDA_SUCCESS && made.copy.box.bytes() == 0) result = CUDA_ERROR_INVALID_VALUE;
  if (result == CUDA_SUCCESS) result = classify(made.copy.target, made.copy.box, true);
  if (result == CUDA_SUCCESS) result = classify(made.copy.source, made.copy.box, false);
  if (result == CUDA_SUCCESS) *work = seal(std::move(made));
  return result;
}

CUresult work_of(Context& context, const CUDA_MEMSET_NODE_PARAMS_v1& parameters,
                 CUcontext node_context, NodeWorkPtr* work) {
  Context* const owner = node_context_of(context, node_context);
  if (owner == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const unsigned element = parameters.elementSize;
  if ((element != 1 && element != 2 && element != 4) || parameters.width == 0 ||
      parameters.height == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const FillWork fill{.name = "a memset node",
                      .address = parameters.dst,
                      .pitch = parameters.height > 1 ? parameters.pitch : 0,
                      .value = parameters.value,
                      .element_size = element,
                      .width = parameters.width,
                      .height = parameters.height};
  End target;
  const CUresult result = check(fill, &target);
  if (result == CUDA_SUCCESS) *work = seal(FillNodeWork{fill, owner});
  return result;
}

CUresult work_of(const CUDA_HOST_NODE_PARAMS_v1& parameters, NodeWorkPtr* work) {
  if (parameters.fn == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *work = seal(HostWork{parameters.fn, parameters.userData});
  return CUDA_SUCCESS;
}

CUresult event_work_of(CUevent event, bool records, NodeWorkPtr* work) {
  EventRecord last;
  if (const CUresult result = event_record(event, &last); result != CUDA_SUCCESS) return result;
  *work = records ? seal(RecordWork{event}) : seal(WaitWork{event});
  return CUDA_SUCCESS;
}

CUresult child_work_of(const Graph& parent, CUgraph handle,
                       CUgraphChildGraphNodeOwnership ownership, NodeWorkPtr* work) {
  const GraphPtr child = Graph::find(handle);
  if (child == nullptr || child.get() == &parent || child->has_conditional_nodes()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE) {
    if (child->owned_by_node || child->captures != 0) return CUDA_ERROR_INVALID_VALUE;
    child->owned_by_node = true;
    *work = seal(ChildWork{child});
    return CUDA_SUCCESS;
  }
  if (ownership != CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE || child->has_memory_nodes()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  ChildWork made{child->clone(true)};
  made.graph->owned_by_node = true;
  *work = seal(std::move(made));
  return CUDA_SUCCESS;
}

CUresult allocation_work_of(const CUmemPoolProps& properties, std::uint64_t size, NodeWorkPtr* work,
                            CUdeviceptr* address) {
  if (properties.allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
      properties.handleTypes != CU_MEM_HANDLE_TYPE_NONE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (properties.location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
  Device* const device = find_device(properties.location.id);
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  AllocateWork made;
  made.properties = properties;
  if (const CUresult result = GraphAllocation::create(*device, size, &made.allocation);
      result != CUDA_SUCCESS) {
    return result;
  }
  *address = made.allocation->address();
  *work = seal(std::move(made));
  return CUDA_SUCCESS;
}

CUgraphConditionalHandle make_conditional_handle(Graph& graph, unsigned value, unsigned flags) {
  static CUgraphConditionalHandle last = 0;
  ++last;
  conditional_handles()[last] = {value, (flags & CU_GRAPH_COND_ASSIGN_DEFAULT) != 0};
  graph.conditional_handles.push_back(last);
  return last;
}

CUresult conditional_work_of(CUDA_CONDITIONAL_NODE_PARAMS& parameters, NodeWorkPtr* work) {
  const auto handle = conditional_handles().find(parameters.handle);
  if (handle == conditional_handles().end() || !is_valid_size(parameters)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!handle->second.has_value) {
    return unsupported_node<0>("a conditional node whose handle has no default value");
  }
  if (parameters.type == CU_GRAPH_COND_TYPE_WHILE && handle->second.value != 0) {
    return unsupported_node<1>("a while node whose condition device code would have to end");
  }
  note_conditional_nodes();
  ConditionalWork made;
  made.handle = parameters.handle;
  made.type = parameters.type;
  made.value = handle->second.value;
  for (unsigned index = 0; index < parameters.size; ++index) {
    made.bodies.push_back(Graph::create(true));
    made.bodies.back()->owned_by_node = true;
    made.bodies.back()->conditional_body = true;
    made.body_handles.push_back(made.bodies.back()->handle());
  }
  *work = seal(std::move(made));
  const auto& sealed = std::get<ConditionalWork>(**work);
  parameters.phGraph_out = const_cast<CUgraph*>(sealed.body_handles.data());
  return CUDA_SUCCESS;
}

CUresult work_of(Context& context, const Graph& graph, CUgraphNodeParams& parameters,
                 NodeWorkPtr* work) {
  switch (parameters.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
      CUDA_KERNEL_NODE_PARAMS_v2 kernel{};
      static_assert(sizeof(kernel) == sizeof(parameters.kernel));
      std::memcpy(&kernel, &parameters.kernel, sizeof(kernel));
      return work_of(context, kernel, work);
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return work_of(context, parameters.memcpy.copyParams, parameters.memcpy.copyCtx, work);
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      CUDA_MEMSET_NODE_PARAMS_v1 memset{};
      std::memcpy(&memset, &parameters.memset, sizeof(memset));
      return work_of(context, memset, parameters.memset.ctx, work);
    }
    case CU_GRAPH_NODE_TYPE_HOST:
      return work_of({parameters.host.fn, parameters.host.userData}, work);
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return child_work_of(graph, parameters.graph.graph, parameters.graph.ownership, work);
    case CU_GRAPH_NODE_TYPE_EMPTY:
      *work = seal(EmptyWork{});
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return event_work_of(parameters.eventWait.event, false, work);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return event_work_of(parameters.eventRecord.event, true, work);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      return allocation_work_of(parameters.alloc.poolProps, parameters.alloc.bytesize, work,
                                &parameters.alloc.dptr);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return free_work_of(graph, parameters.free.dptr, work);
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return conditional_work_of(parameters.conditional, work);
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
      return unsupported_node<2>("a node of external semaphores");
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return unsupported_node<3>("a node of batched memory operations");
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUDA_KERNEL_NODE_PARAMS_v2 parameters_of(const KernelNodeWork& kernel) {
  CUDA_KERNEL_NODE_PARAMS_v2 parameters{};
  const LaunchShape& shape = kernel.launch.shape;
  parameters.func = kernel.launch.handle;
  if (ModuleRegistry::instance().find(kernel.launch.handle) == nullptr) {
    parameters.kern = reinterpret_cast<CUkernel>(kernel.launch.handle);
    parameters.func = nullptr;
    (void)function_of(parameters.kern, *kernel.launch.function->context, &parameters.func);
  }
  parameters.ctx = kernel.launch.function->context->handle();
  parameters.gridDimX = shape.grid[0];
  parameters.gridDimY = shape.grid[1];
  parameters.gridDimZ = shape.grid[2];
  parameters.blockDimX = shape.block[0];
  parameters.blockDimY = shape.block[1];
  parameters.blockDimZ = shape.block[2];
  parameters.sharedMemBytes = shape.shared_bytes;
  if (kernel.as_extra) {
    parameters.extra = const_cast<void**>(kernel.extra.data());
  } else if (!kernel.pointers.empty()) {
    parameters.kernelParams = const_cast<void**>(kernel.pointers.data());
  }
  return parameters;
}

CUDA_MEMSET_NODE_PARAMS_v1 parameters_of(const FillNodeWork& fill) {
  CUDA_MEMSET_NODE_PARAMS_v1 parameters{};
  parameters.dst = fill.fill.address;
  parameters.pitch = fill.fill.pitch;
  parameters.value = fill.fill.value;
  parameters.elementSize = fill.fill.element_size;
  parameters.width = fill.fill.width;
  parameters.height = fill.fill.height;
  return parameters;
}

NodeWorkPtr keep_attributes(const NodeWork& now, NodeWorkPtr next) {
  const auto* const old_kernel = std::get_if<KernelNodeWork>(&now);
  const auto* const new_kernel = std::get_if<KernelNodeWork>(next.get());
  if (old_kernel == nullptr || new_kernel == nullptr) return next;
  KernelNodeWork changed = *new_kernel;
  changed.attributes = old_kernel->attributes;
  changed.launch.shape.cluster = old_kernel->launch.shape.cluster;
  changed.launch.shape.cooperative = old_kernel->launch.shape.cooperative;
  return seal(std::move(changed));
}

CUresult get_attribute(const KernelNodeWork& kernel, CUlaunchAttributeID attribute,
                       CUlaunchAttributeValue* value) {
  const LaunchShape& shape = kernel.launch.shape;
  CUlaunchAttributeValue found{};
  if (attribute == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
    found.clusterDim.x = shape.cluster[0];
    found.clusterDim.y = shape.cluster[1];
    found.clusterDim.z = shape.cluster[2];
  } else if (attribute == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) {
    found.cooperative = shape.cooperative ? 1 : 0;
  } else {
    CUlaunchAttribute asked{};
    asked.id = attribute;
    CUlaunchConfig config{};
    config.attrs = &asked;
    config.numAttrs = 1;
    if (const CUresult result = check_attributes(config); result != CUDA_SUCCESS) return result;
    const auto set = kernel.attributes.find(attribute);
    if (set != kernel.attributes.end()) found = set->second;
  }
  *value = found;
  return CUDA_SUCCESS;
}

CUresult set_attribute(KernelNodeWork& kernel, CUlaunchAttributeID attribute,
                       const CUlaunchAttributeValue& value) {
  CUlaunchAttribute given{};
  given.id = attribute;
  given.value = value;
  CUlaunchConfig config{};
  config.attrs = &given;
  config.numAttrs = 1;
  if (const CUresult result = check_attributes(config); result != CUDA_SUCCESS) return result;
  const LaunchShape asked = shape_of(config);
  LaunchShape shape = kernel.launch.shape;
  if (attribute == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
    shape.cluster = asked.cluster;
  } else if (attribute == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) {
    if (kernel.as_extra && asked.cooperative) return CUDA_ERROR_INVALID_VALUE;
    shape.cooperative = asked.cooperative;
  } else {
    kernel.attributes[attribute] = value;
    return CUDA_SUCCESS;
  }
  const CUresult result = check_shape(*kernel.launch.function, shape);
  if (result == CUDA_SUCCESS) kernel.launch.shape = shape;
  return result;
}

}  // namespace simgpu
