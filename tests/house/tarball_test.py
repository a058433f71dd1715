#!/usr/bin/env python3
"""What scripts/package packs runs elsewhere: no more is needed than a glibc, which may be old.

    tests/house/tarball_test.py PACKAGE.tar.gz

Not among ctest's tests, because it needs the package built.
"""

import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import textwrap
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from hermetic import LIMIT  # noqa: E402  (found through the path above)

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / ".deps" / "minilm"
HIDDEN_FOLDERS = ("/usr/include", "/usr/local/cuda")
HIDDEN_LIBRARIES = ("stdc++", "gcc_s", "spdlog", "fmt", "unwind", "boost", "gtest", "gmock", "benchmark", "zstd", "lz4",
                    "xxhash", "ncurses", "lzma")


def dynamic_section(file: Path) -> dict[str, list[str]]:
    text = subprocess.run(["readelf", "-d", file], capture_output=True, text=True, check=True).stdout
    found: dict[str, list[str]] = {}
    for kind, value in re.findall(r"\((NEEDED|RUNPATH|RPATH)\).*\[(.*)\]", text):
        found.setdefault(kind, []).append(value)
    return found


def is_elf(file: Path) -> bool:
    with file.open("rb") as opened:
        return opened.read(4) == b"\x7fELF"


