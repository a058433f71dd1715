// H26: does an executable graph stay right when a page of its addresses changes its kind between
// two launches?

#include <algorithm>
#include <array>
#include <string>

#include "tools/superpipe/probes/host_pages.h"
#include "tools/superpipe/probes/kernels.h"

namespace superpipe::cli {
namespace {

using Json = ProbeReport::Json;

constexpr unsigned kFromHost = 71, kFromDevice = 72, kByKernel = 73;
constexpr unsigned char kByMemset = 0x5a;

/// A graph, ready to be launched.
class ExecutableGraph {
 public:
  /// Captures what `enqueue` puts on `stream`, whose kernels are loaded already.
  template <typename Enqueue>
  ExecutableGraph(Session& session, CUstream stream, const Enqueue& enqueue) : session_(session) {
    CUgraph graph = nullptr;
    session.cu().cuStreamBeginCapture.must(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    enqueue();
    session.cu().cuStreamEndCapture.must(stream, &graph);
    session.cu().cuGraphInstantiateWithFlags.must(&executable_, graph, 0);
    session.cu().cuGraphDestroy.must(graph);
  }
  ~ExecutableGraph() { session_.cu().cuGraphExecDestroy(executable_); }
  ExecutableGraph(const ExecutableGraph&) = delete;
  ExecutableGraph& operator=(const ExecutableGraph&) = delete;

  void launch(CUstream stream) const { session_.cu().cuGraphLaunch.must(executable_, stream); }

 private:
  Session& session_;
  CUgraphExec executable_ = nullptr;
};

/// An address whose page is now on the device and now on the host, and what graphs put there: a
/// quarter each by a copy from the host, a copy on the device, a memset and a kernel. Then a kernel
/// takes all words a step further, and two copies bring them to the host and to other memory.
class GraphSubject {
 public:
  GraphSubject(Session& session, const HostPlace& place, std::size_t bytes)
      : session_(session),
        bytes_(bytes),
        on_host_(session, bytes, place.location),
        on_device_(session, bytes),
        range_(session, bytes),
        source_(session, bytes),
        result_(session, bytes),
        from_host_(session, bytes / 4),
        to_host_(session, bytes),
        measure_(session) {
    measure_.fill(source_.address(), bytes / 4, kFromDevice);
    for (std::size_t i = 0; i < bytes / 4 / sizeof(unsigned); ++i) {
      from_host_.as<unsigned>()[i] = pattern_word(kFromHost, i);
    }
    measure_.wait();
  }

  /// Puts a page of that kind at the address. REQUIRES that nothing runs.
  void map(bool host) {
    if (is_mapped_) range_.unmap(0, bytes_);
    range_.map(host ? on_host_ : on_device_);
    is_mapped_ = true;
  }

  [[nodiscard]] ExecutableGraph graph() {
    enqueue();  // loads the kernels
    measure_.wait();
    return {session_, measure_.stream(), [this] { enqueue(); }};
  }

  /// Words that are wrong after a launch of `graph`, at either place that they are copied to.
  unsigned long long wrong_words(const ExecutableGraph& graph) {
    std::fill_n(to_host_.as<unsigned>(), bytes_ / sizeof(unsigned), 0U);
    session_.cu().cuMemsetD8Async.must(result_.address(), 0, bytes_, measure_.stream());
    graph.launch(measure_.stream());
    measure_.wait();
    unsigned long long wrong = differences(to_host_.as<unsigned>());
    // Ordered behind the graph, which is over.
    session_.cu().cuMemcpyDtoH.must(to_host_.data(), result_.address(), bytes_);
    wrong += differences(to_host_.as<unsigned>());
    return wrong;
  }

  /// GB/s of what the nodes read and write at the address.
  double gbps(const ExecutableGraph& graph) {
    return measure_.gbps(5 * bytes_, [&] { graph.launch(measure_.stream()); });
  }

