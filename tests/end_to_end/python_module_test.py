"""A program of Python on simgpu asks about itself, changes its budget, and starts others."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

from simulated_run import FAST, LIMIT, MIB, SOURCE, SUPERPIPE, EndToEndCase, run
from hermetic import clean_environment

# What the programs have in common; {body} is what one does.
PROGRAM = """
import ctypes, json, os, subprocess, sys
import superpipe

cuda = ctypes.CDLL("libcuda.so.1")

def call(name, *words):
    code = getattr(cuda, name)(*words)
    if code != 0:
        sys.exit(f"{{name}}: {{code}}")

def allocate(mib):
    context, address = ctypes.c_void_p(), ctypes.c_uint64()
    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call("cuCtxSetCurrent", context)
    call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(mib << 20))
    call("cuMemsetD8_v2", address, ctypes.c_ubyte(7), ctypes.c_size_t(mib << 20))
    return address

def error_of(function, *words):
    try:
        function(*words)
    except Exception as error:
        return [type(error).__name__, str(error)]

said = {{}}
{body}
print(json.dumps(said))
"""
VARIABLES = {"PYTHONPATH": str(SOURCE / "python"), "PYTHONDONTWRITEBYTECODE": "1"}
PRINT_ACTIVE = "import superpipe; print(superpipe.is_active())"


class ModuleCase(EndToEndCase):
    def program(self, body: str) -> list[str]:
        return [sys.executable, "-c", PROGRAM.format(body=body)]

    def said(self, body: str, *flags: str, **environment: str) -> dict:
        """What the program printed as JSON."""
        outcome = run(self.program(body), *flags, environment={**VARIABLES, **environment})
        self.assert_succeeded(outcome)
        return json.loads(outcome.stdout)


class OwnProcess(ModuleCase):
    def test_says_its_figures_and_changes_its_budget(self) -> None:
        said = self.said(
            """
superpipe.require_active()
said["early"] = error_of(superpipe.stats)
allocate(8)
said["stats"] = superpipe.stats()
superpipe.set_budget("24M")
said["text"] = superpipe.stats()
superpipe.set_budget(32 << 20, timeout=20)
said["number"] = superpipe.stats()
said["no size"] = error_of(superpipe.set_budget, "12Q")
said["no text"] = error_of(superpipe.set_budget, 0.5)
said["small"] = error_of(superpipe.set_budget, "1M")
""",
            "--gpu-mem",
            "40M",
        )
        self.assertEqual(said["early"][0], "Error")
        self.assertIn("superpipe top: ", said["early"][1])
        self.assertEqual(said["stats"]["budget_bytes"], 40 * MIB)
        self.assertEqual(said["stats"]["live_bytes"], 8 * MIB)
        self.assertEqual(said["stats"]["policy"], "auto")
        self.assertEqual(said["text"]["budget_bytes"], 24 * MIB)
        self.assertEqual(said["number"]["budget_bytes"], 32 * MIB)
        self.assertEqual(said["no size"][0], "ValueError")
        self.assertIn("'12Q' is no size", said["no size"][1])
        self.assertEqual(said["no text"][0], "ValueError")
        self.assertEqual(said["small"][0], "Error")
        self.assertIn("allow more", said["small"][1])

    def test_active_is_what_is_in_force(self) -> None:
        body = """
said["active"] = superpipe.is_active()
said["why"] = error_of(superpipe.require_active)
"""
        self.assertEqual(self.said(body, "--k", "2"), {"active": True, "why": None})
        self.assertEqual(self.said(body, "--policy", "resident"), {"active": True, "why": None})
        bad = self.said(body, SUPERPIPE_MIN_BUFFER="x")
        self.assertFalse(bad["active"])
        self.assertIn("not in force", bad["why"][1])
        off = self.said(body, SUPERPIPE_OFF="1")
        self.assertFalse(off["active"])
        # As under superpipe verify, where the library is there and only watches.
        preload = str(SUPERPIPE.parents[1] / "lib" / "superpipe" / "libsuperpipe.so")
        copies = {"SUPERPIPE_COPIES": os.devnull, "LD_PRELOAD": preload, "SUPERPIPE_OFF": "1"}
        self.assertFalse(self.said(body, **copies)["active"])

    def test_a_forked_child_of_a_process_that_has_called_cuda_is_not_active(self) -> None:
        said = self.said(
            """
def child():
    pid = os.fork()
    if pid == 0:
        os._exit(1 if superpipe.is_active() else 2)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
