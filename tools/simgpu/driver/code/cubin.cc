#include "tools/simgpu/driver/code/cubin.h"

#include <elf.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace simgpu {
namespace {

constexpr std::uint16_t kMachineCuda = 190;     // EM_CUDA
constexpr unsigned char kSymbolIsEntry = 0x10;  // STO_CUDA_ENTRY, in st_other

// What a block of an sm_90 kernel reserves for the system, counted into .nv.shared.<kernel>.
constexpr std::size_t kReservedSharedBytes = 1024;

// Attributes of .nv.info sections: format, attribute, then a payload whose length the format gives.
enum InfoFormat : std::uint8_t { kNoValue = 1, kByteValue = 2, kHalfValue = 3, kSizedValue = 4 };
constexpr std::uint8_t kMaxThreads = 0x05;
constexpr std::uint8_t kParameterInfo = 0x17;
constexpr std::uint8_t kRegisterCount = 0x2f;
constexpr std::uint8_t kWideParameterInfo = 0x45;

ImageRefusal invalid_cubin(std::string reason) {
  return {ImageError::kInvalid, "cubin: " + std::move(reason)};
}

struct Section {
  std::string_view name;
  Elf64_Shdr header{};
};

/// The section table, and the symbols.
struct Elf {
  ByteView image;
  std::vector<Section> sections;
  std::vector<Elf64_Sym> symbols;
  std::vector<std::string_view> symbol_names;

  [[nodiscard]] std::optional<ByteView> content(const Section& section) const {
    return section.header.sh_type == SHT_NOBITS
               ? std::nullopt
               : image.slice(section.header.sh_offset, section.header.sh_size);
  }
};

std::optional<ImageRefusal> read_sections(Elf& elf) {
  const auto header = elf.image.load<Elf64_Ehdr>(0);
  if (!header || !looks_like_elf(elf.image)) return invalid_cubin("no ELF header");
  if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB ||
      header->e_machine != kMachineCuda) {
    return invalid_cubin("not a 64-bit CUDA ELF file");
  }
  if (header->e_shentsize != sizeof(Elf64_Shdr)) {
    return invalid_cubin("unknown section header size");
  }
  const auto first = elf.image.load<Elf64_Shdr>(header->e_shoff);
  if (!first) return invalid_cubin("section table outside the image");
  // Counts that do not fit the header's fields are in section 0 (ELF specification).
  const std::uint64_t count = header->e_shnum != 0 ? header->e_shnum : first->sh_size;
  const std::uint64_t names_index =
      header->e_shstrndx != SHN_XINDEX ? header->e_shstrndx : first->sh_link;
  if (count > elf.image.size() / sizeof(Elf64_Shdr) ||
      !elf.image.slice(header->e_shoff, count * sizeof(Elf64_Shdr))) {
    return invalid_cubin("section table outside the image");
  }
  if (names_index >= count) return invalid_cubin("no section names");
  elf.sections.resize(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    elf.sections[i].header = *elf.image.load<Elf64_Shdr>(header->e_shoff + i * sizeof(Elf64_Shdr));
    const Elf64_Shdr& section = elf.sections[i].header;
    if (section.sh_type != SHT_NOBITS && section.sh_type != SHT_NULL &&
        !elf.image.slice(section.sh_offset, section.sh_size)) {
      return invalid_cubin("section " + std::to_string(i) + " outside the image");
    }
  }
  const auto names = elf.content(elf.sections[names_index]);
  if (!names) return invalid_cubin("no section names");
  for (Section& section : elf.sections) {
    const auto name = names->text(section.header.sh_name);
    if (!name) return invalid_cubin("section name outside its table");
    section.name = *name;
  }
  return std::nullopt;
}

std::optional<ImageRefusal> read_symbols(Elf& elf) {
  for (const Section& section : elf.sections) {
    if (section.header.sh_type != SHT_SYMTAB) continue;
    if (!elf.symbols.empty()) return invalid_cubin("two symbol tables");
    if (section.header.sh_entsize != sizeof(Elf64_Sym) ||
        section.header.sh_link >= elf.sections.size()) {
      return invalid_cubin("malformed symbol table");
    }
    const auto table = elf.content(section);
    const auto names = elf.content(elf.sections[section.header.sh_link]);
    if (!table || !names || table->size() % sizeof(Elf64_Sym) != 0) {
      return invalid_cubin("malformed symbol table");
    }
    for (std::size_t offset = 0; offset < table->size(); offset += sizeof(Elf64_Sym)) {
      const Elf64_Sym symbol = *table->load<Elf64_Sym>(offset);
      const auto name = names->text(symbol.st_name);
      if (!name) return invalid_cubin("symbol name outside its table");
      elf.symbols.push_back(symbol);
      elf.symbol_names.push_back(*name);
    }
  }
  return std::nullopt;
}

