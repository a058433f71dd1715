"""`superpipe plan`: what it says of a trace, and one clear line for each thing that is wrong."""

import json
import subprocess
import unittest
from pathlib import Path

from command_case import BUILD, LIMIT, CommandCase

SUCCESS, PROBLEM, BAD_USAGE = 0, 1, 2


class PlanCommand(CommandCase):
    def setUp(self) -> None:
        super().setUp()
        self.trace = self.root / "run.sptrace"
        self.write_trace(self.trace, "7")

    def write_trace(self, path: Path, *words: str) -> None:
        subprocess.run([BUILD / "tests" / "write_trace", path, *words], check=True, timeout=LIMIT)

    def plan(self, *words: str) -> str:
        finished = self.run_superpipe("plan", str(self.trace), *words)
        self.assertEqual((finished.returncode, finished.stderr), (SUCCESS, ""))
        return finished.stdout

    def test_a_link_is_named_with_where_it_is_from(self) -> None:
        for words, link, source in (((), " GB/s each way", "trace"), (("--link", "gen5"), "gen5", "flag")):
            with self.subTest(words=words):
                self.assertIn("\nLink: ", self.plan(*words))
                said = json.loads(self.plan(*words, "--json"))
                self.assertEqual(said["link"]["source"], source)
                self.assertIn(link, said["link"]["name"])

    # The trace says that half of it was on the device, and names no policy that would do so.
    def test_a_plan_that_is_off_for_its_own_run_says_so(self) -> None:
        says = "That is more than 5 % of a pass or 2 % of the peak, and what follows may be as far off: the machine may have done"
        self.assertIn(says, self.plan())
        self.assertFalse(json.loads(self.plan("--json"))["accuracy"]["is_near"])
        self.trace.unlink()
        self.write_trace(self.trace, "4")
        self.assertIn("may be as far off: only 1 pass was measured, the machine may", self.plan())

    def test_what_cannot_be_written_is_one_line(self) -> None:
        plan = [str(self.trace), "--gpu-mem", "80M"]
        missing = str(self.root / "no" / "plan")
        for words, says in ((("--svg", "/dev/full"), "cannot write /dev/full: No space left on device"),
                            (("--svg", missing), f"cannot write {missing}: No such file or directory"),
                            (("--svg", "-"), "--svg -: the picture would lie among the answers"),
                            (("-o", "-", "--json"), "-o - writes the plan alone")):
            with self.subTest(words=words):
                self.assert_one_line(self.run_superpipe("plan", *plan, *words), BAD_USAGE, says)
        for output, says in (("/dev/full", "cannot write /dev/full: No space left on device"),
                             (missing, f"cannot write {missing}: No such file or directory"), (str(self.root), "it is a folder")):
            with self.subTest(output=output):
                finished = self.run_superpipe("plan", *plan, "-o", output)
                self.assertEqual(finished.returncode, BAD_USAGE)
                self.assertRegex(finished.stderr, rf"^superpipe plan: .*{says}.*\n$")

    def test_standard_output_that_cannot_be_written(self) -> None:
        for words in ([], ["--json"], ["--fit", "1G"], ["--fit", "rtx4090", "--json"]):
            with self.subTest(words=words), open("/dev/full", "w", encoding="utf-8") as full:
                finished = subprocess.run([self.prefix / "bin" / "superpipe", "plan", self.trace, *words], stdout=full,
                                          stderr=subprocess.PIPE, text=True, timeout=LIMIT)
                self.assertEqual((finished.returncode, finished.stderr), (BAD_USAGE, "superpipe plan: cannot write to standard output\n"))

    def test_a_hyphen_is_standard_output(self) -> None:
        header, content = self.plan("--gpu-mem", "80M", "-o", "-").splitlines()
        self.assertEqual(json.loads(header)["format"], "superpipe-plan")
        self.assertEqual(json.loads(content)["gpu_mem_bytes"], 80 << 20)
        self.assertFalse((self.root / "-").exists())

    def test_host_memory_is_told_and_can_be_capped(self) -> None:
        titles = next(line for line in self.plan("--gpu-mem", "60M").splitlines() if "GPU memory" in line)
        self.assertEqual(titles.split()[-2:], ["peak", "host"])
        (free,) = json.loads(self.plan("--gpu-mem", "60M", "--json"))["plans"]
        (capped,) = json.loads(self.plan("--gpu-mem", "60M", "--host-mem", "1G", "--json"))["plans"]
        self.assertEqual(capped["host_mem_bytes"], 1 << 30)
        self.assertEqual(capped["pinned_host_bytes"], free["pinned_host_bytes"])
        finished = self.run_superpipe("plan", str(self.trace), "--gpu-mem", "60M", "--host-mem", "4M")
        self.assertEqual(finished.returncode, PROBLEM)
        self.assertRegex(finished.stdout, r" 60 MiB  auto +does not run: .*4 MiB")
        for size in ("0", "x", "50%"):
            with self.subTest(size=size):
                self.assert_one_line(self.run_superpipe("plan", str(self.trace), "--host-mem", size), BAD_USAGE, f"--host-mem {size}: must be")

    def test_several_ks_are_planned_for(self) -> None:
        rows = json.loads(self.plan("--k", "2,3", "--k-prime", "1", "--json"))["plans"]
        self.assertEqual([(row["k"], row["k_prime"]) for row in rows], [(2, 1), (3, 1)])
        for words, says in ((["--k", "2,x"], "--k 2,x: 'x' is no number"), (["--k", "2,,3"], "'' is no number"), (["--k", "0"], "'0' is no"),
                            (["--k", ","], "--k ,: "), (["--k", "4,2", "--k-prime", "2"], "--k-prime 2: must be"),
                            (["--k-prime", "1"], "below each --k, which it needs")):
            with self.subTest(words=words):
                self.assert_one_line(self.run_superpipe("plan", str(self.trace), *words), BAD_USAGE, says)

    def test_a_plan_that_makes_no_first_pass_shorter_says_so(self) -> None:
        says = ": here it gains nothing to know their order ahead.\n"
        plan = self.root / "run.spplan"
        self.assertIn(says, self.plan("--gpu-mem", "1G", "-o", str(plan)))
        shorter = self.plan("--gpu-mem", "60M", "-o", str(plan))
        self.assertIn(" launches up to the end of the first pass, which takes ", shorter)
        self.assertNotIn(says, shorter)


if __name__ == "__main__":
    unittest.main()
