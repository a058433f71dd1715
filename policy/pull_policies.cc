#include "policy/pull_policies.h"

#include "policy/eviction.h"

namespace superpipe {

void LruPolicy::on_allocate(BufferId id, Bytes footprint, std::uint32_t pieces) {
  ResidentPolicy::on_allocate(id, footprint, pieces);
  puller_.on_allocate(id, footprint, pieces);
}

void LruPolicy::on_free(BufferId id) {
  ResidentPolicy::on_free(id);
  puller_.on_free(id);
}

Decision LruPolicy::on_launch(const Access& access) {
  puller_.on_launch(access.kernel, access.buffers, access.stream);
  return ResidentPolicy::on_launch(access);
}

void ReplayPolicy::on_allocate(BufferId id, Bytes footprint, std::uint32_t pieces) {
  history_.on_allocate(id, footprint);
  puller_.on_allocate(id, footprint, pieces);
}

void ReplayPolicy::on_free(BufferId id) {
  history_.on_free(id);
  puller_.on_free(id);
}

Bytes ReplayPolicy::observe(const Access& access) {
  puller_.on_launch(access.kernel, access.buffers, access.stream);
  return history_.on_launch(access.buffers);
}

Decision ReplayPolicy::on_launch(const Access& access) {
  (void)observe(access);
  return {};
}

std::vector<BufferId> ReplayPolicy::choose_victims(std::span<const BufferId> candidates,
                                                   Bytes needed) const {
  std::vector<ResidentBuffer> resident = history_.by_last_use(candidates);
  for (ResidentBuffer& buffer : resident) {
    const std::uint64_t next_use = puller_.next_use(buffer.id);
    if (next_use != LaunchReplay::kNever) buffer.next_use = next_use - puller_.present();
  }
  return plan_eviction_or_all(resident, needed);
}

}  // namespace superpipe
