// Kernel launches: the hot path. While all is resident nothing here logs or allocates, and the only
// driver call is the launch itself, except for kernels with arrays of pointers; residency takes its
// mutex twice, briefly.
#include <chrono>
#include <cstddef>
#include <type_traits>

#include "interposer/contexts/context_registry.h"
#include "interposer/contexts/managed_context.h"
#include "interposer/driver/codes.h"
#include "interposer/driver/cuda_api.h"
#include "interposer/driver/streams.h"
#include "interposer/driver/table.h"
#include "interposer/generated/hooks.h"
#include "interposer/hooks/launch_words.h"
#include "interposer/hooks/named_words.h"
#include "interposer/hooks/submit.h"
#include "interposer/hooks/traced.h"
#include "interposer/kernels/kernel_arguments.h"
#include "interposer/kernels/word_list.h"
#include "interposer/passthrough/passthrough_allocation.h"
#include "interposer/recording/copy_recorder.h"
#include "profiler/launch_clock.h"
#include "profiler/launch_overhead_meter.h"
#include "residency/residency_manager.h"
#include "residency/uses/use_token.h"

namespace superpipe {
namespace {

using Clock = std::chrono::steady_clock;

/// In place of a LaunchClock where no trace is recorded.
struct NoLaunchClock {
  explicit NoLaunchClock(TraceRecorder* /*trace*/) noexcept {}
  template <typename Call>
  auto wait(const Call& call) noexcept {
    return call();
  }
};

/// Announces a launch of a kernel with `layout`, submits it through `call`, ends the use.
/// `kTraced`: whether a trace is recorded, which is asked for once.
template <bool kTraced, typename Call>
CUresult launch_known(ManagedContext& managed, const KernelLayout& layout, void* const* parameters,
                      void* const* extra, GridSize grid, StreamHandle stream,
                      const Call& call) noexcept {
  const bool sampled = LaunchOverheadMeter::is_sampled();
  const auto start = sampled ? Clock::now() : Clock::time_point();

  if (managed.pins().has_pending()) [[unlikely]] {
    const Status status = managed.pins().pin_pending();
    if (status != Status::kOk) return managed.failure(status, CallKind::kSubmission);
  }
  WordList words;
  std::size_t certain;
  if (managed.pointer_arrays().any()) [[unlikely]] {
    certain = add_words_and_arrays(managed, &layout, parameters, extra, grid, words);
  } else {
    certain = add_launch_words(managed, &layout, parameters, extra, grid, words);
  }
  managed.note_launch(layout.kernel);
  if (words.failed()) [[unlikely]]
    return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  if (words.empty()) {
    managed.count_launch_without_buffers();
    if constexpr (kTraced) {
      LaunchClock clock(managed.trace());
      trace_launch(managed, clock, layout.kernel, stream);
      return clock.wait([&] { return timed_call(managed, layout.kernel, stream, call); });
    }
    return call();
  }
  if (!managed.can_order(stream)) [[unlikely]] {
    return submit_unordered(managed, words.words(), {}, stream, call);
  }
  UseToken token;
  token.set_certain_words(certain);
  std::conditional_t<kTraced, LaunchClock, NoLaunchClock> clock(managed.trace());
  const Status status = clock.wait([&] {
    return managed.residency().begin_launch(layout.kernel, words.words(), stream, token);
  });
  if (status != Status::kOk) return managed.failure(status, CallKind::kSubmission);
  if constexpr (kTraced) trace_launch(managed, clock, layout.kernel, stream, token);
  const auto submitting = sampled ? Clock::now() : Clock::time_point();
  CUresult result;
  if constexpr (kTraced) {
    result = clock.wait([&] { return timed_call(managed, layout.kernel, token, stream, call); });
  } else {
    result = call();
  }
  const auto submitted = sampled ? Clock::now() : Clock::time_point();
  const bool counts = sampled && !token.has_waited();
  managed.residency().end_use(token, stream, result == CUDA_SUCCESS);
  if (counts) [[unlikely]] {
    managed.overhead().add((submitting - start) + (Clock::now() - submitted));
  }
  return result;
}

/// Apart from the launches of all programs that record nothing, so that those take no longer.
template <typename Call>
[[gnu::noinline]] CUresult launch_traced(ManagedContext& managed, const KernelLayout& layout,
                                         void* const* parameters, void* const* extra, GridSize grid,
                                         StreamHandle stream, const Call& call) noexcept {
  return launch_known<true>(managed, layout, parameters, extra, grid, stream, call);
}

/// Tells the process's recorder of copies, if it has one, of a launch that superpipe leaves alone.
[[gnu::noinline]] void note_unmanaged(CUfunction function, void* const* parameters,
                                      void* const* extra, GridSize grid) noexcept {
  if (CopyRecorder* const recorder = CopyRecorder::of_process()) {
    recorder->note_launch(function, parameters, extra, grid);
  }
}

/// Launches a kernel of which the driver does not tell the parameters. Nothing shows what it uses,
/// so that what it may use stays on the device.
template <typename Call>
[[gnu::noinline]] CUresult launch_unknown(ManagedContext& managed, CUfunction function,
                                          void* const* parameters, void* const* extra,
                                          const Call& call) noexcept {
  if (!managed.moves()) return call();
  if (managed.pins().has_pending()) {
    const Status status = managed.pins().pin_pending();
    if (status != Status::kOk) return managed.failure(status, CallKind::kSubmission);
  }
  WordList words;
  (void)add_launch_words(managed, nullptr, parameters, extra, GridSize::unknown(), words);
  if (words.failed()) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  const Status status = managed.pins().pin(words.words(), "an unknown kernel may use them");
  if (status != Status::kOk) return managed.failure(status, CallKind::kSubmission);
  const CUresult result = call();
  // A handle that the driver does not know at all is the program's affair.
  if (result == CUDA_SUCCESS) managed.unknown_kernels().say(function);
  return result;
}

/// Finds the layout of `function`, or learns it at the first launch, and launches it. A function
/// that the driver does not know is not ours to judge.
template <typename Call>
CUresult launch(CUfunction function, void* const* parameters, void* const* extra, GridSize grid,
                StreamHandle stream, const Call& call) noexcept {
  ManagedContext* const managed = ContextRegistry::managed();
  if (managed == nullptr) {
    note_unmanaged(function, parameters, extra, grid);
    return call();
  }
  const KernelLayout* layout = managed->layouts().find(function);
  if (layout == nullptr) [[unlikely]] {
    // The driver loads the function's code for its first use, in one of these two calls. In between
    // the launch may wait for room, and nothing that other processes take then is code of this one.
    const auto first_call = [&call] {
      return change_passthrough(PassthroughChange::kGrowth, call);
    };
    layout = change_passthrough(PassthroughChange::kGrowth,
                                [&] { return managed->layouts().learn(function); });
    if (layout == nullptr) {
      return launch_unknown(*managed, function, parameters, extra, first_call);
    }
    return launch_traced(*managed, *layout, parameters, extra, grid, stream, first_call);
  }
  if (managed->trace() != nullptr) [[unlikely]] {
    return launch_traced(*managed, *layout, parameters, extra, grid, stream, call);
  }
  return launch_known<false>(*managed, *layout, parameters, extra, grid, stream, call);
}

}  // namespace

CUresult hook::cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                              unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
                              unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                              void** kernelParams, void** extra) noexcept {
  return launch(
      f, kernelParams, extra, {gridDimX, gridDimY}, stream_handle(hStream, kLegacyDefault), [&] {
        return driver().cuLaunchKernel(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY,
                                       blockDimZ, sharedMemBytes, hStream, kernelParams, extra);
      });
}

