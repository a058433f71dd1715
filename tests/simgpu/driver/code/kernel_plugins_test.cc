// KernelPlugins: what is loaded, and what each wrong plugin is told.
#include "tools/simgpu/driver/code/kernel_plugins.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace simgpu {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsNull;
using ::testing::Not;
using ::testing::NotNull;

std::string plugin(const std::string& name) {
  return std::string(SIMGPU_TEST_PLUGINS) + "/" + name + ".so";
}

/// A problem is one line that names the plugin.
auto is_line_about(const std::string& path, const std::string& what) {
  return AllOf(HasSubstr(path), HasSubstr(what), Not(HasSubstr("\n")));
}

TEST(KernelPlugins, FindsKernelsByMangledName) {
  KernelPlugins plugins;
  ASSERT_EQ(plugins.load(plugin("simgpu_test_plugin")), "");
  EXPECT_TRUE(plugins.any());
  ASSERT_THAT(plugins.find("add"), NotNull());
  EXPECT_STREQ(plugins.find("add")->name, "add");
  EXPECT_THAT(plugins.find("ad"), IsNull());
  EXPECT_THAT(plugins.find("mixed"), IsNull());
}

TEST(KernelPlugins, SkipsEmptyPartsOfTheList) {
  KernelPlugins plugins;
  ASSERT_EQ(plugins.load("::" + plugin("simgpu_test_plugin") + ":"), "");
  EXPECT_EQ(plugins.paths().size(), 1U);
}

TEST(KernelPlugins, IsEmptyWithoutAny) {
  KernelPlugins plugins;
  EXPECT_EQ(plugins.load(""), "");
  EXPECT_FALSE(plugins.any());
  EXPECT_THAT(plugins.find("add"), IsNull());
}

TEST(KernelPlugins, NamesThePluginThatCannotBeOpened) {
  KernelPlugins plugins;
  EXPECT_THAT(plugins.load(plugin("simgpu_test_plugin") + ":/no/such/plugin.so"),
              is_line_about("/no/such/plugin.so", "cannot be opened"));
}

TEST(KernelPlugins, NamesTheLibraryThatIsNoPlugin) {
  KernelPlugins plugins;
  EXPECT_THAT(plugins.load(plugin("simgpu_test_plugin_empty")),
              is_line_about("simgpu_test_plugin_empty", "does not export simgpu_kernels()"));
}

TEST(KernelPlugins, NamesTheKernelWithoutAName) {
  KernelPlugins plugins;
  EXPECT_THAT(plugins.load(plugin("simgpu_test_plugin_nameless")),
              is_line_about("simgpu_test_plugin_nameless", "kernel 1"));
}

TEST(KernelPlugins, TakesThePluginsBesideLibraries) {
  KernelPlugins plugins;
  const std::string library = plugin("simgpu_test_neighbour");
  ASSERT_EQ(
      plugins.load_beside({"", ".so", plugin("simgpu_test_plugin"), "libc.so.6", library, library}),
      "");
  ASSERT_THAT(plugins.find("neighbour"), NotNull());
  // Nobody named a plugin to which a missing kernel could be added.
  EXPECT_FALSE(plugins.any());
}

TEST(KernelPlugins, PrefersWhatIsNamedToWhatLiesBesideALibrary) {
  KernelPlugins plugins;
  ASSERT_EQ(plugins.load(plugin("simgpu_test_plugin")), "");
  const SimgpuKernel* const named = plugins.find("add");
  ASSERT_EQ(plugins.load_beside({plugin("simgpu_test_neighbour")}), "");
  EXPECT_EQ(plugins.find("add"), named);
  EXPECT_THAT(plugins.find("neighbour"), NotNull());
}

TEST(KernelPlugins, NamesTheLibrarysPluginThatIsNone) {
  KernelPlugins plugins;
  EXPECT_THAT(plugins.load_beside({plugin("simgpu_test_bad_neighbour")}),
              AllOf(is_line_about("simgpu_test_bad_neighbour.simgpu.so", "does not export"),
                    Not(HasSubstr("SIMGPU_KERNELS"))));
}

TEST(LoadedLibraries, AreThoseThatWereOpened) {
  const std::string path = plugin("simgpu_test_neighbour");
  EXPECT_THAT(loaded_libraries(), Not(::testing::Contains(path)));
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_THAT(handle, NotNull()) << dlerror();
  EXPECT_THAT(loaded_libraries(), ::testing::Contains(path));
  dlclose(handle);
}

}  // namespace
}  // namespace simgpu
