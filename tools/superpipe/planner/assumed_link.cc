#include "tools/superpipe/planner/assumed_link.h"

#include <iomanip>
#include <sstream>

#include "tools/superpipe/planner/cards.h"

namespace superpipe::cli {
namespace {

std::string gigabytes_text(Bandwidth speed) {
  std::ostringstream text;
  text << std::setprecision(3) << speed.bytes_per_second * 1e-9 << " GB/s";
  return text.str();
}

AssumedLink named(const std::string& name, AssumedLink::Source source) {
  const Bandwidth speed = *link_named(name);
  const bool is_number = name.find_first_not_of("0123456789.e+-") == std::string::npos;
  return {{speed, speed}, source, is_number ? name + " GB/s" : name};
}

}  // namespace

std::string AssumedLink::text() const {
  switch (source) {
    case Source::kUser:
      return name + ", as was asked";
    case Source::kCard:
      return name + ", as the card has";
    case Source::kTrace:
      return name + ", as measured in the traced run";
    case Source::kNobody:
      break;
  }
  return name + ", because too little was moved in the traced run to tell its own";
}

AssumedLink assumed_link(const std::string& asked, const TracedRun& run) {
  if (!asked.empty()) return named(asked, AssumedLink::Source::kUser);
  if (!run.link_to_device && !run.link_to_host) {
    return named(kDefaultLink, AssumedLink::Source::kNobody);
  }
  AssumedLink link;
  link.source = AssumedLink::Source::kTrace;
  link.speed.to_device = run.link_to_device ? *run.link_to_device : *run.link_to_host;
  link.speed.to_host = run.link_to_host ? *run.link_to_host : *run.link_to_device;
  const std::string in = gigabytes_text(link.speed.to_device);
  const std::string out = gigabytes_text(link.speed.to_host);
  link.name = in == out ? in + " each way" : in + " to the device and " + out + " back";
  return link;
}

}  // namespace superpipe::cli
