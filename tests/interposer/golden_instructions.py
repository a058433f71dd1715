"""The launch hook's instruction count, against the committed one: a slower hot path is no accident.

Counts with valgrind's callgrind, so the answer does not depend on the machine's speed or load; it does
depend on compiler and flags, which the golden file names. `--update` writes what is counted now.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

GOLDEN = Path(__file__).resolve().parent / "golden_instructions.json"
FEW, MANY = 1000, 5000


def instructions(program, launches):
    with tempfile.TemporaryDirectory() as folder:
        result = subprocess.run(
            ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", str(program),
             str(launches)], capture_output=True, text=True, check=True)
    if result.stdout.strip() != str(launches):
        raise AssertionError(f"{launches} launches asked for, {result.stdout.strip()} done")
    return int(re.search(r"Collected : (\d+)", result.stderr).group(1))


def instructions_per_launch(program):
    return (instructions(program, MANY) - instructions(program, FEW)) / (MANY - FEW)


def is_within(counted, golden):
    """Whether `counted` is at most the tolerance above or below the golden count."""
    limit = golden["tolerance"] * golden["instructions_per_launch"]
    return abs(counted - golden["instructions_per_launch"]) <= limit


class GoldenInstructionsTest(unittest.TestCase):
    def setUp(self):
        self.golden = json.loads(GOLDEN.read_text())

    def test_launch_hook_takes_as_many_instructions_as_committed(self):
        if shutil.which("valgrind") is None:
            self.skipTest("needs valgrind")
        build = os.environ.get("SUPERPIPE_COMPILER", "")
        if build != self.golden["build"]:
            # What scripts/test builds is counted: a change of its flags must not end the count.
            folder = Path(os.environ["SUPERPIPE_BUILD_DIR"]).name
            self.assertNotEqual(folder, "dev", f"{build} has no count: run {Path(__file__).name} --update")
            self.skipTest(f"counted for {self.golden['build']}, this is {build}")
        counted = instructions_per_launch(os.environ["SUPERPIPE_GOLDEN_PROGRAM"])
        self.assertTrue(
            is_within(counted, self.golden),
            f"{counted:.0f} instructions a launch, committed {self.golden['instructions_per_launch']}"
            f"; if that is meant, run {Path(__file__).name} --update")

    def test_the_check_would_see_a_slower_hook(self):
        golden = self.golden["instructions_per_launch"]
        self.assertFalse(is_within(golden * 1.2, self.golden))
        self.assertTrue(is_within(golden, self.golden))


def update():
    counted = round(instructions_per_launch(os.environ["SUPERPIPE_GOLDEN_PROGRAM"]))
    golden = {"build": os.environ["SUPERPIPE_COMPILER"], "instructions_per_launch": counted,
              "tolerance": 0.05}
    GOLDEN.write_text(json.dumps(golden, indent=2) + "\n")
    print(counted)


if __name__ == "__main__":
    if "--update" in sys.argv:
        update()
    else:
        unittest.main()
