#!/usr/bin/env python3
"""What scripts/wheel builds is installed by pip alone, and runs: here, and where glibc is older.

    tests/house/wheel_test.py WHEEL

Not among ctest's tests, because it needs the wheel built. SUPERPIPE_TORCH_PYTHON names a Python
with PyTorch, for one test.
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from hermetic import LIMIT, clean_environment  # noqa: E402  (found through the path above)
from house.older_root import Unavailable, in_root, make_root  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
OLDER = "bullseye"  # glibc 2.31
LARGEST = 8 << 20
# What a machine may lack: namespaces, PyTorch, and a mirror with a Debian that is older.
MAY_SKIP = re.compile("no namespaces|no PyTorch|not to be had|are not Debian's")
# Allocates and frees device memory by the driver's own functions: no framework is needed.
SCRIPT = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
context, address = ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(8 << 20)) == 0
assert cuda.cuMemFree_v2(address) == 0
print("the script has run")
"""
TORCH_SCRIPT = """
import torch
model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(8)]).cuda()
print("sum", model(torch.ones(4, 512, device="cuda")).sum().item())
"""


def run(*command: object, **variables: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        env={**clean_environment("LD_", "PYTHON"), **variables},
    )


class Wheel(unittest.TestCase):
    wheel: Path

    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory(prefix="a-wheel-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        cls.script = cls.folder / "a script.py"
        cls.script.write_text(SCRIPT)
        cls.environment = cls.folder / "an-environment"
        subprocess.run([sys.executable, "-m", "venv", cls.environment], check=True)
        cls.bin = cls.environment / "bin"
        cls.installed = run(cls.bin / "pip", "install", "--no-index", "--no-deps", cls.wheel)
        cls.superpipe = cls.bin / "superpipe"
        cls.package = next(cls.environment.glob("lib/python3*/site-packages")) / "superpipe"

    def assert_runs(self, *command: object, **variables: str) -> str:
        """@return what it printed."""
        finished = run(*command, **variables)
        self.assertEqual(finished.returncode, 0, finished.stdout + finished.stderr)
        return finished.stdout + finished.stderr

    def assert_refuses(self, finished: subprocess.CompletedProcess, says: str) -> None:
        """It said one line, and did not start anything."""
        self.assertEqual((finished.returncode, finished.stdout), (125, ""), finished.stderr)
        self.assertEqual(len(finished.stderr.splitlines()), 1, finished.stderr)
        self.assertIn(says, finished.stderr)

    def test_its_name_says_where_it_runs(self) -> None:
        self.assertRegex(
            self.wheel.name, r"^superpipe-[0-9.]+-py3-none-manylinux_2_28_x86_64\.whl$"
        )

    def test_is_small(self) -> None:
        self.assertLessEqual(self.wheel.stat().st_size, LARGEST)

    def test_needs_no_newer_glibc(self) -> None:
        self.assert_runs(sys.executable, "-B", ROOT / "scripts" / "check_glibc", self.wheel)

    def test_holds_the_licences_of_what_is_in_it(self) -> None:
        names = zipfile.ZipFile(self.wheel).namelist()
        found = {Path(name).name for name in names if "/doc/superpipe/licenses/" in name and name[-1] != "/"}
        self.assertEqual(
            found,
            {
                "CLI11",
                "boost",
                "fmt",
                "spdlog",
                "cuda_runtime",
                "glibc_startup",
                "libcxx",
                "libunwind",
                "ncurses",
                "nlohmann-json",
                "protozero",
                "uplot",
                "xxhash",
                "zig",
                "zstd",
            },
        )
        self.assertTrue(any(name.endswith(".dist-info/licenses/LICENSE") for name in names))

    def test_holds_simgpus_libraries(self) -> None:
        folder = "superpipe/lib/superpipe/simgpu/"
        names = [name for name in zipfile.ZipFile(self.wheel).namelist() if folder in name]
        for library in (
            "libcuda",
            "libcudart",
            "libcublas",
            "libcublasLt",
            "libcudnn",
            "libcufft",
            "libcusolver",
            "libcusparse",
        ):
            with self.subTest(library):
                self.assertTrue([name for name in names if f"/{library}.so." in name], names)

    def test_holds_nothing_of_the_checks_and_of_cmake(self) -> None:
        names = zipfile.ZipFile(self.wheel).namelist()
        for part in ("libexec/", "lib/cmake/", "gpu_check", "libgtest"):
            with self.subTest(part):
                self.assertFalse([name for name in names if part in name])

    def test_names_no_place_of_the_machine_that_built_it(self) -> None:
        archive = zipfile.ZipFile(self.wheel)
        for name in archive.namelist():
            with self.subTest(name):
                self.assertNotIn(str(ROOT).encode() + b"/", archive.read(name))

    def test_pip_installs_it_without_anything_else(self) -> None:
        self.assertEqual(
            self.installed.returncode, 0, self.installed.stdout + self.installed.stderr
        )

    def test_runs_a_script_on_the_simulated_device(self) -> None:
        text = self.assert_runs(
            self.superpipe,
            "run",
            "--simulate",
            "--gpu-mem",
            "50%",
            "--",
            self.bin / "python",
            self.script,
        )
        self.assertIn("the script has run", text)
        self.assertIn("superpipe", text)

    def test_runs_as_a_module(self) -> None:
        text = self.assert_runs(
            self.bin / "python",
            "-m",
            "superpipe",
            "run",
            "--simulate",
            "--",
            self.bin / "python",
            self.script,
        )
        self.assertIn("the script has run", text)

    def test_its_scripts_pass_the_exit_code_and_the_words_on(self) -> None:
        self.assertEqual(
            run(self.superpipe, "run", "--simulate", "--", "sh", "-c", "exit 7").returncode, 7
        )
        self.assertEqual(run(self.superpipe, "no such").returncode, 2)

    def test_its_scripts_have_nothing_imported_but_the_package(self) -> None:
        """Each module more is paid for at each start of superpipe."""
        code = (
            "import sys; known = set(sys.modules); import superpipe.__main__; "
            "print(*sorted(set(sys.modules) - known))"
        )
        self.assertEqual(
            self.assert_runs(self.bin / "python", "-c", code), "superpipe superpipe.__main__\n"
        )

    def test_examples_find_their_kernels(self) -> None:
        for program in (
            self.bin / "superpipe-layers",
            "superpipe-layers",
            self.package / "bin" / "superpipe-layers",
        ):
            with self.subTest(program):
                text = self.assert_runs(
                    self.superpipe,
                    "run",
                    "--simulate",
                    "--k",
                    "2",
                    "--",
                    program,
                    "--layers",
                    "4",
                    "--layer-mib",
                    "1",
                    PATH=f"{self.bin}:{os.environ['PATH']}",
                )
                self.assertNotIn("computes no values", text)

    def test_the_doctor_answers_all(self) -> None:
        text = self.assert_runs(
            self.superpipe, "doctor", "--simulate", "--quick", SIMGPU_DEVICES="2"
        )
        self.assertIn(str(self.package / "lib" / "superpipe" / "libsuperpipe.so"), text)
        for word in ("skipped", "failed", "crashed", "timed out"):
            self.assertNotIn(f" {word}: ", text)

    def test_reports_a_trace_with_call_sites(self) -> None:
        trace, page = self.folder / "a run.sptrace", self.folder / "a report.html"
        self.assert_runs(
            self.superpipe,
            "profile",
            "-o",
            trace,
            "--simulate",
            "--",
            self.bin / "superpipe-layers",
            "--layers",
            "2",
            "--layer-mib",
            "1",
        )
        self.assert_runs(self.superpipe, "report", trace, "-o", page)
        self.assertIn("<html", page.read_text())
        self.assertIn(
            "superpipe-layers+0x",
            self.assert_runs(self.superpipe, "export", trace, "--format", "collapsed", "-o", "-"),
        )

    def test_manuals_and_completion_lie_where_they_are_looked_for(self) -> None:
        for part in (
            "man/man1/superpipe.1",
            "man/man1/superpipe-run.1",
            "bash-completion/completions/superpipe",
            "zsh/site-functions/_superpipe",
            "fish/vendor_completions.d/superpipe.fish",
        ):
            with self.subTest(part):
                self.assertTrue((self.environment / "share" / part).is_file())

    def test_runs_from_a_folder_of_pips(self) -> None:
        target = self.folder / "a-target"
        self.assert_runs(
            self.bin / "pip", "install", "--no-index", "--no-deps", "--target", target, self.wheel
        )
        text = self.assert_runs(
            self.bin / "python",
            "-m",
            "superpipe",
            "run",
            "--simulate",
            "--",
            self.bin / "python",
            self.script,
            PYTHONPATH=str(target),
        )
        self.assertIn("the script has run", text)

    def test_a_machine_that_cannot_execute_it_is_told_in_a_line(self) -> None:
        target = self.folder / "another machine"
        self.assert_runs(
            self.bin / "pip", "install", "--no-index", "--no-deps", "--target", target, self.wheel
        )
        program = target / "superpipe" / "bin" / "superpipe"
        program.write_bytes(b"\x7fELF of another machine")
        finished = run(self.bin / "python", "-m", "superpipe", "--version", PYTHONPATH=str(target))
        self.assertEqual(finished.returncode, 125)
        self.assertEqual(len(finished.stderr.splitlines()), 1, finished.stderr)
        self.assertIn("Linux on x86_64 with glibc 2.28 or newer", finished.stderr)

    def test_a_glibc_that_is_too_old_to_simulate_is_told_in_a_line(self) -> None:
        older = self.folder / "an-older-glibc.so"
        subprocess.run(
            ["g++", "-shared", "-fPIC", "-x", "c++", "-o", older, "-"],
            input='extern "C" const char* gnu_get_libc_version() { return "2.28"; }',
            text=True,
            check=True,
        )
        line = "this machine's glibc is 2.28, older than any that simgpu was tried with"
        for words in (
            ["run", "--simulate", "--", "touch", self.folder / "started"],
            ["verify", "--simulate", "--", "touch", self.folder / "started"],
            ["doctor", "--simulate"],
        ):
            with self.subTest(words):
                finished = run(self.superpipe, *words, LD_PRELOAD=str(older))
                self.assert_refuses(finished, f"superpipe {words[0]}: {line}")
        self.assertFalse((self.folder / "started").exists())

    def test_pip_refuses_it_in_a_line_where_it_does_not_run(self) -> None:
        for where, flags, says in (
            ("old glibc", ["--platform", "manylinux2014_x86_64"], "not a supported wheel"),
            ("musl", ["--platform", "musllinux_1_2_x86_64"], "not a supported wheel"),
            ("Arm", ["--platform", "manylinux_2_28_aarch64"], "not a supported wheel"),
            ("Python 3.8", ["--python-version", "3.8"], "requires a different Python: 3.8"),
        ):
            with self.subTest(where):
                finished = run(
                    # It judges as install does, but for another machine than this.
                    self.bin / "pip", "download", "--no-index", "--no-deps",
                    "--only-binary", ":all:", "--disable-pip-version-check",
                    "--dest", self.folder / "refused", *flags, self.wheel,
                )  # fmt: skip
                self.assertNotEqual(finished.returncode, 0)
                self.assertEqual(len(finished.stderr.splitlines()), 1, finished.stderr)
                self.assertIn(says, finished.stderr)
        self.assertFalse([*self.folder.glob("refused/*")])

    def test_runs_from_an_environment_whose_folder_has_a_space(self) -> None:
        environment = self.folder / "an environment"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
        bin_folder = environment / "bin"
        self.assert_runs(
            self.bin / "pip", "--python", bin_folder / "python", "install", "--no-index",
            "--no-deps", self.wheel,
        )  # fmt: skip
        program = bin_folder / "superpipe"
        for words in (
            [bin_folder / "python", self.script],
            [program.with_name("superpipe-layers"), "--layers", "4", "--layer-mib", "1"],
        ):
            with self.subTest(words):
                text = self.assert_runs(program, "run", "--simulate", "--k", "2", "--", *words)
                self.assertNotIn("computes no values", text)
                self.assertNotIn("cannot be", text)
                self.assertIn("superpipe", text)

    def test_a_program_of_an_environment_that_is_not_on_path_is_told_in_a_line(self) -> None:
        finished = run(
            self.superpipe, "run", "--simulate", "--", "superpipe-layers", PATH="/usr/bin:/bin"
        )
        self.assertEqual(finished.returncode, 127)
        self.assertEqual(len(finished.stderr.splitlines()), 1, finished.stderr)
        self.assertIn("there is no command 'superpipe-layers'", finished.stderr)

    @unittest.skipUnless(os.environ.get("SUPERPIPE_TORCH_PYTHON"), "no PyTorch here")
    def test_runs_a_script_with_pytorch(self) -> None:
        script = self.folder / "torch.script.py"
        script.write_text(TORCH_SCRIPT)
        text = self.assert_runs(
            self.superpipe,
            "run",
            "--simulate",
            "--gpu-mem",
            "50%",
            "--",
            os.environ["SUPERPIPE_TORCH_PYTHON"],
            script,
        )
        self.assertIn("sum ", text)

    def test_runs_where_glibc_is_older(self) -> None:
        if (
            subprocess.run(
                ["unshare", "--map-root-user", "--mount", "true"], capture_output=True
            ).returncode
            != 0
        ):
            self.skipTest("no namespaces here to make another root in")
        try:
            root = make_root(self.folder, OLDER)
        except Unavailable as why:
            self.skipTest(str(why))
        self.assert_runs(
            self.bin / "pip",
            "install",
            "--no-index",
            "--no-deps",
            "--target",
            root / "opt",
            self.wheel,
        )
        (root / "tmp" / "script.py").write_text(SCRIPT)
        # A program of this machine does not run there, so that root is an older one indeed.
        (root / "tmp" / "newer").write_bytes(Path("/bin/cat").read_bytes())
        (root / "tmp" / "newer").chmod(0o755)
        self.assertIn("GLIBC_2.3", run(*in_root(root, "/tmp/newer")).stderr)
        start = ["env", "PYTHONPATH=/opt", "python3", "-m", "superpipe"]
        self.assertIn("superpipe", self.assert_runs(*in_root(root, *start, "--version")))
        self.assert_refuses(
            run(*in_root(root, *start, "run", "--", "python3", "/tmp/script.py")), "libcuda.so.1"
        )
        simulated = [*start, "run", "--simulate", "--k", "2", "--"]
        text = self.assert_runs(*in_root(root, *simulated, "python3", "/tmp/script.py"))
        self.assertIn("the script has run", text)
        layers = ["/opt/superpipe/bin/superpipe-layers", "--layers", "4", "--layer-mib", "1"]
        text = self.assert_runs(*in_root(root, *simulated, *layers))
        self.assertNotIn("computes no values", text)
        # The loader says so where it goes on without what it could not load.
        self.assertNotIn("cannot be loaded", text)
        self.assertIn("evictions", text)
        text = self.assert_runs(
            *in_root(root, *start, "doctor", "--simulate", "--quick"), SIMGPU_DEVICES="2"
        )
        for word in ("skipped", "failed", "crashed", "timed out"):
            self.assertNotIn(f" {word}: ", text)
        preload = "LD_PRELOAD=/opt/superpipe/lib/superpipe/libsuperpipe.so"
        text = self.assert_runs(*in_root(root, "env", preload, "python3", "-c", "print('started')"))
        self.assertEqual(text, "started\n")


class Result(unittest.TextTestResult):
    """Fails where a test skips itself for a reason that is not listed."""

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:  # noqa: N802  (unittest's name)
        if MAY_SKIP.search(reason):
            super().addSkip(test, reason)
            print(f"skipped in {test.id()}: {reason}", file=sys.stderr)
        else:
            self.failures.append((test, f"skipped, and shall run here: {reason}"))


if __name__ == "__main__":
    if len(sys.argv) < 2 or not Path(sys.argv[1]).is_file():
        sys.exit("wheel_test: name the wheel that scripts/wheel made")
    Wheel.wheel = Path(sys.argv.pop(1)).resolve()
    tests = unittest.main(testRunner=unittest.TextTestRunner(resultclass=Result), exit=False)
    result = tests.result
    failed, skipped = len(result.failures) + len(result.errors), len(result.skipped)
    print(f"{result.testsRun - failed - skipped} passed, {failed} failed, {skipped} skipped")
    sys.exit(not result.wasSuccessful())
