#include "examples/minilm/safetensors.h"

#include <gmock/gmock.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tests/temporary_folder.h"

namespace minilm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr char kTwoByThree[] = R"({"__metadata__": {"format": "pt"},
  "w": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
  "n": {"dtype": "I64", "shape": [1], "data_offsets": [24, 32]}})";

/// A file of the given content, which is removed with this object.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& content) {
    path_ = folder_ + "/file";
    std::ofstream(path_, std::ios::binary) << content;
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() { std::filesystem::remove_all(folder_); }

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  const std::string folder_ = superpipe::make_temporary_folder("safetensors_test");
  std::string path_;
};

/// A file with the header, padded so that its data are aligned, and `data_bytes` of data: the
/// floats 0, 1, 2...
std::string file_of(std::string header, std::size_t data_bytes) {
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = header.size();
  std::string content(sizeof length, '\0');
  std::memcpy(content.data(), &length, sizeof length);
  content += header;
  std::string data(data_bytes, '\0');
  for (std::size_t i = 0; i + sizeof(float) <= data_bytes; i += sizeof(float)) {
    const std::size_t index = i / sizeof(float);
    const auto value = static_cast<float>(index);
    std::memcpy(data.data() + i, &value, sizeof value);
  }
  return content + data;
}

void expect_refused(const std::string& content, const char* why) {
  const TemporaryFile file(content);
  EXPECT_THAT([&] { const SafetensorsFile opened(file.path()); },
              ThrowsMessage<std::runtime_error>(HasSubstr(why)));
  EXPECT_THAT([&] { const SafetensorsFile opened(file.path()); },
              ThrowsMessage<std::runtime_error>(HasSubstr(file.path())));
}

TEST(SafetensorsFile, GivesTensorsOfTheRightShape) {
  const TemporaryFile file(file_of(kTwoByThree, 32));
  const SafetensorsFile opened(file.path());
  const auto values = opened.floats("w", std::array<std::uint64_t, 2>{2, 3});
  EXPECT_THAT(std::vector<float>(values.begin(), values.end()), ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(SafetensorsFile, RefusesOtherNamesShapesAndTypes) {
  const TemporaryFile file(file_of(kTwoByThree, 32));
  const SafetensorsFile opened(file.path());
  const auto ask = [&](const char* name, const std::vector<std::uint64_t>& shape) {
    return [&opened, name, shape] { static_cast<void>(opened.floats(name, shape)); };
  };
  EXPECT_THAT(ask("v", {2, 3}), ThrowsMessage<std::runtime_error>(HasSubstr("no tensor 'v'")));
  EXPECT_THAT(ask("w", {3, 2}), ThrowsMessage<std::runtime_error>(HasSubstr("shape")));
  EXPECT_THAT(ask("w", {6}), ThrowsMessage<std::runtime_error>(HasSubstr("shape")));
  EXPECT_THAT(ask("n", {1}), ThrowsMessage<std::runtime_error>(HasSubstr("I64, need F32")));
}

TEST(SafetensorsFile, RefusesEveryCutOffFile) {
  const std::string whole = file_of(kTwoByThree, 32);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const TemporaryFile file(whole.substr(0, size));
    EXPECT_THROW(const SafetensorsFile opened(file.path()), std::runtime_error) << size;
  }
}

TEST(SafetensorsFile, SaysWhatIsWrong) {
  expect_refused("", "empty");
  expect_refused("abc", "shorter than a safetensors header");
  expect_refused(std::string(8, '\xff') + "{}", "impossible header length");
  expect_refused(file_of("{", 0), "no JSON object");
  expect_refused(file_of("[]", 0), "no JSON object");
  expect_refused(file_of(R"({"w": 1})", 0), "'w' is malformed");
  expect_refused(file_of(R"({"w": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}})", 4),
                 "'w'");
  expect_refused(file_of(R"({"w": {"dtype": "F32", "shape": [1], "data_offsets": [4]}})", 4),
                 "two data offsets");
  expect_refused(file_of(R"({"w": {"dtype": "C64", "shape": [1], "data_offsets": [0, 8]}})", 8),
                 "unknown type C64");
  expect_refused(file_of(kTwoByThree, 31), "past the end");
  expect_refused(file_of(R"({"w": {"dtype": "F32", "shape": [1], "data_offsets": [8, 4]}})", 8),
                 "past the end");
  expect_refused(file_of(R"({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}})", 4),
                 "other bytes");
  expect_refused(
      file_of(
          R"({"w": {"dtype": "F32", "shape": [4611686018427387904, 4], "data_offsets": [0, 0]}})",
          4),
      "overflows");
}

TEST(SafetensorsFile, RefusesUnalignedFloats) {
  const TemporaryFile file(file_of(
      R"({"b": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]},
          "w": {"dtype": "F32", "shape": [1], "data_offsets": [2, 6]}})",
      6));
  const SafetensorsFile opened(file.path());
  EXPECT_THAT([&] { static_cast<void>(opened.floats("w", std::array<std::uint64_t, 1>{1})); },
              ThrowsMessage<std::runtime_error>(HasSubstr("not aligned")));
}

TEST(SafetensorsFile, NamesAMissingFile) {
  EXPECT_THAT([] { const SafetensorsFile opened("/nonexistent/model.safetensors"); },
              ThrowsMessage<std::runtime_error>(HasSubstr("/nonexistent/model.safetensors")));
}

}  // namespace
}  // namespace minilm
