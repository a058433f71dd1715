"""The preload as the loader and a program see it: its file, its lookups, its start."""

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

BUILD = Path(os.environ["SUPERPIPE_BUILD_DIR"])
SOURCE = Path(os.environ["SUPERPIPE_SOURCE_DIR"])
SANITIZER = os.environ.get("SUPERPIPE_SANITIZER", "")
LIBRARY = BUILD / "lib" / "superpipe" / "libsuperpipe.so"
PROBE = BUILD / "tests" / "interposer" / "driver_probe"
DRIVERS = BUILD / "tests" / "interposer" / "drivers"
ALLOWED_NEEDED = {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "libdl.so.2", "libpthread.so.0"}


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def needed_of(dynamic_section):
    return set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic_section))


def foreign_symbols(listing, driver_names):
    """The defined dynamic symbols that are neither the driver's nor superpipe_*."""
    defined = {line.split()[-1] for line in listing.splitlines() if " T " in line or " W " in line
               or " D " in line or " B " in line or " R " in line or " V " in line
               or " u " in line}
    return {name for name in defined
            if name not in driver_names and not name.startswith("superpipe_")}


def is_trampoline(disassembly, name):
    """Whether the function `name` is one indirect jump through a memory slot, and nothing else."""
    match = re.search(rf"<{name}>:\n\s*[0-9a-f]+:\s*(\S+)\s+(.*)", disassembly)
    return bool(match) and match.group(1) == "jmp" and match.group(2).startswith("*0x") \
        and "(%rip)" in match.group(2)


def thread_local_bytes(segments):
    """Bytes of thread-local variables, from the lines of readelf -lW."""
    sizes = [line.split()[5] for line in segments.splitlines() if line.split()[:1] == ["TLS"]]
    return sum(int(size, 16) for size in sizes)


def run(*arguments, driver=DRIVERS / "full" / "libcuda.so.1", preload=True, program=PROBE,
        **variables):
    environment = clean_environment("PYTORCH_", "TF_", "XLA_")
    if preload:
        environment["LD_PRELOAD"] = str(LIBRARY)
    if driver is not None:
        environment["SUPERPIPE_DRIVER"] = str(driver)
    # The preload comes before the program's own sanitizer runtime, which is the same one.
    environment["ASAN_OPTIONS"] = "verify_asan_link_order=0:detect_leaks=0"
    environment.update({name: str(value) for name, value in variables.items()})
    return subprocess.run([str(program), *arguments], env=environment, capture_output=True,
                          text=True, check=False, timeout=LIMIT)


class FileTest(unittest.TestCase):
    """What the library file needs and exports (without a sanitizer, whose runtime it would need)."""

    def setUp(self):
        if SANITIZER:
            self.skipTest("a sanitizer adds its own runtime to the library")

    def driver_names(self):
        text = (SOURCE / "interposer" / "generated" / "exports.map").read_text()
        return set(re.findall(r"\b(cu[A-Z]\w*);", text))

    def test_needs_only_the_c_library(self):
        needed = needed_of(output("readelf", "-d", str(LIBRARY)))
        self.assertLessEqual(needed, ALLOWED_NEEDED)

    def test_the_check_of_needs_would_see_the_cxx_library(self):
        line = " 0x1 (NEEDED)             Shared library: [libstdc++.so.6]"
        self.assertFalse(needed_of(line) <= ALLOWED_NEEDED)

    def test_leaves_thread_local_room_to_libraries_that_are_opened_later(self):
        # glibc keeps 1,664 bytes for all of them together, and where these are used up, dlopen fails.
        self.assertLessEqual(thread_local_bytes(output("readelf", "-lW", str(LIBRARY))), 256)

    def test_the_check_of_thread_local_room_would_see_an_array(self):
        line = "  TLS            0x2e6d10 0x00000000002e7d10 0x00000000002e7d10 0x000000 0x000698 R   0x8"
        self.assertGreater(thread_local_bytes(line), 256)

    def test_has_the_drivers_soname(self):
        self.assertIn("Library soname: [libcuda.so.1]", output("readelf", "-d", str(LIBRARY)))

    def test_exports_every_name_of_the_driver_and_nothing_foreign(self):
        listing = output("nm", "-D", "--defined-only", str(LIBRARY))
        names = self.driver_names()
        exported = {line.split()[-1] for line in listing.splitlines()}
        self.assertEqual(names - exported, set())
        self.assertEqual(foreign_symbols(listing, names), set())

    def test_the_check_of_exports_would_see_a_leak(self):
        self.assertEqual(foreign_symbols("0 T cuInit\n0 W _ZN3foo3barEv", {"cuInit"}),
                         {"_ZN3foo3barEv"})

    def test_passed_functions_are_one_jump(self):
        disassembly = output("objdump", "-d", "--no-show-raw-insn", str(LIBRARY))
        for name in ("cuInit", "cuCtxGetDevice", "cuEventRecord", "cuTexRefGetFlags",
                     "cuMemHostRegister_v2"):
            with self.subTest(name):
                self.assertTrue(is_trampoline(disassembly, name))
        self.assertFalse(is_trampoline(disassembly, "cuLaunchKernel"), "hooked: more than a jump")


