#!/usr/bin/env python3
"""What a launch and a free take of the processor, among few buffers and among ten times as many.

Counted in instructions, by valgrind's callgrind, so that neither the machine's speed nor its caches matter.
"""

import os
import re
import shutil
import subprocess
import tempfile
import unittest

FEW, MANY = 150, 1500
# Searches grow with the logarithm of the number of buffers: 1.06 and 1.9 times as many were counted.
# A look at each buffer that takes four instructions, or ten in a free, is more than this.
MOST = {"launches": 1.3, "frees": 2.5}


def instructions_each(what, buffers):
    with tempfile.TemporaryDirectory() as folder:
        result = subprocess.run(
            ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={folder}/out",
             os.environ["SUPERPIPE_COUNT_INSTRUCTIONS"], str(buffers), what], capture_output=True, text=True, check=True)
    return int(re.search(r"Collected : (\d+)", result.stderr).group(1)) / int(result.stdout)


@unittest.skipIf(shutil.which("valgrind") is None, "needs valgrind")
class InstructionsTest(unittest.TestCase):
    def check(self, what):
        few, many = instructions_each(what, FEW), instructions_each(what, MANY)
        print(f"{what}: {few:.0f} instructions each among {FEW} buffers, {many:.0f} among {MANY}")
        self.assertGreater(few, 100, "nothing was counted")
        self.assertLess(many, MOST[what] * few)

    def test_a_launch_takes_no_longer_among_ten_times_as_many_buffers(self):
        self.check("launches")

    def test_a_free_takes_no_longer_among_ten_times_as_many_buffers(self):
        self.check("frees")


if __name__ == "__main__":
    unittest.main()
