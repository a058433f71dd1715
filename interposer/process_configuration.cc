#include "interposer/process_configuration.h"

#include <utility>

namespace superpipe {
namespace {

// Never destroyed: hooks may run in other libraries' destructors.
Configuration& configuration_of_process() {
  static auto* const configuration = new Configuration;
  return *configuration;
}

}  // namespace

void set_process_configuration(Configuration configuration) {
  configuration_of_process() = std::move(configuration);
}

const Configuration& process_configuration() noexcept { return configuration_of_process(); }

}  // namespace superpipe
