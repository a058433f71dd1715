"""Runs the command in an installation made for one test: its own copy of bin/superpipe and stand-ins beside it."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from hermetic import LIMIT, clean_environment  # noqa: E402  (found through the path above)

BUILD = Path(os.environ.get("SUPERPIPE_BUILD_DIR", "build/dev")).resolve()
FAKE_DRIVER = BUILD / "tests" / "libfake_driver.so"


def files_that_are_no_traces(good: bytes) -> list[bytes]:
    """What may be taken for the trace `good`: empty, foreign, cut off in its header, of a newer version."""
    newer = good[:8] + b"\x09\x00" + good[10:]
    return [b"", b"time_ms,event\n" * 20, good[:10], good[:30], newer]


def damaged_traces(good: bytes) -> Iterator[bytes]:
    """The trace `good` with a bit changed in one place after another, behind its header."""
    for at in range(24, len(good), max(1, len(good) // 23)):
        yield good[:at] + bytes([good[at] ^ 0x40]) + good[at + 1:]


class CommandCase(unittest.TestCase):
    """`self.run_superpipe()` runs <temporary folder>/bin/superpipe with a clean environment."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="superpipe-tools-")
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.install(self.root / "installed")

    def install(self, prefix: Path) -> None:
        """An installation whose libraries are empty files: enough for the command, which only names them."""
        self.prefix = prefix
        (prefix / "bin").mkdir(parents=True)
        shutil.copy2(BUILD / "bin" / "superpipe", prefix / "bin" / "superpipe")
        self.library = prefix / "lib" / "superpipe" / "libsuperpipe.so"
        self.simgpu = prefix / "lib" / "superpipe" / "simgpu"
        self.simgpu.mkdir(parents=True)
        self.library.touch()
        shutil.copy2(FAKE_DRIVER, self.simgpu / "libcuda.so.1")
        for name in ("libcudart.so.13", "libsimgpu_loader.so", "libsimgpu_devices.so"):
            (self.simgpu / name).touch()

    def run_superpipe(self, *arguments: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess:
        return subprocess.run([self.prefix / "bin" / "superpipe", *arguments],
                              env={**clean_environment("LD_"), **(environment or {})},
                              capture_output=True, text=True, timeout=LIMIT, cwd=self.root)

    def assert_one_line(self, finished: subprocess.CompletedProcess, code: int, *parts: str) -> None:
        """It said one line on stderr that contains all of `parts`, nothing on stdout, and exited with `code`."""
        self.assertEqual(finished.returncode, code, finished.stderr)
        self.assertEqual(finished.stdout, "")
        lines = finished.stderr.splitlines()
        self.assertEqual(len(lines), 1, finished.stderr)
        for part in parts:
            self.assertIn(part, lines[0])
