"""`cmake --install` gives what the README promises, and another CMake project can use it."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from hermetic import LIMIT, clean_environment  # noqa: E402  (found through the path above)

BUILD = Path(os.environ.get("SUPERPIPE_BUILD_DIR", "build/dev")).resolve()

VERSION = re.search(r"^CMAKE_PROJECT_VERSION:STATIC=(.+)$",
                    (BUILD / "CMakeCache.txt").read_text(), re.M)[1]

CONSUMER = f"""
cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES NONE)
find_package(superpipe {VERSION} REQUIRED)
foreach(target superpipe superpipe_cli)
  if(NOT TARGET superpipe::${{target}})
    message(FATAL_ERROR "no superpipe::${{target}}")
  endif()
endforeach()
get_target_property(library superpipe::superpipe TYPE)
if(NOT library STREQUAL "MODULE_LIBRARY")
  message(FATAL_ERROR "superpipe::superpipe is a ${{library}}")
endif()
superpipe_run(command --simulate --k 2 -- true)
add_custom_target(under_superpipe COMMAND ${{command}})
"""


def run(*command: object) -> subprocess.CompletedProcess:
    return subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=LIMIT)


def run_ldconfig(folder: Path) -> None:
    """Has ldconfig make the links in `folder` that it makes on a machine, and nothing elsewhere: no
    cache is read or written."""
    program = shutil.which("ldconfig", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if program is None:
        raise unittest.SkipTest("no ldconfig here")
    ran = run(program, "-n", folder)
    if ran.returncode != 0:
        raise AssertionError(f"ldconfig: {ran.stderr}")


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory(prefix="superpipe-package-")
        cls.addClassCleanup(folder.cleanup)
        cls.root = Path(folder.name)
        cls.prefix = cls.root / "installed"
        cls.installed = run("cmake", "--install", BUILD, "--prefix", cls.prefix)

    def test_installs_every_part(self) -> None:
        self.assertEqual(self.installed.returncode, 0, self.installed.stderr)
        self.assertNotIn("run ldconfig", self.installed.stdout + self.installed.stderr)
        for part in ("bin/superpipe", "lib/superpipe/libsuperpipe.so", "lib/superpipe/libsuperpipe.simgpu.so", "lib/superpipe/libsuperpipe.nvtx.so",
                     "lib/superpipe/simgpu/libcuda.so.1", "lib/superpipe/simgpu/libcudart.so.13",
                     "bin/superpipe-minilm", "bin/superpipe-minilm.simgpu.so",
                     "bin/superpipe-layers", "bin/superpipe-layers.simgpu.so", "bin/superpipe.simgpu.so",
                     "lib/cmake/superpipe/superpipeConfig.cmake", "share/man/man1/superpipe.1", "share/man/man1/superpipe-run.1",
                     "share/bash-completion/completions/superpipe", "share/zsh/site-functions/_superpipe",
                     "share/fish/vendor_completions.d/superpipe.fish"):
            with self.subTest(part=part):
                self.assertTrue((self.prefix / part).is_file())

    def copy_for_ldconfig(self, name: str) -> Path:
        """A copy of what is installed, in which ldconfig may make links."""
        copy = self.root / name
        shutil.copytree(self.prefix, copy, symlinks=True)
        self.addCleanup(shutil.rmtree, copy)
        return copy / "lib"

    def test_ldconfig_makes_nothing_of_it_the_driver(self) -> None:
        lib = self.copy_for_ldconfig("usr-local")
        before = sorted(lib.iterdir())
        run_ldconfig(lib)
        self.assertEqual(sorted(lib.iterdir()), before)

    def test_ldconfig_would_make_a_library_in_lib_the_driver(self) -> None:
        for part in ("superpipe/libsuperpipe.so", "superpipe/simgpu/libcuda.so.1"):
            with self.subTest(part):
                lib = self.copy_for_ldconfig(f"wrong-{Path(part).stem}")
                shutil.copy(lib / part, lib / "libwrong.so")
                run_ldconfig(lib)
                self.assertEqual((lib / "libcuda.so.1").readlink(), Path("libwrong.so"))

    def test_an_installation_removes_what_an_earlier_one_put_into_lib(self) -> None:
        prefix = self.root / "earlier"
        (prefix / "lib").mkdir(parents=True)
        for name in ("libsuperpipe.so", "libsuperpipe.simgpu.so", "libsuperpipe.nvtx.so", "libother.so"):
            (prefix / "lib" / name).touch()
        (prefix / "lib" / "libcuda.so.1").symlink_to("libsuperpipe.so")
        installed = run("cmake", "--install", BUILD, "--prefix", prefix)
        self.assertEqual(installed.returncode, 0, installed.stderr)
        self.assertIn("run ldconfig", installed.stdout + installed.stderr)
        self.assertIn("preload lib/superpipe/libsuperpipe.so", installed.stdout + installed.stderr)
        self.assertEqual(sorted(file.name for file in (prefix / "lib").iterdir()), ["cmake", "libother.so", "superpipe"])

    def test_an_installation_leaves_the_driver_of_others(self) -> None:
        prefix = self.root / "others"
        (prefix / "lib").mkdir(parents=True)
        (prefix / "lib" / "libcuda.so.1").symlink_to("libcuda.so.580.65.06")
        self.assertEqual(run("cmake", "--install", BUILD, "--prefix", prefix).returncode, 0)
        self.assertTrue((prefix / "lib" / "libcuda.so.1").is_symlink())

    def test_no_installed_file_points_into_the_build_tree(self) -> None:
        for file in [*self.prefix.rglob("*.so*"), *(self.prefix / "bin").iterdir()]:
            header = run("readelf", "-d", file)
            with self.subTest(file=file.name):
                self.assertEqual(header.returncode, 0)
                self.assertNotIn(str(BUILD), header.stdout)

    def test_no_kernel_is_named_by_a_hash_of_the_folder_it_was_compiled_in(self) -> None:
        # That is how nvcc names variables of unnamed namespaces: two builds would differ.
        hashed = re.compile(rb"_INTERNAL_[0-9a-f]{8}_")
        self.assertTrue(hashed.search(b"_ZN49_INTERNAL_c9f3a1b2_16_digest_kernel_cu_1a2b3c4d6sharedE"))
        for file in [self.prefix / "bin" / "superpipe", *self.prefix.rglob("*.so*")]:
            with self.subTest(file=file.name):
                self.assertIsNone(hashed.search(file.read_bytes()))

    @unittest.skipIf(os.environ.get("SUPERPIPE_SANITIZER"), "a sanitizer's library cannot be preloaded into other programs")
    def test_installed_command_finds_its_parts(self) -> None:
        environment = {**clean_environment("LD_"),
                       "SIMGPU_DEVICES": "2"}  # one question is about two
        finished = subprocess.run([self.prefix / "bin" / "superpipe", "doctor", "--simulate", "--quick"],
                                  env=environment, capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual(finished.returncode, 0, finished.stdout + finished.stderr)
        self.assertIn(str(self.prefix / "lib" / "superpipe" / "libsuperpipe.so"), finished.stdout)
        # Its questions find their kernels, and the programs that they run find library and runtime.
        for word in ("skipped", "failed", "crashed", "timed out"):
            self.assertNotIn(f" {word}: ", finished.stdout)

    @unittest.skipIf(os.environ.get("SUPERPIPE_SANITIZER"), "a sanitizer's library cannot be preloaded into other programs")
    def test_another_project_runs_a_command_under_it(self) -> None:
        source, build = self.root / "consumer", self.root / "consumer-build"
        source.mkdir()
        (source / "CMakeLists.txt").write_text(CONSUMER)
        configured = run("cmake", "-S", source, "-B", build, "-G", "Ninja", f"-Dsuperpipe_ROOT={self.prefix}")
        self.assertEqual(configured.returncode, 0, configured.stderr)
        built = run("cmake", "--build", build, "--target", "under_superpipe")
        self.assertEqual(built.returncode, 0, built.stdout + built.stderr)


if __name__ == "__main__":
    unittest.main()
