#include "interposer/allocators/allocator_need.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace superpipe {
namespace {

using ::testing::Optional;

TEST(AllocatorNeedIn, IsOfWhatPyTorchsOtherAllocatorLacks) {
  EXPECT_THAT(allocator_need_in("import torch\nimport vllm\n"), Optional(std::string("vLLM")));
  EXPECT_THAT(allocator_need_in("if __name__:\n\tfrom vllm.entrypoints import main"),
              Optional(std::string("vLLM")));
  EXPECT_THAT(allocator_need_in("pool = torch.cuda.MemPool()"),
              Optional(std::string("torch.cuda.MemPool")));
  EXPECT_THAT(allocator_need_in("with torch.cuda.graph(graph):"),
              Optional(std::string("CUDA graphs")));
  EXPECT_THAT(allocator_need_in("f = torch.cuda.make_graphed_callables(f, (x,))"),
              Optional(std::string("CUDA graphs")));
  EXPECT_THAT(allocator_need_in("torch.cuda.memory._record_memory_history()\n"),
              Optional(std::string("PyTorch's memory snapshots")));
  EXPECT_THAT(allocator_need_in("model = torch.compile(model, mode='reduce-overhead')"),
              Optional(std::string("mode=\"reduce-overhead\"")));
  EXPECT_THAT(allocator_need_in("import os, vllm, sys"), Optional(std::string("vLLM")));
  EXPECT_THAT(allocator_need_in("compile(mode=\"max-autotune\")"),
              Optional(std::string("mode=\"max-autotune\"")));
}

TEST(AllocatorNeedIn, IsNoneOfOtherNamesAndOfComments) {
  for (const char* const text :
       {"", "\n\n", "import torch", "# import vllm", "  # MemPool()", "import vllm_tools",
        "from my_vllm import x", "important = vllm", "mode=\"max-autotune-no-cudagraphs\"",
        "compile(mode=\"default\")", "if torch.cuda.graphs:", "import os, vllm_tools",
        "choices=[\"default\", \"reduce-overhead\"]", "pool = NumaMemPool()"}) {
    EXPECT_EQ(allocator_need_in(text), std::nullopt) << text;
  }
}

class AllocatorNeedOfTest : public ::testing::Test {
 protected:
  static std::string read(const std::string& file) {
    if (file == "/opt/bin/vllm") return "#!python\nfrom vllm.entrypoints.cli.main import main\n";
    if (file == "train.py") return "import torch\n";
    return "";
  }
  /// What needs the allocator; empty: nothing.
  static std::string what(const std::vector<std::string>& words) {
    const auto need = allocator_need_of(words, read);
    return need ? need->what + " of " + need->program : "";
  }
};

TEST_F(AllocatorNeedOfTest, IsThatOfTheScriptBehindTheInterpretersOptions) {
  EXPECT_EQ(what({"/usr/bin/python3", "/opt/bin/vllm", "serve"}), "vLLM of vllm");
  EXPECT_EQ(what({"python3.12", "-B", "-Xutf8", "-W", "ignore", "/opt/bin/vllm"}), "vLLM of vllm");
  EXPECT_EQ(what({"python", "--check-hash-based-pycs", "never", "/opt/bin/vllm"}), "vLLM of vllm");
  EXPECT_EQ(what({"python", "train.py", "/opt/bin/vllm"}), "");
  EXPECT_EQ(what({"python", "missing.py"}), "");
}

TEST_F(AllocatorNeedOfTest, IsThatOfAModuleOrACommand) {
  EXPECT_EQ(what({"python", "-m", "vllm.entrypoints.openai.api_server"}),
            "vLLM of vllm.entrypoints.openai.api_server");
  EXPECT_EQ(what({"python", "-Bmvllm"}), "vLLM of vllm");
  EXPECT_EQ(what({"python", "-m", "vllm_tools"}), "");
  EXPECT_EQ(what({"python", "-uc", "import vllm"}), "vLLM of the command");
  EXPECT_EQ(what({"python", "-c", "import torch", "import vllm"}), "");
}

TEST_F(AllocatorNeedOfTest, IsThatOfTheProgramsArguments) {
  EXPECT_EQ(what({"python", "train.py", "--compile-mode", "reduce-overhead"}),
            "mode=\"reduce-overhead\" of train.py");
  EXPECT_EQ(what({"python", "train.py", "--mode=reduce-overhead"}),
            "mode=\"reduce-overhead\" of train.py");
  EXPECT_EQ(what({"python", "-m", "bench", "max-autotune"}), "mode=\"max-autotune\" of bench");
}

TEST_F(AllocatorNeedOfTest, IsNoneOfWhatRunsNoProgramOfPython) {
  EXPECT_EQ(what({}), "");
  EXPECT_EQ(what({"bash", "/opt/bin/vllm"}), "");
  EXPECT_EQ(what({"python"}), "");
  EXPECT_EQ(what({"python", "-"}), "");
  EXPECT_EQ(what({"python", "-m"}), "");
  EXPECT_EQ(what({"python", "-W"}), "");
}

TEST(AllocatorNeedOfProcess, IsNoneOfThisOne) {
  EXPECT_FALSE(allocator_need_of_process().has_value());
}

}  // namespace
}  // namespace superpipe
