#include "tools/superpipe/probes/exported_symbols.h"

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <optional>

namespace superpipe::cli {
namespace {

/// Reads parts of a file that may be cut short or lie about its own size.
class File {
 public:
  explicit File(const std::string& path) : in_(path, std::ios::binary) {
    in_.seekg(0, std::ios::end);
    const auto end = in_.tellg();
    size_ = end > 0 ? static_cast<std::uint64_t>(end) : 0;
  }

  template <typename Record>
  std::optional<std::vector<Record>> read(std::uint64_t offset, std::uint64_t count) {
    if (offset > size_ || count > (size_ - offset) / sizeof(Record)) return std::nullopt;
    std::vector<Record> records(count);
    in_.clear();
    in_.seekg(static_cast<std::streamoff>(offset));
    in_.read(reinterpret_cast<char*>(records.data()),
             static_cast<std::streamsize>(count * sizeof(Record)));
    if (!in_) return std::nullopt;
    return records;
  }

 private:
  std::ifstream in_;
  std::uint64_t size_ = 0;
};

}  // namespace

std::vector<std::string> exported_symbols(const std::string& path, const std::string& prefix) {
  File file(path);
  const auto header = file.read<Elf64_Ehdr>(0, 1);
  if (!header || std::memcmp(header->front().e_ident, ELFMAG, SELFMAG) != 0 ||
      header->front().e_ident[EI_CLASS] != ELFCLASS64) {
    return {};
  }
  const auto sections = file.read<Elf64_Shdr>(header->front().e_shoff, header->front().e_shnum);
  if (!sections) return {};
  std::vector<std::string> names;
  for (const Elf64_Shdr& section : *sections) {
    if (section.sh_type != SHT_DYNSYM || section.sh_link >= sections->size()) continue;
    const Elf64_Shdr& strings = (*sections)[section.sh_link];
    const auto symbols =
        file.read<Elf64_Sym>(section.sh_offset, section.sh_size / sizeof(Elf64_Sym));
    auto text = file.read<char>(strings.sh_offset, strings.sh_size);
    if (!symbols || !text) return {};
    text->push_back('\0');
    for (const Elf64_Sym& symbol : *symbols) {
      if (symbol.st_shndx == SHN_UNDEF || symbol.st_name >= text->size()) continue;
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC) continue;
      const std::string name = text->data() + symbol.st_name;
      if (name.rfind(prefix, 0) == 0) names.push_back(name);
    }
  }
  return names;
}

}  // namespace superpipe::cli
