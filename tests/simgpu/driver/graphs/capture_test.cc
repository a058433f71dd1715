// Stream capture: what becomes a node, what joins a capture, what a capture forbids.
#include <thread>

#include "tests/simgpu/driver/graphs/graph_fixture.h"

namespace simgpu {
namespace {

class CaptureDriver : public GraphDriver {
 protected:
  void begin(CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL) {
    ASSERT_EQ(cuStreamBeginCapture_v2(stream_, mode), CUDA_SUCCESS);
  }
  CUgraph end() {
    CUgraph graph = nullptr;
    EXPECT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_SUCCESS);
    return graph;
  }
  /// Ends a capture that was invalidated.
  void expect_invalidated() {
    EXPECT_EQ(status_of(stream_), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    auto* graph = reinterpret_cast<CUgraph>(1);
    EXPECT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EXPECT_EQ(graph, nullptr);
    EXPECT_EQ(status_of(stream_), CU_STREAM_CAPTURE_STATUS_NONE);
  }
  static CUresult allocate() {
    CUdeviceptr address = 0;
    return cuMemAlloc_v2(&address, 4096);
  }
};

TEST_F(CaptureDriver, RunsNothingUntilTheGraphIsLaunched) {
  begin();
  ASSERT_EQ(cuMemsetD32Async(out_, 0, 8, stream_), CUDA_SUCCESS);
  ASSERT_EQ(add_on(stream_), CUDA_SUCCESS);
  ASSERT_EQ(add_on(stream_), CUDA_SUCCESS);
  EXPECT_EQ(status_of(stream_), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  const CUgraph graph = end();
  EXPECT_EQ(status_of(stream_), CU_STREAM_CAPTURE_STATUS_NONE);
  EXPECT_EQ(node_count(graph), 3U);
  EXPECT_EQ(runs(), 0.0F);
  const CUgraphExec executable = instantiate(graph);
  for (int launch = 0; launch < 3; ++launch) {
    launch_and_wait(executable);
    EXPECT_EQ(runs(), 2.0F) << launch;
  }
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
  launch_and_wait(executable);
  EXPECT_EQ(cuGraphExecDestroy(executable), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphLaunch(executable, stream_), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(CaptureDriver, MakesNodesOfCopiesFillsAndHostFunctions) {
  void* pinned = nullptr;
  ASSERT_EQ(cuMemAllocHost_v2(&pinned, 32), CUDA_SUCCESS);
  int calls = 0;
  begin();
  ASSERT_EQ(cuMemsetD8Async(out_, 0x11, 32, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyDtoHAsync_v2(pinned, out_, 32, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuLaunchHostFunc(
                stream_, [](void* data) { ++*static_cast<int*>(data); }, &calls),
            CUDA_SUCCESS);
  const CUgraph graph = end();
  EXPECT_EQ(calls, 0);
  launch_and_wait(instantiate(graph));
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(static_cast<unsigned char*>(pinned)[31], 0x11);
  EXPECT_EQ(cuMemFreeHost(pinned), CUDA_SUCCESS);
}

// A launch reads pageable memory when it runs, not when it was captured.
TEST_F(CaptureDriver, ReadsPageableMemoryAtEachLaunch) {
  std::vector<float> source(8, 3.0F);
  begin();
  ASSERT_EQ(cuMemcpyHtoDAsync_v2(out_, source.data(), 32, stream_), CUDA_SUCCESS);
  const CUgraphExec executable = instantiate(end());
  source.assign(8, 5.0F);
  launch_and_wait(executable);
  EXPECT_EQ(runs(), 5.0F);
}

TEST_F(CaptureDriver, SpreadsThroughEventsAndComesBack) {
  const CUstream side = make_stream();
  const CUevent fork = make_event();
  const CUevent join = make_event();
  const CUdeviceptr other = device(std::vector<float>(8, 0.0F));
  begin();
  ASSERT_EQ(add_on(stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(fork, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitEvent(side, fork, 0), CUDA_SUCCESS);
  EXPECT_EQ(status_of(side), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  ASSERT_EQ(add_on(side, other), CUDA_SUCCESS);
  ASSERT_EQ(add_on(stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(join, side), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitEvent(stream_, join, 0), CUDA_SUCCESS);
  ASSERT_EQ(add_on(stream_, other), CUDA_SUCCESS);
  const CUgraph graph = end();
  EXPECT_EQ(status_of(side), CU_STREAM_CAPTURE_STATUS_NONE);
  std::size_t edges = 0;
  ASSERT_EQ(cuGraphGetEdges_v2(graph, nullptr, nullptr, nullptr, &edges), CUDA_SUCCESS);
  EXPECT_EQ(edges, 4U);
  launch_and_wait(instantiate(graph));
  EXPECT_EQ(runs(), 2.0F);
  EXPECT_EQ(runs(other), 2.0F);
}

TEST_F(CaptureDriver, RefusesAForkThatDoesNotComeBack) {
  const CUstream side = make_stream();
  const CUevent fork = make_event();
  begin();
  ASSERT_EQ(cuEventRecord(fork, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitEvent(side, fork, 0), CUDA_SUCCESS);
  ASSERT_EQ(add_on(side), CUDA_SUCCESS);
  CUgraph graph = nullptr;
  EXPECT_EQ(cuStreamEndCapture(side, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  expect_invalidated();
  begin();
  ASSERT_EQ(cuEventRecord(fork, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitEvent(side, fork, 0), CUDA_SUCCESS);
  ASSERT_EQ(add_on(side), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  EXPECT_EQ(graph, nullptr);
  EXPECT_EQ(status_of(side), CU_STREAM_CAPTURE_STATUS_NONE);
}

TEST_F(CaptureDriver, RefusesDependenciesAcrossItsBorder) {
  const CUevent outside = make_event();
  ASSERT_EQ(cuEventRecord(outside, make_stream()), CUDA_SUCCESS);
  begin();
  EXPECT_EQ(cuStreamWaitEvent(stream_, outside, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  EXPECT_EQ(add_on(stream_), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  expect_invalidated();
}

TEST_F(CaptureDriver, RefusesToMergeWithAnother) {
  const CUstream second = make_stream();
  const CUevent event = make_event();
  begin();
  ASSERT_EQ(cuStreamBeginCapture_v2(second, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(event, second), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamWaitEvent(stream_, event, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
  CUgraph graph = nullptr;
  EXPECT_EQ(cuStreamEndCapture(second, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  expect_invalidated();
}

TEST_F(CaptureDriver, RefusesQuestionsAboutCapturedEvents) {
  const CUevent event = make_event();
  begin();
  ASSERT_EQ(cuEventRecord(event, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_CAPTURED_EVENT);
  expect_invalidated();
  EXPECT_EQ(cuEventSynchronize(event), CUDA_ERROR_CAPTURED_EVENT) << "and afterwards";
  EXPECT_EQ(cuStreamWaitEvent(stream_, event, 0), CUDA_ERROR_CAPTURED_EVENT);
  ASSERT_EQ(cuEventRecord(event, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuEventSynchronize(event), CUDA_SUCCESS) << "it was recorded anew";
}

TEST_F(CaptureDriver, RefusesToSynchroniseWhatItCaptures) {
  for (const auto& call : {+[](CUstream stream) { return cuStreamSynchronize(stream); },
                           +[](CUstream stream) { return cuStreamQuery(stream); },
                           +[](CUstream) { return cuCtxSynchronize(); }}) {
    begin(CU_STREAM_CAPTURE_MODE_RELAXED);
    EXPECT_EQ(call(stream_), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    expect_invalidated();
  }
}

TEST_F(CaptureDriver, RefusesTheLegacyStreamBesideABlockingOne) {
  CUstream const blocking = make_stream(CU_STREAM_DEFAULT);
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  CUgraph graph = nullptr;
  ASSERT_EQ(cuStreamBeginCapture_v2(blocking, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamIsCapturing(nullptr, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  EXPECT_EQ(status_of(blocking), CU_STREAM_CAPTURE_STATUS_ACTIVE) << "asking does no harm";
  EXPECT_EQ(add_on(nullptr), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  EXPECT_EQ(cuStreamEndCapture(blocking, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  begin(CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_EQ(add_on(nullptr), CUDA_SUCCESS) << "a non-blocking stream has nothing to do with it";
  EXPECT_NE(end(), nullptr);
  EXPECT_EQ(cuStreamBeginCapture_v2(nullptr, CU_STREAM_CAPTURE_MODE_RELAXED),
            CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

TEST_F(CaptureDriver, HasOneBeginAndOneEnd) {
  CUgraph graph = nullptr;
  EXPECT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_ERROR_ILLEGAL_STATE);
  begin();
  EXPECT_EQ(cuStreamBeginCapture_v2(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL),
            CUDA_ERROR_ILLEGAL_STATE);
  CUresult elsewhere = CUDA_SUCCESS;
  std::thread{[&] {
    cuCtxSetCurrent(context_);
    elsewhere = cuStreamEndCapture(stream_, &graph);
  }}.join();
  EXPECT_EQ(elsewhere, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  EXPECT_NE(end(), nullptr);
}

TEST_F(CaptureDriver, ForbidsUnsafeCallsByMode) {
  struct Case {
    CUstreamCaptureMode capture;
    CUstreamCaptureMode thread;
    bool same_thread;
    CUresult wanted;
  };
  constexpr auto kGlobal = CU_STREAM_CAPTURE_MODE_GLOBAL;
  constexpr auto kLocal = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
  constexpr auto kRelaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
  constexpr auto kRefused = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  for (const Case& each : std::vector<Case>{{kGlobal, kGlobal, true, kRefused},
                                            {kGlobal, kGlobal, false, kRefused},
                                            {kGlobal, kLocal, true, kRefused},
                                            {kGlobal, kLocal, false, CUDA_SUCCESS},
                                            {kGlobal, kRelaxed, true, CUDA_SUCCESS},
                                            {kGlobal, kRelaxed, false, CUDA_SUCCESS},
                                            {kLocal, kGlobal, true, kRefused},
                                            {kLocal, kGlobal, false, CUDA_SUCCESS},
                                            {kLocal, kRelaxed, true, CUDA_SUCCESS},
                                            {kRelaxed, kGlobal, true, CUDA_SUCCESS},
                                            {kRelaxed, kGlobal, false, CUDA_SUCCESS}}) {
    begin(each.capture);
    CUresult result = CUDA_SUCCESS;
    const auto call = [&] {
      cuCtxSetCurrent(context_);
      CUstreamCaptureMode mode = each.thread;
      ASSERT_EQ(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
      EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
      result = allocate();
      ASSERT_EQ(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
    };
    if (each.same_thread) {
      call();
    } else {
      std::thread{call}.join();
    }
    EXPECT_EQ(result, each.wanted) << each.capture << each.thread << each.same_thread;
    if (each.wanted == CUDA_SUCCESS) {
      EXPECT_NE(end(), nullptr);
    } else {
      expect_invalidated();
    }
  }
}

TEST_F(CaptureDriver, ForbidsEachUnsafeCall) {
  const CUstream other = make_stream();
  const CUevent event = make_event();
  void* pinned = nullptr;
  ASSERT_EQ(cuEventRecord(event, other), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAllocHost_v2(&pinned, 4096), CUDA_SUCCESS);
  const CUdeviceptr memory = device(std::vector<float>(8));
  float bytes[8] = {};
  const std::vector<std::byte> image = read_test_image("kernels.fatbin");
  CUmodule module = nullptr;
  void* more = nullptr;
  const std::vector<std::pair<const char*, std::function<CUresult()>>> calls = {
      {"cuMemFree", [&] { return cuMemFree_v2(memory); }},
      {"cuMemAllocHost", [&] { return cuMemAllocHost_v2(&more, 4096); }},
      {"cuMemFreeHost", [&] { return cuMemFreeHost(pinned); }},
      {"cuEventQuery", [&] { return cuEventQuery(event); }},
      {"cuEventSynchronize", [&] { return cuEventSynchronize(event); }},
      {"cuStreamSynchronize", [&] { return cuStreamSynchronize(other); }},
      {"cuMemcpyDtoH", [&] { return cuMemcpyDtoH_v2(bytes, out_, 32); }},
      {"cuModuleLoadData", [&] { return cuModuleLoadData(&module, image.data()); }}};
  for (const auto& [name, call] : calls) {
    begin();
    EXPECT_EQ(call(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) << name;
    expect_invalidated();
  }
  for (const auto& [name, call] : calls) EXPECT_EQ(call(), CUDA_SUCCESS) << name;
}

TEST_F(CaptureDriver, TellsAndChangesWhereItIs) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  cuuint64_t id = 0;
  CUgraph graph = nullptr;
  const CUgraphNode* dependencies = nullptr;
  const CUgraphEdgeData* data = nullptr;
  std::size_t count = 7;
  const auto ask = [&] {
    return cuStreamGetCaptureInfo_v3(stream_, &status, &id, &graph, &dependencies, &data, &count);
  };
  ASSERT_EQ(ask(), CUDA_SUCCESS);
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_NONE);
  EXPECT_EQ(cuStreamUpdateCaptureDependencies_v2(stream_, nullptr, nullptr, 0, 0),
            CUDA_ERROR_ILLEGAL_STATE);
  begin();
  ASSERT_EQ(ask(), CUDA_SUCCESS);
  EXPECT_EQ(count, 0U);
  ASSERT_EQ(add_on(stream_), CUDA_SUCCESS);
  ASSERT_EQ(ask(), CUDA_SUCCESS);
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  EXPECT_NE(id, 0U);
  ASSERT_EQ(count, 1U);
  CUgraphNode first = dependencies[0];
  // A node that the program adds itself, and takes as what comes before the next.
  CUgraphNode added = nullptr;
  ASSERT_EQ(cuGraphAddEmptyNode(&added, graph, &first, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamUpdateCaptureDependencies_v2(stream_, &added, nullptr, 1,
                                                 CU_STREAM_SET_CAPTURE_DEPENDENCIES),
            CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroyNode(added), CUDA_ERROR_INVALID_VALUE) << "not while capturing";
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_ERROR_INVALID_VALUE);
  CUgraphExec executable = nullptr;
  EXPECT_EQ(cuGraphInstantiateWithFlags(&executable, graph, 0), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(add_on(stream_), CUDA_SUCCESS);
  ASSERT_EQ(ask(), CUDA_SUCCESS);
  CUgraphNode last = dependencies[0];
  EXPECT_EQ(end(), graph);
  CUgraphNode before = nullptr;
  count = 1;
  ASSERT_EQ(cuGraphNodeGetDependencies_v2(last, &before, nullptr, &count), CUDA_SUCCESS);
  EXPECT_EQ(before, added);
}

TEST_F(CaptureDriver, AddsToAGraphThatIsThere) {
  const CUgraph graph = make_graph();
  CUgraphNode first = add_node(graph, {});
  ASSERT_EQ(cuStreamBeginCaptureToGraph(stream_, graph, &first, nullptr, 1,
                                        CU_STREAM_CAPTURE_MODE_GLOBAL),
            CUDA_SUCCESS);
  ASSERT_EQ(add_on(stream_), CUDA_SUCCESS);
  EXPECT_EQ(end(), graph);
  EXPECT_EQ(node_count(graph), 2U);
  launch_and_wait(instantiate(graph));
  EXPECT_EQ(runs(), 2.0F);
}

TEST_F(CaptureDriver, RecordsAndAwaitsEventsOutsideOfTheGraph) {
  const CUevent event = make_event();
  EXPECT_EQ(cuEventRecordWithFlags(event, stream_, CU_EVENT_RECORD_EXTERNAL),
            CUDA_ERROR_INVALID_VALUE);
  begin();
  ASSERT_EQ(add_on(stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecordWithFlags(event, stream_, CU_EVENT_RECORD_EXTERNAL), CUDA_SUCCESS);
  const CUgraph graph = end();
  EXPECT_EQ(node_count(graph), 2U);
  const CUgraphExec executable = instantiate(graph);
  ASSERT_EQ(cuGraphLaunch(executable, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuEventSynchronize(event), CUDA_SUCCESS);
  EXPECT_EQ(runs(), 1.0F);
}

TEST_F(CaptureDriver, MakesAChildGraphOfALaunch) {
  begin();
  ASSERT_EQ(add_on(stream_), CUDA_SUCCESS);
  const CUgraphExec inner = instantiate(end());
  begin();
  ASSERT_EQ(cuGraphLaunch(inner, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphLaunch(inner, stream_), CUDA_SUCCESS);
  const CUgraph graph = end();
  EXPECT_EQ(runs(), 0.0F);
  launch_and_wait(instantiate(graph));
  EXPECT_EQ(runs(), 2.0F);
}

TEST_F(CaptureDriver, EndsWithItsStream) {
  const CUstream gone = make_stream();
  ASSERT_EQ(cuStreamBeginCapture_v2(gone, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamDestroy_v2(gone), CUDA_SUCCESS);
  EXPECT_EQ(allocate(), CUDA_SUCCESS) << "no capture forbids it";
}

TEST_F(CaptureDriver, RefusesWhatCannotBeCaptured) {
  begin();
  EXPECT_EQ(cuStreamAddCallback(
                stream_, [](CUstream, CUresult, void*) {}, nullptr, 0),
            CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  expect_invalidated();
}

}  // namespace
}  // namespace simgpu