class LookupTest(unittest.TestCase):
    def answers(self, **options):
        result = run("lookups", **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return dict(line.split(" ", 1) for line in result.stdout.splitlines())

    EXPECTED = {"alloc": "ours", "launch": "ours", "launch-ptsz": "ours", "itself": "ours",
                "itself-old": "ours", "alloc-again": "ours", "pass": "other", "newer": "passes",
                "absent": "null", "identity": "1"}

    def test_every_lookup_of_a_hooked_function_gives_ours(self):
        self.assertEqual(self.answers(), self.EXPECTED)

    def test_a_symbolically_linked_driver_is_no_different(self):
        self.assertEqual(self.answers(driver=DRIVERS / "symbolic" / "libcuda.so.1"), self.EXPECTED)

    def test_falls_back_to_names_where_identity_does_not_hold(self):
        answers = self.answers(FAKE_DRIVER_PRIVATE_ENTRIES=1)
        self.assertEqual(answers, {**self.EXPECTED, "identity": "0"})

    def test_a_form_that_is_newer_than_the_header_passes_and_is_said_once(self):
        for variables in ({}, {"FAKE_DRIVER_PRIVATE_ENTRIES": 1}):
            with self.subTest(variables):
                result = run("newer-form", **variables)
                answers = dict(line.split(" ", 1) for line in result.stdout.splitlines())
                # Ours would take the size for an address to write to.
                self.assertEqual(answers, {"newer": "0 allocated", "alloc": "ours", "launch": "ours",
                                           "identity": "0" if variables else "1"}, result.stderr)
                self.assertEqual(result.stderr, "superpipe: cuGetProcAddress: cuMemAlloc_v99 is newer than this "
                                 "version of superpipe and is not managed\n")

    def test_gives_the_drivers_own_when_off(self):
        answers = self.answers(SUPERPIPE_OFF=1)
        self.assertEqual(answers["alloc"], "other")
        self.assertEqual(answers["itself"], "other")

    def test_finds_the_driver_through_the_library_path(self):
        answers = self.answers(driver=None, LD_LIBRARY_PATH=DRIVERS / "full")
        self.assertEqual(answers, self.EXPECTED)

    def test_calls_of_the_driver_to_itself_pass(self):
        # Hooked, the inner allocation would be managed or refused; the pitch shows who answered.
        result = run("reenter")
        self.assertEqual(result.stdout, "reenter 0 pitch 64\n", result.stderr)

    def test_a_function_that_an_older_driver_lacks_is_not_supported_and_said(self):
        result = run("call", "cuMulticastCreate", driver=DRIVERS / "old" / "libcuda.so.1")
        self.assertEqual(result.stdout, "call 801\n")
        self.assertIn("cuMulticastCreate was called, but the driver does not have it",
                      result.stderr)


class StartTest(unittest.TestCase):
    def assert_one_line(self, text, *parts):
        lines = text.splitlines()
        self.assertEqual(len(lines), 1, text)
        for part in parts:
            self.assertIn(part, lines[0])

    def test_a_missing_driver_is_no_device_and_one_line(self):
        result = run("init", driver="/nonexistent/libcuda.so.1")
        self.assertEqual(result.stdout, "init 100\n")
        self.assert_one_line(result.stderr, "SUPERPIPE_DRIVER=/nonexistent/libcuda.so.1",
                             "no such file", "--simulate")

    def test_a_foreign_library_is_no_device_and_one_line(self):
        result = run("init", driver=DRIVERS / "foreign" / "libcuda.so.1")
        self.assertEqual(result.stdout, "init 100\n")
        self.assert_one_line(result.stderr, "is no CUDA driver", "SUPERPIPE_DRIVER")

    def test_a_file_that_is_no_library_is_no_device_and_one_line(self):
        result = run("init", driver="/etc/passwd")
        self.assertEqual(result.stdout, "init 100\n")
        self.assert_one_line(result.stderr, "/etc/passwd", "cannot be opened")

    def test_itself_is_refused_as_the_driver(self):
        result = run("init", driver=LIBRARY)
        self.assertEqual(result.stdout, "init 100\n")
        self.assert_one_line(result.stderr, "superpipe itself")

    @unittest.skipIf(SANITIZER, "a program that is not instrumented cannot load the sanitizer's runtime late")
    def test_a_program_that_is_not_cuda_notices_nothing(self):
        for variables in ({}, {"SUPERPIPE_K": "bad"}, {"SUPERPIPE_STATS": "/nonexistent/x"}):
            with self.subTest(variables):
                result = run("hello", program="/bin/echo", driver="/nonexistent", **variables)
                self.assertEqual((result.returncode, result.stdout, result.stderr),
                                 (0, "hello\n", ""))

    def test_a_driver_before_cuda_12_4_is_one_line_and_runs_without_superpipe(self):
        for version in (11080, 12030):
            with self.subTest(version):
                result = run("allocate", SUPERPIPE_K=2, FAKE_DRIVER_VERSION=version)
                self.assertEqual(result.stdout, 2 * "alloc 0 something\n", result.stderr)
                self.assert_one_line(result.stderr, "CUDA 12.4 (driver 550) or newer is needed",
                                     "the program runs without superpipe")

    def test_a_driver_of_cuda_11_is_one_line_and_runs_without_superpipe(self):
        driver = DRIVERS / "cuda_11" / "libcuda.so.1"
        result = run("allocate", driver=driver, SUPERPIPE_K=2, FAKE_DRIVER_VERSION=11040)
        self.assertEqual(result.stdout, 2 * "alloc 0 something\n", result.stderr)
        self.assert_one_line(result.stderr, f"the driver {driver} is of CUDA 11.4, and CUDA 12.4 "
                             "(driver 550) or newer is needed; the program runs without superpipe")
        result = run("allocate", driver=driver, SUPERPIPE_OFF=1, FAKE_DRIVER_VERSION=11040)
        self.assertEqual((result.stdout, result.stderr), (2 * "alloc 0 something\n", ""))

    def test_a_driver_of_cuda_11_is_no_device_when_strict(self):
        result = run("allocate", driver=DRIVERS / "cuda_11" / "libcuda.so.1", SUPERPIPE_K=2,
                     SUPERPIPE_STRICT=1, FAKE_DRIVER_VERSION=11040)
        self.assertEqual(result.stdout, 2 * "alloc 3 nothing\n", result.stderr)
        self.assert_one_line(result.stderr, "is of CUDA 11.4",
                             "SUPERPIPE_STRICT=1, so it is not used")

    def assert_opened_beside(self, name, path, program="open", **variables):
        """The program opens a driver as `name`, which is the file at `path`, and that is said
        once."""
        result = run(program, name, driver=DRIVERS / "symbolic" / "libcuda.so.1", **variables)
        self.assertEqual(result.stdout, "init 0\n", result.stderr)
        self.assert_one_line(result.stderr,
                             f"the program opened the driver past superpipe ({path})")

    def test_a_driver_that_is_opened_beside_the_library_is_said(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        full = DRIVERS / "full" / "libcuda.so.1"
        self.assert_opened_beside(full, full)
        link = Path(folder.name) / "libcuda.so"
        link.symlink_to(full)
        self.assert_opened_beside("libcuda.so", link, LD_LIBRARY_PATH=folder.name)
        other = Path(folder.name) / "driver_of_mine.so"
        other.symlink_to(full)
        self.assert_opened_beside(other, other)

    def test_the_driver_itself_that_is_opened_before_the_library_opens_it_is_said(self):
        driver = DRIVERS / "symbolic" / "libcuda.so.1"
        self.assert_opened_beside(driver, driver, program="open-both")

    def test_the_library_under_the_drivers_name_is_no_driver_beside_it(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        (Path(folder.name) / "libcuda.so").symlink_to(LIBRARY)
        result = run("open", "libcuda.so", LD_LIBRARY_PATH=folder.name)
        self.assertEqual((result.stdout, result.stderr), ("init 0\n", ""))

    def test_a_driver_beside_the_library_is_left_unsaid_when_off(self):
        result = run("open", DRIVERS / "full" / "libcuda.so.1", SUPERPIPE_OFF=1)
        self.assertEqual((result.stdout, result.stderr), ("init 0\n", ""))

    def test_a_driver_before_cuda_12_4_fails_allocations_when_strict(self):
        result = run("allocate", SUPERPIPE_K=2, FAKE_DRIVER_VERSION=12030, SUPERPIPE_STRICT=1)
        self.assertEqual(result.stdout, 2 * "alloc 2 nothing\n", result.stderr)
        self.assert_one_line(result.stderr, "CUDA 12.4 (driver 550) or newer is needed", "SUPERPIPE_STRICT=1",
                             "allocations fail")

    def test_a_driver_of_cuda_12_4_is_not_too_old(self):
        result = run("allocate", SUPERPIPE_K=2, FAKE_DRIVER_VERSION=12040)
        self.assertNotIn("CUDA 12.4", result.stderr)

    def test_a_bad_value_is_one_line_and_runs_without_superpipe(self):
        result = run("lookups", SUPERPIPE_K="none")
        self.assertEqual(result.returncode, 0)
        self.assertIn("alloc other", result.stdout)
        self.assert_one_line(result.stderr, "SUPERPIPE_K=none", "whole number", "runs without superpipe")

    def test_a_bad_wish_for_a_summary_is_one_line(self):
        # `superpipe run` sets it itself; a program that preloads the library may not get it right.
        result = run("init", SUPERPIPE_SUMMARY="yes")
        self.assertEqual(result.stdout, "init 0\n")
        self.assert_one_line(result.stderr, "SUPERPIPE_SUMMARY=yes", "must be 1 or 0", "runs without superpipe")

    def test_two_bad_values_are_two_lines(self):
        result = run("init", SUPERPIPE_K="none", SUPERPIPE_PLAN="p")
        lines = result.stderr.splitlines()
        self.assertEqual(len(lines), 2, result.stderr)
        for line in lines:
            self.assertTrue(line.startswith("superpipe: SUPERPIPE_"), line)

    def test_a_bad_value_stops_the_program_when_strict(self):
        result = run("environment", "HOME", SUPERPIPE_K="0", SUPERPIPE_STRICT=1)
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assert_one_line(result.stderr, "SUPERPIPE_K=0", "SUPERPIPE_STRICT=1")

    def test_frameworks_are_told_to_allocate_each_tensor(self):
        for name, value in (("PYTORCH_ALLOC_CONF", "backend:cudaMallocAsync"),
                            ("PYTORCH_CUDA_ALLOC_CONF", "backend:cudaMallocAsync"),
                            ("TF_GPU_ALLOCATOR", "cuda_malloc_async"),
                            ("TF_FORCE_GPU_ALLOW_GROWTH", "true"),
                            ("XLA_PYTHON_CLIENT_ALLOCATOR", "cuda_async"),
                            ("XLA_PYTHON_CLIENT_PREALLOCATE", "false")):
            with self.subTest(name):
                self.assertEqual(run("environment", name).stdout, value + "\n")

    def test_a_frameworks_variable_that_the_user_set_stays(self):
        for name, other in (("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"), ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")):
            for chosen in ("backend:native", "max_split_size_mb:64,backend:native"):
                with self.subTest((name, chosen)):
                    self.assertEqual(run("environment", name, **{name: chosen}).stdout, chosen + "\n")
                    self.assertEqual(run("environment", other, **{name: chosen}).stdout, "(unset)\n")
                    result = run("environment", other, **{name: chosen, other: "max_split_size_mb:64"})
                    self.assertEqual(result.stdout, "max_split_size_mb:64\n")
        result = run("environment", "TF_GPU_ALLOCATOR", TF_GPU_ALLOCATOR="mine")
        self.assertEqual(result.stdout, "mine\n")

    def test_options_that_choose_no_allocator_stay_beside_it(self):
        result = run("environment", "PYTORCH_CUDA_ALLOC_CONF", PYTORCH_CUDA_ALLOC_CONF="max_split_size_mb:64")
        self.assertEqual(result.stdout, "max_split_size_mb:64,backend:cudaMallocAsync\n")
        result = run("environment", "PYTORCH_ALLOC_CONF", PYTORCH_CUDA_ALLOC_CONF="max_split_size_mb:64")
        self.assertEqual(result.stdout, "(unset)\n")
        for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"):
            result = run("environment", name, PYTORCH_ALLOC_CONF="max_split_size_mb:64")
            self.assertEqual(result.stdout, "max_split_size_mb:64,backend:cudaMallocAsync\n", "older versions know the old name alone")

    def test_expandable_segments_are_overridden_and_that_is_said(self):
        for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"):
            for allocator, backend in (("async", ",backend:cudaMallocAsync"), ("native", "")):
                with self.subTest((name, allocator)):
                    result = run("environment", name, SUPERPIPE_ALLOCATOR=allocator, SUPERPIPE_POLICY="auto",
                                 **{name: "max_split_size_mb:64,expandable_segments:True"})
                    self.assertEqual(result.stdout, f"max_split_size_mb:64,expandable_segments:False{backend}\n")
                    self.assertEqual(result.stderr, "", "a program without CUDA is told nothing")
                    result = run("init", SUPERPIPE_ALLOCATOR=allocator, SUPERPIPE_POLICY="auto",
                                 **{name: "max_split_size_mb:64,expandable_segments:True"})
                    self.assert_one_line(result.stderr, f"expandable_segments:True of {name} is False now")
        for variables in ({"PYTORCH_ALLOC_CONF": "expandable_segments:False", "SUPERPIPE_ALLOCATOR": "native"},
                          {"PYTORCH_ALLOC_CONF": "expandable_segments:True", "SUPERPIPE_OFF": 1},
                          {"PYTORCH_ALLOC_CONF": "expandable_segments:True", "SUPERPIPE_POLICY": "resident"},
                          {"PYTORCH_ALLOC_CONF": "a:1", "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
                           "SUPERPIPE_POLICY": "resident"}):
            with self.subTest(variables):
                result = run("environment", "PYTORCH_ALLOC_CONF", **variables)
                self.assertEqual((result.stdout, result.stderr), (variables["PYTORCH_ALLOC_CONF"] + "\n", ""))

    ALLOCATOR_LINE = "superpipe: the program ended with exit code {}. PyTorch allocated with backend:cudaMallocAsync, which superpipe chose"

    def pytorch(self):
        """A library that looks like PyTorch's to the loader."""
        folder = tempfile.TemporaryDirectory(prefix="superpipe-pytorch-")
        self.addCleanup(folder.cleanup)
        return shutil.copy(BUILD / "tests" / "interposer" / "libfake_interpreter.so", Path(folder.name) / "libtorch_cpu.so")

    def test_a_program_of_pytorch_that_fails_is_told_of_the_allocator_once(self):
        library = self.pytorch()
        for code in (1, 3):
            result = run("end-with", str(code), library)
            self.assertEqual(result.returncode, code)
            self.assert_one_line(result.stderr, self.ALLOCATOR_LINE.format(code), "--allocator native")

    @unittest.skipIf(SANITIZER, "a shell cannot load the sanitizer's runtime late")
    def test_what_a_shell_starts_is_told_of_the_allocator_and_the_shell_is_not(self):
        library = self.pytorch()
        # The process finds the variables set, by superpipe all the same.
        result = run("-c", f"{PROBE} end-with 1 {library}; exit 0", program="/bin/sh")
        self.assert_one_line(result.stderr, self.ALLOCATOR_LINE.format(1))
        result = run("-c", f"LD_PRELOAD={LIBRARY}:{library}; export LD_PRELOAD; {PROBE} environment HOME; exit 1",
                     program="/bin/sh", LD_PRELOAD=f"{LIBRARY}:{library}")
        self.assertEqual((result.returncode, result.stderr), (1, ""), "a program without CUDA")

    def test_others_are_told_nothing_of_the_allocator(self):
        library = self.pytorch()
        for what, arguments, variables in (
                ("no error", ("0", library), {}), ("no PyTorch", ("1",), {}),
                ("exit code 0 for who waits", ("256", library), {}),
                ("native", ("1", library), {"SUPERPIPE_ALLOCATOR": "native"}),
                ("off", ("1", library), {"SUPERPIPE_OFF": 1}),
                ("the user's choice", ("1", library), {"PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync"}),
                ("the program's choice", ("1", library, "backend:native"), {}),
                ("no log", ("1", library), {"SUPERPIPE_LOG": "off"})):
            with self.subTest(what):
                self.assertEqual(run("end-with", *arguments, **variables).stderr, "")

    NEVER_OPENED = "superpipe: the program never opened the CUDA driver"

    def run_with_summary(self, *arguments, **variables):
        """A run of the probe, or of a shell, that asks for a summary, in a folder of its own, which is empty at its end."""
        with tempfile.TemporaryDirectory() as folder:
            result = run(*arguments, **{"SUPERPIPE_SUMMARY": 1, "SUPERPIPE_SHARED_FOLDER": folder, **variables})
            self.assertEqual(os.listdir(folder), [])
        return result

    def test_a_program_that_never_opened_the_driver_is_told_so(self):
        result = self.run_with_summary("environment", "HOME")
        self.assertEqual(result.returncode, 0)
        self.assert_one_line(result.stderr, self.NEVER_OPENED, "--strict")
        result = self.run_with_summary("environment", "HOME", SUPERPIPE_STRICT=1)
        self.assertEqual(result.returncode, 125)
        self.assert_one_line(result.stderr, self.NEVER_OPENED)
        self.assertNotEqual(result.stdout, "", "what the program printed is not lost")

    def test_other_programs_are_told_nothing_of_that(self):
        for what, arguments, variables, code in (
                ("it opened the driver", ("init",), {}, 0),
                ("no summary", ("environment", "HOME"), {"SUPERPIPE_SUMMARY": 0}, 0),
                ("another process began the run", ("environment", "HOME"), {"SUPERPIPE_RUN_ROOT": 1}, 0),
                ("off", ("environment", "HOME"), {"SUPERPIPE_OFF": 1, "SUPERPIPE_STRICT": 1}, 0)):
            with self.subTest(what):
                result = self.run_with_summary(*arguments, **variables)
                self.assertEqual((result.returncode, self.NEVER_OPENED in result.stderr), (code, False), result.stderr)
        result = self.run_with_summary("init", driver="/nonexistent/libcuda.so.1")
        self.assert_one_line(result.stderr, "no such file")

    @unittest.skipIf(SANITIZER, "Python cannot load the sanitizer's runtime late")
    def test_a_process_that_another_one_starts_may_open_the_driver(self):
        for what, program, is_told in (
                ("its child opens it", f"import subprocess; subprocess.call(['{PROBE}', 'init'])", False),
                ("its child does not", f"import subprocess; subprocess.call(['{PROBE}', 'environment', 'HOME'])", True),
                ("a forked child opens it", "import ctypes, os\nif os.fork() == 0:\n"
                 "    ctypes.CDLL('libcuda.so.1').cuInit(0); os._exit(0)\nos.wait()", False),
                ("its child opens it, and it becomes another program", "import os, subprocess\n"
                 f"subprocess.call(['{PROBE}', 'init'])\nos.execv('{PROBE}', ['{PROBE}', 'environment', 'HOME'])", False),
                ("it opens it itself, and becomes another program", "import ctypes, os\n"
                 "ctypes.CDLL('libcuda.so.1').cuInit(0)\n"
                 f"os.execv('{PROBE}', ['{PROBE}', 'environment', 'HOME'])", False),
                ("it becomes another program", f"import os; os.execv('{PROBE}', ['{PROBE}', 'environment', 'HOME'])", True),
                ("its child opens it, and it fails", f"import subprocess; subprocess.call(['{PROBE}', 'init']); raise SystemExit(2)", False),
                ("it fails by itself", "raise SystemExit(2)", False)):
            with self.subTest(what):
                result = self.run_with_summary("-c", program, program=sys.executable, SUPERPIPE_STRICT=1)
                self.assertEqual(self.NEVER_OPENED in result.stderr, is_told, result.stderr)
                self.assertEqual(result.returncode, 125 if is_told else 2 if "it fails" in what else 0)

    @unittest.skipIf(SANITIZER, "Python cannot load the sanitizer's runtime late")
    def test_marks_of_processes_that_are_gone_are_removed(self):
        with tempfile.TemporaryDirectory() as folder:
            begin = f"import subprocess, os; subprocess.call(['{PROBE}', 'init']); os._exit(0)"
            shared = {"SUPERPIPE_SUMMARY": 1, "SUPERPIPE_SHARED_FOLDER": folder}
            run("-c", begin, program=sys.executable, **shared)
            self.assertEqual(len(os.listdir(folder)), 1, "it could not remove the mark itself")
            run("init", **shared)
            self.assertEqual(os.listdir(folder), [])

    def test_frameworks_are_left_alone_when_native_or_off(self):
        for variables in ({"SUPERPIPE_ALLOCATOR": "native"}, {"SUPERPIPE_OFF": 1}):
            with self.subTest(variables):
                result = run("environment", "TF_GPU_ALLOCATOR", **variables)
                self.assertEqual(result.stdout, "(unset)\n")

    def test_a_log_file_takes_the_lines(self):
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "log"
            result = run("init", driver="/nonexistent", SUPERPIPE_LOG=f"info:{log}")
            self.assertEqual(result.stderr, "")
            self.assertIn("no such file", log.read_text())

    def test_a_forked_child_of_a_program_without_superpipe_passes_through(self):
        result = run("fork")
        self.assertEqual(result.stdout, "parent 0\nchild 0\nstatus 0\n", result.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
