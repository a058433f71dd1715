"""How the examples' tests run the programs: on the host, or on simgpu without superpipe."""

import os
import subprocess
import unittest
from pathlib import Path

BUILD = Path(os.environ.get("SUPERPIPE_BUILD_DIR", "build/dev")).resolve()
SOURCE = Path(os.environ.get("SUPERPIPE_SOURCE_DIR", Path(__file__).resolve().parents[2]))
MODEL = Path(os.environ.get("SUPERPIPE_MINILM_DIR") or SOURCE / ".deps" / "minilm")
SIMGPU = BUILD / "lib" / "superpipe" / "simgpu"
# How a program's kernels are computed: its device code thread by thread on the host, its simgpu plugin on the host
# without a driver, or its simgpu plugin on simgpu.
THREADS, PLUGIN, ON_SIMGPU = "threads", "plugin", "simgpu"


def plugin(name: str) -> Path:
    return BUILD / "bin" / f"superpipe-{name}.simgpu.so"


def run(name: str, how: str, *words, standard_input: bytes = b"", **variables: str) -> subprocess.CompletedProcess:
    """Runs superpipe-NAME; its output is bytes."""
    environment = {key: value for key, value in os.environ.items()
                   if not key.startswith(("SUPERPIPE_", "SIMGPU_", "EMULATION_", "LD_", "CUDA_"))}
    program = BUILD / "tests" / f"emulated_{name}"
    if how == PLUGIN:
        environment["EMULATION_PLUGIN"] = str(plugin(name))
    elif how == ON_SIMGPU:
        program = BUILD / "bin" / f"superpipe-{name}"
        environment.update({"LD_LIBRARY_PATH": str(SIMGPU), "LD_PRELOAD": str(SIMGPU / "libcudart.so.13"),
                            "SIMGPU_KERNELS": str(plugin(name))})
    environment.update(variables)
    return subprocess.run([str(program), *(str(word) for word in words)], input=standard_input, env=environment,
                          capture_output=True, timeout=300)


def require(present: bool, what: str) -> None:
    """Skips the test where something is not there; in CI, where it has to be, fails it."""
    if not present:
        if os.environ.get("CI") == "true":
            raise AssertionError(f"CI must have {what}")
        raise unittest.SkipTest(f"needs {what}")


def require_model() -> None:
    require((MODEL / "model.safetensors").is_file(), f"the model in {MODEL}: run scripts/fetch_minilm")


class ProgramCase(unittest.TestCase):
    """Assertions on finished programs."""

    def assert_done(self, finished: subprocess.CompletedProcess) -> None:
        self.assertEqual(finished.returncode, 0, finished.stderr.decode(errors="replace"))

    def assert_refused(self, finished: subprocess.CompletedProcess, code: int, *parts: str) -> None:
        """Ended with the exit code, nothing on standard output, and one line that has the parts."""
        error = finished.stderr.decode()
        self.assertEqual(finished.returncode, code, error)
        self.assertEqual(finished.stdout, b"")
        self.assertEqual(error.count("\n"), 1, error)
        for part in parts:
            self.assertIn(part, error)