CUresult hook::cuLaunchKernel_ptsz(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                   unsigned int gridDimZ, unsigned int blockDimX,
                                   unsigned int blockDimY, unsigned int blockDimZ,
                                   unsigned int sharedMemBytes, CUstream hStream,
                                   void** kernelParams, void** extra) noexcept {
  return launch(f, kernelParams, extra, {gridDimX, gridDimY},
                stream_handle(hStream, kPerThreadDefault), [&] {
                  return driver().cuLaunchKernel_ptsz(f, gridDimX, gridDimY, gridDimZ, blockDimX,
                                                      blockDimY, blockDimZ, sharedMemBytes, hStream,
                                                      kernelParams, extra);
                });
}

CUresult hook::cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction f, void** kernelParams,
                                void** extra) noexcept {
  const auto call = [&] { return driver().cuLaunchKernelEx(config, f, kernelParams, extra); };
  if (config == nullptr) return call();
  return launch(f, kernelParams, extra, {config->gridDimX, config->gridDimY},
                stream_handle(config->hStream, kLegacyDefault), call);
}

CUresult hook::cuLaunchKernelEx_ptsz(const CUlaunchConfig* config, CUfunction f,
                                     void** kernelParams, void** extra) noexcept {
  const auto call = [&] { return driver().cuLaunchKernelEx_ptsz(config, f, kernelParams, extra); };
  if (config == nullptr) return call();
  return launch(f, kernelParams, extra, {config->gridDimX, config->gridDimY},
                stream_handle(config->hStream, kPerThreadDefault), call);
}

CUresult hook::cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                         unsigned int gridDimZ, unsigned int blockDimX,
                                         unsigned int blockDimY, unsigned int blockDimZ,
                                         unsigned int sharedMemBytes, CUstream hStream,
                                         void** kernelParams) noexcept {
  return launch(f, kernelParams, nullptr, {gridDimX, gridDimY},
                stream_handle(hStream, kLegacyDefault), [&] {
                  return driver().cuLaunchCooperativeKernel(f, gridDimX, gridDimY, gridDimZ,
                                                            blockDimX, blockDimY, blockDimZ,
                                                            sharedMemBytes, hStream, kernelParams);
                });
}

CUresult hook::cuLaunchCooperativeKernel_ptsz(CUfunction f, unsigned int gridDimX,
                                              unsigned int gridDimY, unsigned int gridDimZ,
                                              unsigned int blockDimX, unsigned int blockDimY,
                                              unsigned int blockDimZ, unsigned int sharedMemBytes,
                                              CUstream hStream, void** kernelParams) noexcept {
  return launch(f, kernelParams, nullptr, {gridDimX, gridDimY},
                stream_handle(hStream, kPerThreadDefault), [&] {
                  return driver().cuLaunchCooperativeKernel_ptsz(
                      f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ,
                      sharedMemBytes, hStream, kernelParams);
                });
}

CUresult hook::cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS* launchParamsList,
                                                    unsigned int numDevices,
                                                    unsigned int flags) noexcept {
  NamedWords named;
  for (unsigned int i = 0; launchParamsList != nullptr && i < numDevices; ++i) {
    CUDA_KERNEL_NODE_PARAMS_v1 node{};
    node.func = launchParamsList[i].function;
    node.kernelParams = launchParamsList[i].kernelParams;
    named.add(&node);
  }
  return submit_pinning(named, "cuLaunchCooperativeKernelMultiDevice", [&] {
    return change_passthrough(PassthroughChange::kGrowth, [&] {
      return driver().cuLaunchCooperativeKernelMultiDevice(launchParamsList, numDevices, flags);
    });
  });
}

}  // namespace superpipe