 private:
  void enqueue() {
    const Driver& cu = session_.cu();
    const CUstream stream = measure_.stream();
    const CUdeviceptr at = range_.address();
    const std::size_t quarter = bytes_ / 4;
    const unsigned long long words = bytes_ / sizeof(unsigned);
    cu.cuMemcpyHtoDAsync.must(at, from_host_.data(), quarter, stream);
    cu.cuMemcpyDtoDAsync.must(at + quarter, source_.address(), quarter, stream);
    cu.cuMemsetD8Async.must(at + 2 * quarter, kByMemset, quarter, stream);
    session_.launch("probe_fill", stream, words / 4, at + 3 * quarter, words / 4, kByKernel);
    session_.launch("probe_advance", stream, words, at, words, 1U);
    cu.cuMemcpyDtoDAsync.must(result_.address(), at, bytes_, stream);
    cu.cuMemcpyDtoHAsync.must(to_host_.data(), at, bytes_, stream);
  }

  // How many words are not what a launch leaves.
  [[nodiscard]] unsigned long long differences(const unsigned* words) const {
    const std::size_t quarter = bytes_ / 4 / sizeof(unsigned);
    unsigned long long wrong = 0;
    for (std::size_t i = 0; i < quarter; ++i) {
      const std::array<unsigned, 4> put{pattern_word(kFromHost, i), pattern_word(kFromDevice, i),
                                        kByMemset * 0x01010101U, pattern_word(kByKernel, i)};
      for (std::size_t part = 0; part < put.size(); ++part) {
        wrong += words[part * quarter + i] != advanced(put[part]) ? 1 : 0;
      }
    }
    return wrong;
  }

  Session& session_;
  const std::size_t bytes_;
  const Pages on_host_, on_device_;
  Range range_;
  const DeviceMemory source_, result_;
  const PinnedMemory from_host_, to_host_;
  Measurement measure_;
  bool is_mapped_ = false;
};

const char* name_of_kind(bool host) { return host ? "host" : "device"; }

}  // namespace

void probe_host_page_graphs(const ProbeSetting& setting, const ProbeReport& report) {
  report.step("opening the device");
  Session session(setting);
  const HostPlace place = find_host_place(session, setting, report);
  const std::size_t bytes = page_bytes(session, place.location, setting.pick(64, 32, 2) * kMiB);
  need_host_memory(setting, 3 * bytes);
  session.need_device_memory(3 * bytes + 2 * kGranule);
  GraphSubject subject(session, place, bytes);
  report.figure("bytes", bytes);

  Json rows = Json::array();
  unsigned long long wrong = 0;
  double slowest_on_host = 0;
  for (const bool made_over_host : {false, true}) {
    report.step(std::string("making a graph over a page of the kind ") +
                name_of_kind(made_over_host));
    subject.map(made_over_host);
    const ExecutableGraph graph = subject.graph();
    for (const bool host : {made_over_host, !made_over_host, made_over_host}) {
      report.step(std::string("launching it over a page of the kind ") + name_of_kind(host));
      subject.map(host);
      const unsigned long long wrong_words = subject.wrong_words(graph);
      const double gbps = subject.gbps(graph);
      rows.push_back({{"made_over", name_of_kind(made_over_host)},
                      {"launched_over", name_of_kind(host)},
                      {"wrong_words", wrong_words},
                      {"gbps", gbps}});
      report.figure("launches", rows);
      wrong += wrong_words;
      if (host && (slowest_on_host == 0 || gbps < slowest_on_host)) slowest_on_host = gbps;
    }
  }
  report.figure("wrong_words", wrong);
  report.answer(wrong == 0 ? "yes: copy, memset and kernel nodes were right over either kind; over "
                             "the host " +
                                 with_digits(slowest_on_host, 1) + " GB/s and more"
                           : "no: " + std::to_string(wrong) + " wrong words",
                wrong == 0);
}

}  // namespace superpipe::cli
