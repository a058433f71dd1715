// Prints a trace for tests: trace_text FILE. A line each property, definition and event, names and
// numbers separated by blanks; at the end, whether the trace is complete.
#include <cinttypes>
#include <cstdio>
#include <string>

#include "profiler/trace_reader.h"

namespace superpipe {
namespace {

using Moment = TraceMoment;

std::uint64_t id_of(BufferId id) { return id == kNoBuffer ? 0 : index_of(id) + std::uint64_t{1}; }

class Printer final : public TraceVisitor {
 public:
  void on_property(const TraceProperty& event) override { print_property(event.key, event.value); }
  static void print_property(std::string_view key, std::string_view value) {
    std::printf("property %.*s %.*s\n", static_cast<int>(key.size()), key.data(),
                static_cast<int>(value.size()), value.data());
  }
  void on_kernel(const TraceKernel& event) override {
    std::printf("kernel %u %.*s\n", event.index, static_cast<int>(event.name.size()),
                event.name.data());
  }
  void on_text(const TraceText& event) override {
    std::printf("text %u %.*s\n", event.index, static_cast<int>(event.text.size()),
                event.text.data());
  }
  void on_call_site(const TraceCallSite& event) override {
    std::string frames(event.frames);
    for (char& c : frames) c = c == '\n' ? '|' : c;
    std::printf("call_site %u %s\n", event.index, frames.c_str());
  }
  void on_allocation(const Moment& when, const TraceAllocation& event) override {
    line("allocation", when,
         {id_of(event.buffer), event.size.count(), event.footprint.count(), event.stream,
          event.call_site, event.number});
  }
  void on_free(const Moment& when, const TraceFree& event) override {
    line("free", when, {id_of(event.buffer)});
  }
  void on_launch(const Moment& when, const TraceLaunch& event) override {
    std::printf("launch %" PRId64 " %u %" PRIu64 " %u %u", when.time, when.thread,
                event.launch.value, event.kernel, event.stream);
    for (const BufferId id : event.buffers) std::printf(" %" PRIu64, id_of(id));
    std::printf("\n");
  }
  void on_use(const Moment& when, const TraceUse& event) override {
    line("use", when, {event.writes ? 1u : 0u, event.buffers.size()});
  }
  void on_copy(const Moment& when, const TraceCopy& event) override {
    line("copy", when,
         {id_of(event.buffer), event.offset.count(), event.size.count(), event.to_device ? 1u : 0u,
          event.on_host ? 1u : 0u});
  }
  void on_fetch(const Moment& when, const TraceFetch& event) override {
    line("fetch", when,
         {event.transfer.value, id_of(event.buffer), event.offset.count(), event.size.count(),
          event.footprint.count(), event.demand ? 1u : 0u});
  }
  void on_eviction(const Moment& when, const TraceEviction& event) override {
    line("eviction", when,
         {event.transfer.value, id_of(event.buffer), event.offset.count(), event.size.count(),
          event.footprint.count()});
  }
  void on_transfer_end(const Moment& when, const TraceTransferEnd& event) override {
    line("transfer_end", when, {event.transfer.value});
  }
  void on_stall(const Moment& when, const TraceStall& event) override {
    line("stall", when, {event.launch.value, event.duration_ns});
  }
  void on_budget(const Moment& when, const TraceBudget& event) override {
    line("budget", when, {event.budget.count(), event.limit.count()});
  }
  void on_memory(const Moment& when, const TraceMemory& event) override {
    line("memory", when,
         {event.pages.count(), event.live.count(), event.passthrough.count(),
          event.pinned_host.count()});
  }
  void on_pass(const Moment& when, const TracePass& event) override {
    line("pass", when, {event.launch.value});
  }
  void on_kernel_time(const Moment& when, const TraceKernelTime& event) override {
    line("kernel_time", when,
         {event.launch.value, event.duration_ns, event.launches, event.kernel});
  }
  void on_mark(const Moment& when, const TraceMark& event) override {
    line("mark", when, {event.way, event.text, event.range});
  }
  void on_dropped(const Moment& when, const TraceDropped& event) override {
    line("dropped", when, {event.events});
  }

 private:
  static void line(const char* name, const Moment& when,
                   std::initializer_list<std::uint64_t> numbers) {
    std::printf("%s %" PRId64 " %u", name, when.time, when.thread);
    for (const std::uint64_t number : numbers) std::printf(" %" PRIu64, number);
    std::printf("\n");
  }
};

int print(const char* path) {
  auto reader = TraceReader::open(path);
  Printer printer;
  std::optional<TraceError> problem;
  if (reader.ok()) {
    for (const auto& [key, value] : reader->properties().all()) {
      Printer::print_property(key, value);
    }
    problem = reader->read_all(printer);
  } else {
    problem = reader.error();
  }
  if (problem) {
    std::fprintf(stderr, "%s\n", problem->message.c_str());
    return 2;
  }
  std::printf("end %d %" PRIu64 " %" PRIu64 "\n", reader->ending().is_complete ? 1 : 0,
              reader->ending().events, reader->ending().dropped);
  return 0;
}

}  // namespace
}  // namespace superpipe

int main(int count, char** words) { return count == 2 ? superpipe::print(words[1]) : 2; }