/// Calls `visit(attribute, payload)` for each attribute of a .nv.info section.
/// @return false if the section is malformed, or if `visit` said false.
template <typename Visit>
bool for_each_attribute(ByteView info, const Visit& visit) {
  std::size_t at = 0;
  while (at < info.size()) {
    const auto format = info.load<std::uint8_t>(at);
    const auto attribute = info.load<std::uint8_t>(at + 1);
    const auto half = info.load<std::uint16_t>(at + 2);
    if (!format || !attribute || !half) return false;
    ByteView payload;
    std::size_t length = 4;
    switch (*format) {
      case kNoValue:
      case kByteValue:
      case kHalfValue:
        break;
      case kSizedValue: {
        const auto sized = info.slice(at + 4, *half);
        if (!sized) return false;
        payload = *sized;
        length += *half;
        break;
      }
      default:
        return false;
    }
    if (!visit(*attribute, payload)) return false;
    at += length;
  }
  return true;
}

/// One parameter of attribute 0x17 or 0x45: word 1 has the ordinal below and the offset above; word
/// 2 has the size, in 0x17 above 18 bits of flags (and so at most 16383), in 0x45 below 16.
bool read_parameter(bool wide, ByteView payload, std::map<unsigned, ParameterLayout>& parameters) {
  const auto place = payload.load<std::uint32_t>(4);
  const auto size = payload.load<std::uint32_t>(8);
  if (!place || !size || payload.size() != 12) return false;
  const ParameterLayout layout{.offset = *place >> 16, .size = wide ? *size & 0xffff : *size >> 18};
  return parameters.emplace(*place & 0xffff, layout).second;
}

bool valid_layout(const std::map<unsigned, ParameterLayout>& parameters) {
  unsigned expected = 0;
  std::size_t end = 0;
  for (const auto& [ordinal, layout] : parameters) {
    if (ordinal != expected++ || layout.size == 0 || layout.offset < end ||
        layout.size > kMaxParameterBytes || layout.offset + layout.size > kMaxParameterBytes) {
      return false;
    }
    end = layout.offset + layout.size;
  }
  return true;
}

bool read_kernel_info(ByteView info, KernelImage& kernel) {
  std::map<unsigned, ParameterLayout> parameters;
  const bool readable = for_each_attribute(info, [&](std::uint8_t attribute, ByteView payload) {
    switch (attribute) {
      case kParameterInfo:
      case kWideParameterInfo:
        return read_parameter(attribute == kWideParameterInfo, payload, parameters);
      case kMaxThreads: {
        std::uint64_t threads = 1;
        for (std::size_t axis = 0; axis < 3; ++axis) {
          const auto extent = payload.load<std::uint32_t>(axis * 4);
          threads = extent ? std::min<std::uint64_t>(threads * *extent, 1 << 20) : 0;
        }
        kernel.max_threads = static_cast<int>(threads);
        return threads > 0;
      }
      default:
        return true;
    }
  });
  if (!readable || !valid_layout(parameters)) return false;
  for (const auto& [ordinal, layout] : parameters) kernel.parameters.push_back(layout);
  return true;
}

std::map<std::string_view, const Section*> sections_by_name(const Elf& elf) {
  std::map<std::string_view, const Section*> by_name;
  for (const Section& section : elf.sections) by_name.emplace(section.name, &section);
  return by_name;
}

/// Registers of each function, by symbol index, from the module-wide .nv.info.
bool read_register_counts(ByteView info, std::map<std::uint32_t, int>& registers) {
  return for_each_attribute(info, [&](std::uint8_t attribute, ByteView payload) {
    if (attribute == kRegisterCount) {
      const auto symbol = payload.load<std::uint32_t>(0);
      const auto count = payload.load<std::uint32_t>(4);
      if (!symbol || !count || *count > 256) return false;
      registers[*symbol] = static_cast<int>(*count);
    }
    return true;
  });
}

std::optional<ImageRefusal> read_kernels(const Elf& elf, ModuleImage& image) {
  const auto by_name = sections_by_name(elf);
  const auto find = [&](const std::string& name) {
    const auto found = by_name.find(name);
    return found == by_name.end() ? nullptr : found->second;
  };
  std::map<std::uint32_t, int> registers;
  if (const Section* const info = find(".nv.info"); info != nullptr) {
    const auto content = elf.content(*info);
    if (!content || !read_register_counts(*content, registers)) {
      return invalid_cubin("malformed .nv.info");
    }
  }
  // Only where a block reserves shared memory for the system does the image refer to it.
  const bool reserves_shared = std::find(elf.symbol_names.begin(), elf.symbol_names.end(),
                                         ".nv.reservedSmem.offset0") != elf.symbol_names.end();
  std::set<std::string_view> seen;
  for (std::size_t i = 0; i < elf.symbols.size(); ++i) {
    const Elf64_Sym& symbol = elf.symbols[i];
    const std::string name(elf.symbol_names[i]);
    if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || (symbol.st_other & kSymbolIsEntry) == 0 ||
        find(".text." + name) == nullptr || !seen.insert(elf.symbol_names[i]).second) {
      continue;
    }
    KernelImage kernel;
    kernel.name = name;
    if (const Section* const info = find(".nv.info." + name); info != nullptr) {
      const auto content = elf.content(*info);
      if (!content || !read_kernel_info(*content, kernel)) {
        return invalid_cubin("malformed .nv.info." + name);
      }
    }
    if (const Section* const shared = find(".nv.shared." + name); shared != nullptr) {
      const std::size_t reserved = reserves_shared ? kReservedSharedBytes : 0;
      const std::uint64_t bytes = std::min<std::uint64_t>(shared->header.sh_size, 1 << 20);
      kernel.static_shared_bytes = bytes > reserved ? bytes - reserved : 0;
    }
    if (const auto found = registers.find(static_cast<std::uint32_t>(i));
        found != registers.end()) {
      kernel.registers = found->second;
    }
    image.kernels.push_back(std::move(kernel));
  }
  return std::nullopt;
}