class Tarball(unittest.TestCase):
    package: Path

    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory(prefix="elsewhere-")
        cls.addClassCleanup(folder.cleanup)
        cls.elsewhere = Path(folder.name)
        with tarfile.open(cls.package) as archive:
            archive.extractall(cls.elsewhere)
        (cls.root,) = cls.elsewhere.iterdir()
        cls.binaries = [file for file in sorted(cls.root.rglob("*"))
                        if file.is_file() and not file.is_symlink() and is_elf(file)]

    def name(self, file: Path) -> str:
        return str(file.relative_to(self.root))

    def test_holds_every_part(self) -> None:
        for part in ("bin/superpipe", "lib/superpipe/libsuperpipe.so", "lib/superpipe/libsuperpipe.nvtx.so", "lib/superpipe/simgpu/libcuda.so.1",
                     "lib/superpipe/simgpu/libcudart.so.13", "lib/superpipe/cuda/libcudart.so.13",
                     "lib/superpipe/unwind/libunwind.so.8", "share/doc/superpipe/licenses/libunwind", "share/doc/superpipe/licenses/googletest",
                     "bin/superpipe-minilm", "bin/superpipe-layers", "share/man/man1/superpipe.1", "share/man/man1/superpipe-run.1",
                     "share/bash-completion/completions/superpipe", "share/zsh/site-functions/_superpipe",
                     "share/fish/vendor_completions.d/superpipe.fish", "libexec/superpipe/conformance",
                     "libexec/superpipe/launch_hook_bench", "scripts/demo_runs.py",
                     "libexec/superpipe/random_device_program", "libexec/superpipe/kernels.fatbin", "scripts/gpu_check.sh",
                     "scripts/gpu_check/main.py", "scripts/frameworks/torch_inference.py",
                     "bench/peers/compare.py", "bench/peers/programs.py", "bench/peers/worker.py"):
            with self.subTest(part):
                self.assertTrue((self.root / part).is_file())

    def test_needs_only_what_is_everywhere_from_glibc_2_28_on(self) -> None:
        judged = subprocess.run([sys.executable, "-B", ROOT / "scripts" / "check_glibc", self.package],
                                capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual(judged.returncode, 0, judged.stdout + judged.stderr)

    def test_looks_for_libraries_inside_itself_only(self) -> None:
        for file in self.binaries:
            section = dynamic_section(file)
            with self.subTest(self.name(file)):
                self.assertNotIn("RPATH", section)
                for path in ":".join(section.get("RUNPATH", [])).split(":"):
                    if not path:
                        continue
                    self.assertTrue(path.startswith("$ORIGIN"), path)
                    folder = Path(path.replace("$ORIGIN", str(file.parent))).resolve()
                    self.assertTrue(folder.is_relative_to(self.root.resolve()) and folder.is_dir(), path)

    def test_names_no_place_of_the_machine_that_built_it(self) -> None:
        for file in self.root.rglob("*"):
            if file.is_file():
                with self.subTest(self.name(file)):
                    self.assertFalse(str(ROOT).encode() + b"/" in file.read_bytes(), "names the checkout")

    def hidden(self, *command: object) -> subprocess.CompletedProcess:
        """Runs `command` where this checkout, the CUDA toolkit, headers and C++ libraries do not exist."""
        hide = textwrap.dedent(f"""\
            set -e
            nothing=$(mktemp)
            for folder in {ROOT} {' '.join(HIDDEN_FOLDERS)}; do
              [ ! -d "$folder" ] || mount -t tmpfs none "$folder"
            done
            for library in {' '.join(f'/usr/lib/*/lib{library}*' for library in HIDDEN_LIBRARIES)}; do
              [ ! -f "$library" ] || mount --bind "$nothing" "$library"
            done
            [ ! -e {ROOT}/README.md ]
            cd "$1"; shift
            exec "$@"
            """)
        return subprocess.run(["unshare", "--map-root-user", "--mount", "sh", "-c", hide, "sh", str(self.root), *map(str, command)],
                              capture_output=True, text=True, timeout=LIMIT)

    def test_the_demo_runs_with_the_build_tree_and_the_libraries_out_of_reach(self) -> None:
        if subprocess.run(["unshare", "--map-root-user", "--mount", "true"], capture_output=True).returncode != 0:
            self.skipTest("no namespaces here to hide the build tree in")
        model = self.elsewhere / "model"
        shutil.copytree(MODEL, model)
        self.addCleanup(shutil.rmtree, model)
        # What is hidden is hidden: a program that needs the C++ library does not start.
        self.assertNotEqual(self.hidden("cmake", "--version").returncode, 0)
        finished = self.hidden("python3", "-B", "scripts/demo_runs.py", "--simulate", "--build", ".", "--model", model)
        self.assertEqual(finished.returncode, 0, finished.stdout + finished.stderr)
        self.assertIn("the same bytes", finished.stdout)
        self.assertTrue((self.root / "residency.svg").is_file())

    def test_a_trace_has_call_sites_with_the_libraries_out_of_reach(self) -> None:
        if subprocess.run(["unshare", "--map-root-user", "--mount", "true"], capture_output=True).returncode != 0:
            self.skipTest("no namespaces here to hide the libraries in")
        trace = self.elsewhere / "run.sptrace"
        finished = self.hidden("bin/superpipe", "profile", "-o", trace, "--simulate", "--", "bin/superpipe-layers", "--layers", "2", "--layer-mib", "1")
        self.assertEqual(finished.returncode, 0, finished.stdout + finished.stderr)
        self.assertNotIn("call sites", finished.stderr)
        finished = self.hidden("bin/superpipe", "export", trace, "--format", "collapsed", "-o", "-")
        self.assertIn("superpipe-layers+0x", finished.stdout, finished.stderr)

    def test_the_checks_run_with_the_build_tree_and_the_libraries_out_of_reach(self) -> None:
        if subprocess.run(["unshare", "--map-root-user", "--mount", "true"], capture_output=True).returncode != 0:
            self.skipTest("no namespaces here to hide the build tree in")
        checks = "libexec/superpipe"
        for command in (["env", f"SIMGPU_KERNELS={checks}/conformance.simgpu.so", f"{checks}/conformance", "--driver=lib/superpipe/simgpu/libcuda.so.1", "--gtest_filter=*Alias*"],
                        [f"{checks}/launch_hook_bench", "--benchmark_min_time=0.01"]):
            with self.subTest(command):
                finished = self.hidden(*command)
                self.assertEqual(finished.returncode, 0, finished.stdout + finished.stderr)


if __name__ == "__main__":
    if len(sys.argv) < 2 or not Path(sys.argv[1]).is_file():
        sys.exit("tarball_test: name the package that scripts/package made")
    Tarball.package = Path(sys.argv.pop(1)).resolve()
    unittest.main()
