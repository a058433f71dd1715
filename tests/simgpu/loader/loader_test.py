"""What the dynamic loader opens under libsimgpu_loader.so, by which name and path a program asks."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from hermetic import LIMIT, clean_environment  # noqa: E402  (found through the path above)

SIMGPU = Path(os.environ["SUPERPIPE_BUILD_DIR"]) / "lib" / "superpipe" / "simgpu"
# The file that a library was opened from, or why it was not.
OPENED = """
import ctypes, sys
try:
    ctypes.CDLL(sys.argv[1])
except OSError as error:
    print("no", error)
for line in open("/proc/self/maps"):
    path = line.split()[-1]
    if path.rpartition("/")[2].startswith(sys.argv[1].rpartition("/")[2].partition(".so")[0] + "."):
        print(path)
        break
"""


def opened(name: object, loader: Path = SIMGPU / "libsimgpu_loader.so") -> str:
    """Where a program that opens `name` finds it, without a library path."""
    environment = {**clean_environment("LD_"), "LD_AUDIT": str(loader)}
    found = subprocess.run([sys.executable, "-c", OPENED, str(name)], env=environment, text=True,
                           capture_output=True, check=True, timeout=LIMIT)
    return found.stdout.strip() + found.stderr


class LoaderTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="simgpu-loader-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name).resolve()

    def test_a_library_is_found_by_its_name(self) -> None:
        for name in ("libcudart.so.13", "libcublas.so.13", "libcublasLt.so.13"):
            self.assertEqual(opened(name), str(SIMGPU / name))

    def test_more_digits_of_a_version_do_not_matter(self) -> None:
        self.assertEqual(opened("libcublas.so.13.1.0.3"), str(SIMGPU / "libcublas.so.13"))

    def test_a_path_to_another_file_does_not_matter(self) -> None:
        theirs = self.folder / "libcublasLt.so.13"
        theirs.write_text("no library")
        self.assertEqual(opened(theirs), str(SIMGPU / "libcublasLt.so.13"))

    def test_what_simgpu_has_no_library_for_is_what_it_was(self) -> None:
        for name in ("libcublas.so.130", "libcublas.so.99", "libcublas.so", "libnothing.so.13"):
            self.assertNotIn(str(SIMGPU), opened(name))
        libm = next(line.split()[2] for line in subprocess.run(
            ["ldd", sys.executable], capture_output=True, text=True, check=True).stdout.splitlines()
            if line.split()[0] == "libm.so.6")
        self.assertEqual(Path(opened("libm.so.6")).resolve(), Path(libm).resolve())

    def test_the_driver_is_left_to_what_stands_in_front_of_it(self) -> None:
        theirs = shutil.copy(SIMGPU / "libcuda.so.1", self.folder)
        self.assertEqual(opened(theirs), theirs)
        self.assertNotIn(str(SIMGPU), opened("libcuda.so.1"))

    def test_it_looks_in_its_own_folder(self) -> None:
        loader = shutil.copy(SIMGPU / "libsimgpu_loader.so", self.folder)
        self.assertNotIn(str(SIMGPU), opened("libcublas.so.13", Path(loader)))
        shutil.copy(SIMGPU / "libcublas.so.13", self.folder)
        self.assertEqual(opened("libcublas.so.13", Path(loader)), str(self.folder / "libcublas.so.13"))


if __name__ == "__main__":
    unittest.main()