bool holds_variables(std::string_view section) {
  return section == ".nv.global" || section == ".nv.global.init" || section == ".nv.constant3";
}

std::optional<ImageRefusal> read_globals(const Elf& elf, ModuleImage& image) {
  std::map<std::size_t, std::uint64_t> placed;  // section index to offset in the data block
  std::uint64_t end = 0;
  std::uint64_t initial_bytes = 0;
  for (std::size_t i = 0; i < elf.sections.size(); ++i) {
    const Section& section = elf.sections[i];
    if (!holds_variables(section.name) || section.header.sh_size == 0) continue;
    const std::uint64_t offset = (end + kDataAlignment - 1) / kDataAlignment * kDataAlignment;
    if (section.header.sh_size > kMaxDataBytes || offset + section.header.sh_size > kMaxDataBytes) {
      return invalid_cubin("impossibly large variables");
    }
    placed[i] = offset;
    end = offset + section.header.sh_size;
    if (const auto content = elf.content(section); content) {
      initial_bytes += content->size();
      if (initial_bytes > elf.image.size()) {  // sections that overlap: copies without end
        return invalid_cubin("overlapping sections");
      }
      image.initial.push_back({offset, {content->bytes().begin(), content->bytes().end()}});
    }
  }
  image.data_bytes = end;
  std::set<std::string_view> seen;
  for (std::size_t i = 0; i < elf.symbols.size(); ++i) {
    const Elf64_Sym& symbol = elf.symbols[i];
    const auto section = placed.find(symbol.st_shndx);
    if (ELF64_ST_TYPE(symbol.st_info) != STT_OBJECT || section == placed.end() ||
        elf.symbol_names[i].empty()) {
      continue;
    }
    const std::uint64_t section_size = elf.sections[section->first].header.sh_size;
    if (symbol.st_value > section_size || symbol.st_size > section_size - symbol.st_value) {
      return invalid_cubin("variable " + std::string(elf.symbol_names[i]) + " outside its section");
    }
    if (seen.insert(elf.symbol_names[i]).second) {
      image.globals.push_back(
          {std::string(elf.symbol_names[i]), section->second + symbol.st_value, symbol.st_size});
    }
  }
  return std::nullopt;
}

}  // namespace

bool looks_like_elf(ByteView bytes) {
  const auto magic = bytes.slice(0, SELFMAG);
  return magic && std::memcmp(magic->bytes().data(), ELFMAG, SELFMAG) == 0;
}

std::size_t elf_extent(const void* address) {
  const auto* const bytes = static_cast<const std::byte*>(address);
  Elf64_Ehdr header;
  std::memcpy(&header, bytes, sizeof(header));
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_shentsize != sizeof(Elf64_Shdr)) {
    return 0;
  }
  std::uint64_t count = header.e_shnum;
  if (count == 0 && header.e_shoff != 0) {
    Elf64_Shdr first;
    std::memcpy(&first, bytes + header.e_shoff, sizeof(first));
    count = first.sh_size;
  }
  std::uint64_t end =
      std::max<std::uint64_t>(sizeof(header), header.e_shoff + count * sizeof(Elf64_Shdr));
  end = std::max(end, header.e_phoff + std::uint64_t{header.e_phnum} * header.e_phentsize);
  for (std::uint64_t i = 0; i < count; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, bytes + header.e_shoff + i * sizeof(section), sizeof(section));
    if (section.sh_type != SHT_NOBITS && section.sh_type != SHT_NULL) {
      end = std::max(end, section.sh_offset + section.sh_size);
    }
  }
  return end;
}

ImageResult read_cubin(ByteView image) {
  Elf elf{.image = image, .sections = {}, .symbols = {}, .symbol_names = {}};
  ModuleImage decoded;
  if (auto refusal = read_sections(elf)) return *std::move(refusal);
  if (auto refusal = read_symbols(elf)) return *std::move(refusal);
  if (auto refusal = read_kernels(elf, decoded)) return *std::move(refusal);
  if (auto refusal = read_globals(elf, decoded)) return *std::move(refusal);
  return decoded;
}

}  // namespace simgpu
