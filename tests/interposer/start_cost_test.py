"""What superpipe adds to the start of a process, in instructions."""

import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from managed_run import BUILD, LIBRARY, LIMIT, SIMGPU, clean_environment


class StartCostTest(unittest.TestCase):
    """A program that never uses CUDA, which the library is preloaded into all the same."""

    # What valgrind counts does not depend on how busy the machine is. A processor of today runs ten
    # million in a few milliseconds.
    MOST_OF_THE_LIBRARY = 2_000_000
    MOST_OF_THE_COMMAND = 20_000_000
    # What is less was not counted: to load a library takes more.
    LEAST = 100_000

    def instructions(self, *command, **variables):
        """How many each program takes until it ends or becomes another one, by its name: /bin/true,
        and the command before it."""
        environment = {**clean_environment("LD_PRELOAD"),
                       "SUPERPIPE_DRIVER": str(SIMGPU / "libcuda.so.1")}
        with_variables = ["env", *(f"{name}={value}" for name,
                                   value in variables.items())] if variables else []
        counts = {}
        with tempfile.TemporaryDirectory() as folder:
            # Of what becomes another program valgrind would forget the count, so it writes it down
            # where that is about to happen.
            subprocess.run(
                ["valgrind", "--tool=callgrind", "--trace-children=yes", "--dump-before=exec*",
                 f"--callgrind-out-file={folder}/%p",
                 *with_variables, *command, "/bin/true"], env=environment, capture_output=True,
                 check=True, timeout=LIMIT)
            for file in Path(folder).iterdir():
                name, count = (re.search(rf"^{what}: *(\S+)", file.read_text(), re.M)[1]
                               for what in ("cmd", "totals"))
                counts[Path(name).name] = counts.get(Path(name).name, 0) + int(count)
        counts.pop("env", None)
        return counts

    def assert_takes_at_most(self, instructions, *command, **variables):
        if shutil.which("valgrind") is None:
            self.skipTest("needs valgrind")
        alone, counts = self.instructions(), self.instructions(*command, **variables)
        self.assertEqual(alone.keys(), {"true"})
        self.assertEqual(counts.keys(), {"true", *(Path(word).name for word in command[:1])})
        for name, count in counts.items():
            self.assertGreater(count - alone.get(name, 0), self.LEAST, name)
        self.assertLess(sum(counts.values()) - alone["true"], instructions)

    def test_a_program_without_cuda_takes_few_instructions_more_to_start(self):
        self.assert_takes_at_most(self.MOST_OF_THE_LIBRARY, LD_PRELOAD=str(LIBRARY),
                                  SUPERPIPE_POLICY="auto", SUPERPIPE_SUMMARY="1")

    def test_the_command_takes_few_instructions_to_start_it(self):
        """It looks at the program and at the driver, and then becomes the program."""
        self.assert_takes_at_most(self.MOST_OF_THE_COMMAND, str(BUILD / "bin" / "superpipe"), "run",
                                  "--")


if __name__ == "__main__":
    unittest.main()
