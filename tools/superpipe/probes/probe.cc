#include "tools/superpipe/probes/probe.h"

#include <strings.h>

#include <algorithm>

#include "policy/budget.h"
#include "tools/superpipe/write_all.h"

namespace superpipe::cli {

void ProbeReport::line(const Json& line) const {
  // Names come from the driver: what is not UTF-8 is replaced, not thrown at.
  write_all(fd_, line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

void ProbeReport::figure(const std::string& name, const Json& value) const {
  line({{"figure", name}, {"value", value}});
}

void ProbeReport::answer(const std::string& text, std::optional<bool> holds) const {
  line({{"answer", text}, {"holds", holds ? Json(*holds) : Json(nullptr)}});
}

void ProbeReport::step(const std::string& text) const { line({{"step", text}}); }

const std::vector<Probe>& all_probes() {
  static const std::vector<Probe> kAll = {
      {"H0", "runtime",
       "does NVIDIA's runtime library accept its driver behind superpipe's library?",
       probe_runtime_behind_shim},
      {"H1", "link", "how fast is the link for pinned memory, each way and both ways at once?",
       probe_link_bandwidth},
      {"H2", "map costs",
       "what do create, map, set-access, unmap and release cost by chunk size, idle and under "
       "load?",
       probe_mapping_cost},
      {"H3", "unmap safety", "is it safe to map and unmap while other kernels and copies run?",
       probe_unmap_under_load},
      {"H4", "host pages",
       "can pages that lie on the host be mapped at a device address, and how fast are they?",
       probe_host_located_pages},
      {"H5", "identity", "does cuGetProcAddress give the very functions that the driver exports?",
       probe_pointer_identity},
      {"H6", "read-only", "does a kernel's write through a read-only mapping fail?",
       probe_read_only_mappings},
      {"H7", "tensor map", "does a tensor map hold the address of its tensor as it is?",
       probe_tensor_map},
      {"H8", "aliases",
       "do two mappings of the same pages agree across copies and kernels in stream order?",
       probe_alias_coherence},
      {"H9", "digest", "how fast can the device compute a digest of its memory?",
       probe_digest_bandwidth},
      {"H10", "launch", "how much time does superpipe's library add to a launch?",
       probe_launch_overhead},
      // H11 to H13, and H23, are asked by whole programs (scripts/gpu_check.sh).
      {"H14", "beside launches",
       "do the calls that bring and evict buffers hold up the launches of another thread?",
       probe_launches_beside},
      {"H15", "addresses",
       "where does the driver put a large range of addresses, and does it follow a hint?",
       probe_arena_addresses},
      {"H16", "demand",
       "how long does a copy that a launch waits for take, behind copies asked for earlier?",
       probe_demand_latency},
      {"H17", "queue", "how many launches may a program be ahead of the device before one waits?",
       probe_launch_queue},
      {"H18", "registration",
       "how fast is host memory pinned, of ordinary and of large memory pages?",
       probe_registration},
      {"H19", "peers", "can another device be given access to mapped memory and to a pool?",
       probe_peer_access},
      {"H20", "allocation",
       "how many stream-ordered allocations does the driver serve in a second?",
       probe_stream_ordered_allocation},
      {"H21", "lazy loading",
       "what does lazy loading add to a kernel's first launch, and does that wait for others?",
       probe_lazy_loading},
      {"H22", "legacy",
       "does an event on the legacy stream make blocking streams wait for each other?",
       probe_legacy_events},
      {"H24", "page costs",
       "what do pages on the host cost to create, map and free, do they come zeroed, and what "
       "counts them?",
       probe_host_page_costs},
      {"H25", "page access",
       "how fast are reads and writes of pages on the host that are strided, wide, copies or "
       "memsets?",
       probe_host_page_access},
      {"H26", "page graphs",
       "does an executable graph stay right when a page of its addresses changes its kind between "
       "two launches?",
       probe_host_page_graphs},
      {"H27", "page copies",
       "how fast are copies between a page on the host and one of the device, and do such calls "
       "hold up their thread?",
       probe_host_page_copies},
      {"H28", "products",
       "is a matrix product whose weights lie on the host faster in place, or when they are "
       "brought first?",
       probe_host_page_products},
      {"H29", "functions", "do host functions of two streams run at once, or one after the other?",
       probe_host_functions},
      {"H30", "digests",
       "what does a digest of each evicted piece cost beside copies in both directions?",
       probe_digests_beside_copies},
      {"H31", "page maps", "do loads and stores by tensor maps work on pages that lie on the host?",
       probe_host_page_tensor_maps},
      {"H32", "page atomics",
       "are atomics of 8 and of 16 bytes right on pages that lie on the host?",
       probe_host_page_atomics},
      {"H33", "page peers", "can another device use a page that lies on the host?",
       probe_host_page_peers},
  };
  return kAll;
}

const Probe* find_probe(std::string_view id) {
  const std::string wanted{id};
  for (const Probe& probe : all_probes()) {
    if (strcasecmp(probe.id, wanted.c_str()) == 0) return &probe;
  }
  return nullptr;
}

void need_host_memory(const ProbeSetting& setting, std::uint64_t bytes) {
  if (!setting.host_bytes || *setting.host_bytes >= bytes) return;
  throw Skipped("it needs " + format_bytes(Bytes{bytes}) + " of host memory, and " +
                format_bytes(Bytes{*setting.host_bytes}) +
                " may be used; free some, raise the cgroup's limit, or use --quick");
}

}  // namespace superpipe::cli