said["before"] = child()
allocate(2)
said["after"] = child()
said["parent"] = superpipe.is_active()
"""
        )
        self.assertEqual(said, {"before": 1, "after": 2, "parent": True})

    def test_its_children_start_without_what_it_was_asked_for(self) -> None:
        # A strict command that opens no driver would end with 125, and one that summarises say so.
        body = "allocate(2)\nsaid['pid'] = superpipe.stats()['pid'] == os.getpid()"
        said = self.said(body, "--strict")
        self.assertEqual(said, {"pid": True})


class Others(ModuleCase):
    def start(self, code: str, **variables: str) -> subprocess.CompletedProcess:
        """A program that superpipe run does not start."""
        return subprocess.run(
            [sys.executable, "-c", code],
            env={**clean_environment("LD_", "CUDA_"), **FAST, **VARIABLES, **variables},
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )

    def test_an_environment_puts_a_child_under_superpipe(self) -> None:
        starter = f"""
import os, subprocess, sys, superpipe
assert not superpipe.is_active()
environment = superpipe.environment(simulate=True, gpu_mem="40M")
sys.exit(subprocess.run(sys.argv[1:], env={{**os.environ, **environment}}).returncode)
"""
        body = "allocate(8); said['stats'] = superpipe.stats(); superpipe.set_budget('30M')"
        path = f"{SUPERPIPE.parent}:{os.environ['PATH']}"
        finished = subprocess.run(
            [sys.executable, "-c", starter, *self.program(body)],
            env={**clean_environment("LD_", "CUDA_"), **FAST, **VARIABLES, "PATH": path},
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
        self.assertEqual((finished.returncode, finished.stderr), (0, ""))
        self.assertEqual(json.loads(finished.stdout)["stats"]["budget_bytes"], 40 * MIB)

    def test_a_child_of_a_program_under_superpipe_gets_what_it_is_given(self) -> None:
        said = self.said(
            """
environment = {**os.environ, **superpipe.environment(simulate=True, gpu_mem="30M")}
child = "import os, superpipe; print(superpipe.is_active(), os.environ['SUPERPIPE_K'] == '')"
said["child"] = subprocess.run([sys.executable, "-c", child], env=environment,
                               capture_output=True, text=True).stdout
said["preload"] = environment["LD_PRELOAD"].split(":")
""",
            "--k",
            "2",
        )
        self.assertEqual(said["child"], "True True\n")
        self.assertEqual(len(said["preload"]), len(set(said["preload"])))

    def test_a_start_without_the_library_is_noticed(self) -> None:
        gone = "/no/such/libsuperpipe.so"
        finished = self.start(PRINT_ACTIVE, LD_PRELOAD=gone)
        self.assertEqual((finished.returncode, finished.stdout), (0, "False\n"))
        self.assertIn("cannot be preloaded", finished.stderr)
        finished = self.start("import superpipe; superpipe.require_active()", LD_PRELOAD=gone)
        self.assertEqual(finished.returncode, 1)
        self.assertIn(f"LD_PRELOAD names {gone}, which cannot be read", finished.stderr)


class ShellAndCopy(ModuleCase):
    def test_a_shells_variables_put_programs_under_superpipe(self) -> None:
        words = [f'eval "$({SUPERPIPE} env --simulate --gpu-mem 40M)"; "$@"', "sh"]
        finished = subprocess.run(
            ["sh", "-c", *words, sys.executable, "-c", PRINT_ACTIVE],
            env={**clean_environment("LD_", "CUDA_"), **VARIABLES},
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
        # Programs that never open the driver say nothing of it: the shell starts many.
        self.assertEqual((finished.stdout, finished.stderr), ("True\n", ""))

    def test_a_copy_of_the_runtime_runs_programs(self) -> None:
        with tempfile.TemporaryDirectory(prefix="superpipe-copy-") as folder:
            copied = subprocess.run(
                [SUPERPIPE, "copy-runtime", folder, "--simulate"],
                env=clean_environment("LD_"),
                capture_output=True,
                text=True,
                timeout=LIMIT,
            )
            self.assertEqual((copied.returncode, copied.stderr), (0, ""))
            command = f"{folder}/superpipe/bin/superpipe"
            body = """
allocate(8)
said["library"] = os.environ["LD_PRELOAD"]
said["stats"] = superpipe.stats()
"""
            environment = {**clean_environment("LD_", "CUDA_"), **FAST, **VARIABLES}
            for start in (
                [command, "run", "--simulate", "--gpu-mem", "40M", "--"],
                ["sh", "-c", f'eval "$({command} env --simulate --gpu-mem 40M)"; "$@"', "sh"],
            ):
                with self.subTest(start):
                    finished = subprocess.run(
                        [*start, *self.program(body)],
                        env=environment,
                        capture_output=True,
                        text=True,
                        timeout=LIMIT,
                    )
                    self.assertEqual(finished.returncode, 0, finished.stderr)
                    said = json.loads(finished.stdout)
                    self.assertTrue(said["library"].startswith(folder))
                    self.assertEqual(said["stats"]["budget_bytes"], 40 * MIB)


if __name__ == "__main__":
    unittest.main()
