#include "interposer/reports/fault_report.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdio>
#include <iterator>

#include "policy/budget.h"
#include "policy/pin_list.h"
#include "settings/settings.h"

namespace superpipe {
namespace {

/// Buffers that are described one by one.
constexpr std::size_t kMostAbsentDescribed = 8;

std::string text_of_address(Address address) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(address));
  return text;
}

std::string buffer_text(std::uint64_t number, Bytes size) {
  return "buffer " + std::to_string(number) + " of " + exact_bytes(size);
}

std::string where_it_was(const Fault& fault) {
  if (!fault.address) {
    return "the driver tells neither the kernel nor the address (compute-sanitizer, without "
           "superpipe, finds faults of the program's own)";
  }
  std::string text = "the driver's log names address " + text_of_address(*fault.address) + ", ";
  if (!fault.near) return text + "which is in no live buffer";
  const NearBuffer& near = *fault.near;
  const std::string buffer = buffer_text(near.number, near.size);
  if (near.past_end > Bytes{}) {
    return text + exact_bytes(near.past_end) + " past the end of " + buffer +
           ", which is the program's own fault";
  }
  return text + "in " + buffer + (near.is_out ? ", which was not on the device there" : "");
}

std::string kernels_text(const std::vector<std::string>& kernels) {
  if (kernels.empty()) return "no kernel was launched under superpipe before";
  std::string text = "the kernels launched last, the latest first: ";
  for (const std::string& kernel : kernels) {
    if (&kernel != &kernels.front()) text += ", ";
    text += kernel;
  }
  return text;
}

std::string absent_text(const std::vector<AbsentBuffer>& absent) {
  std::string text = "not on the device, or in part, the last used first: ";
  for (std::size_t i = 0; i < std::min(absent.size(), kMostAbsentDescribed); ++i) {
    if (i > 0) text += "; ";
    text += buffer_text(absent[i].number, absent[i].size);
    if (!absent[i].left_out_by.empty()) {
      text += ", without which kernel " + absent[i].left_out_by +
              " was launched, because only words of its structs named it";
    }
  }
  if (absent.size() > kMostAbsentDescribed) {
    text += "; and " + std::to_string(absent.size() - kMostAbsentDescribed) + " more";
  }
  return text;
}

/// The buffers that are the likeliest to have been used unseen.
std::vector<AbsentBuffer> suspects(const Fault& fault) {
  const auto matches = [&](const auto& is_suspect) {
    std::vector<AbsentBuffer> found;
    std::ranges::copy_if(fault.absent, std::back_inserter(found), is_suspect);
    return found;
  };
  if (fault.near && fault.near->past_end == Bytes{} && fault.near->is_out) {
    return matches([&](const AbsentBuffer& one) { return one.number == fault.near->number; });
  }
  if (fault.address) return {};
  auto found = matches([](const AbsentBuffer& one) { return !one.left_out_by.empty(); });
  if (found.empty()) found = fault.absent;
  if (found.size() > kMostAbsentDescribed) found.resize(kMostAbsentDescribed);
  return found;
}

std::string advice(const std::vector<AbsentBuffer>& buffers, const std::string& pins) {
  std::vector<std::uint64_t> numbers;
  Bytes together;
  for (const AbsentBuffer& one : buffers) {
    numbers.push_back(one.number);
    together += one.size;
  }
  std::ranges::sort(numbers);
  const std::string list = (pins.empty() ? "" : pins + ',') + pin_list_text(numbers);
  const Setting& pin = setting(SettingId::kPin);
  return std::string(
             "should a kernel have used what superpipe did not know of (a pointer that was "
             "computed, or lies in device memory), set ") +
         pin.variable + '=' + list + " (" + pin.flag + ' ' + list + "), which keeps " +
         exact_bytes(together) + (pins.empty() ? "" : " more") + " on the device" +
         (buffers.size() > 1 ? "; fewer of them may do" : "") +
         ". Where the numbers of buffers differ from run to run, name them by their sizes";
}

}  // namespace

std::vector<std::string> fault_report(const Fault& fault) {
  std::vector<std::string> lines{
      "work of the program failed with " + fault.error + ": " + where_it_was(fault),
      kernels_text(fault.kernels)};
  if (fault.absent.empty()) {
    lines.emplace_back(
        "all managed buffers were on the device, so that superpipe has most likely no part in it");
    return lines;
  }
  lines.push_back(absent_text(fault.absent));
  const auto buffers = suspects(fault);
  if (!buffers.empty()) lines.push_back(advice(buffers, fault.pins));
  return lines;
}

std::optional<Address> address_in(std::string_view log, const ResidencyManager& residency) {
  std::optional<Address> found;
  for (std::size_t at = log.find("0x"); at != std::string_view::npos; at = log.find("0x", at)) {
    at += 2;
    Address address = 0;
    const auto [stop, error] =
        std::from_chars(log.data() + at, log.data() + log.size(), address, 16);
    if (error == std::errc() && residency.in_arena(address)) found = address;
  }
  return found;
}

}  // namespace superpipe
