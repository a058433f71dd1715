// Runs a fuzz target without a fuzzer, for builds that have none: over each file of its corpus, and
// over inputs that are near one of them.
//
//   NAME CORPUS
//
// The inputs are the same each time. What is wrong with the target ends the process.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Input = std::vector<std::uint8_t>;

constexpr int kInputsNearOne = 24;

std::vector<Input> inputs_in(const std::string& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<Input> inputs;
  for (const std::filesystem::path& path : paths) {
    std::ifstream file(path, std::ios::binary);
    inputs.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return inputs;
}

// `input` cut off, or with some bytes others, gone or twice.
Input near(Input input, std::mt19937& random) {
  if (input.empty()) return input;
  const auto place = [&] { return static_cast<std::ptrdiff_t>(random() % input.size()); };
  const std::ptrdiff_t begin = place();
  const std::ptrdiff_t end = std::min<std::ptrdiff_t>(begin + 1 + random() % 16, std::ssize(input));
  const Input part(input.begin() + begin, input.begin() + end);
  switch (random() % 4) {
    case 0:
      input.resize(static_cast<std::size_t>(begin));
      break;
    case 1:
      input.erase(input.begin() + begin, input.begin() + end);
      break;
    case 2:
      input.insert(input.begin() + place(), part.begin(), part.end());
      break;
    default:
      for (std::size_t i = 0; i <= part.size() / 4; ++i) {
        input[static_cast<std::size_t>(place())] = static_cast<std::uint8_t>(random());
      }
  }
  return input;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "%s CORPUS\n", argv[0]);
    return 2;
  }
  const std::vector<Input> inputs = inputs_in(argv[1]);
  std::mt19937 random(1);
  for (const Input& input : inputs) {
    (void)LLVMFuzzerTestOneInput(input.data(), input.size());
    for (int i = 0; i < kInputsNearOne; ++i) {
      const Input other = near(input, random);
      (void)LLVMFuzzerTestOneInput(other.data(), other.size());
    }
  }
  std::printf("%zu inputs, and %d near each of them\n", inputs.size(), kInputsNearOne);
  return inputs.empty() ? 1 : 0;
}
