#include "tools/simgpu/cufft/plan.h"

#include <map>
#include <mutex>

namespace simgpu::cufft {
namespace {

struct Plans {
  std::mutex mutex;
  std::map<int, PlanRef> by_number;
  int last = 0;
};

Plans& plans() {
  static auto* const all = new Plans;  // never destroyed: programs use plans until they end
  return *all;
}

}  // namespace

int add_plan() {
  auto plan = std::make_shared<Plan>();
  const std::lock_guard lock(plans().mutex);
  plans().by_number.emplace(++plans().last, std::move(plan));
  return plans().last;
}

PlanRef find_plan(int number) {
  const std::lock_guard lock(plans().mutex);
  const auto found = plans().by_number.find(number);
  return found == plans().by_number.end() ? nullptr : found->second;
}

bool remove_plan(int number) {
  const std::lock_guard lock(plans().mutex);
  return plans().by_number.erase(number) != 0;
}

}  // namespace simgpu::cufft
