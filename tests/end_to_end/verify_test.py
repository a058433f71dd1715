"""`superpipe verify` on simgpu: what is the same, what is not, and what no run can tell."""

import json
import os
import signal
import stat
import subprocess
import tempfile
import unittest
from pathlib import Path

from simulated_run import FAST, LAYERS, LIMIT, SUPERPIPE, clean_environment


def verify(*words: object, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess:
    """`superpipe verify WORDS`, on simgpu where links are fast."""
    return subprocess.run([str(SUPERPIPE), "verify", *map(str, words)],
                          env={**clean_environment("LD_", "CUDA_"), **FAST, **(environment or {})},
                          capture_output=True, text=True, timeout=LIMIT)


class VerifyTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="superpipe-verify-test-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def layers(self, passes: object = 3, layers: int = 6) -> str:
        """A line of shell that copies six digests out of the device."""
        return (f"{LAYERS} --layers {layers} --layer-mib 2 --passes {passes} --output {self.folder}/digests "
                f">{self.folder}/printed")

    def script(self, *lines: str) -> Path:
        path = self.folder / "script"
        path.write_text("\n".join(["#!/bin/sh", "set -e", *lines, ""]))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    def simulated(self, *words: object, **more: object) -> subprocess.CompletedProcess:
        return verify("--simulate", *words, **more)

    def assert_ends(self, finished: subprocess.CompletedProcess, code: int, *says: str) -> None:
        self.assertEqual(finished.returncode, code, finished.stdout + finished.stderr)
        for part in says:
            self.assertIn(part, finished.stdout + finished.stderr)

    def test_a_program_is_the_same_in_all_memory_and_in_half_of_it(self) -> None:
        finished = self.simulated("--", self.script(self.layers(), "echo done"))
        self.assert_ends(finished, 0, "same with superpipe: 7 copies", "same with half of its buffers")
        self.assertIn("run 4 of 4", finished.stderr)
        self.assertNotIn("not compared", finished.stdout)
        self.assertNotRegex(finished.stdout.splitlines()[1], " 0 B moved in")

    def test_where_a_launch_needs_more_than_half_it_gets_what_it_needs(self) -> None:
        finished = self.simulated("--", self.script(self.layers(layers=1), "echo done"))
        self.assert_ends(finished, 0, "same with superpipe: ", "same with as much as a launch needs (--gpu-mem ")
        self.assertIn("again, for a launch needs more at once", finished.stderr)

    def test_each_budget_is_a_run_and_json_says_all(self) -> None:
        finished = self.simulated("--budget", "8M,10M", "--json", "--", self.script(self.layers()))
        self.assert_ends(finished, 0)
        said = json.loads(finished.stdout)
        self.assertTrue(said["same"])
        self.assertEqual(said["copies"], 7)
        self.assertEqual((said["judged_bytes"], said["mostly_judged"]), (said["bytes"], True))
        self.assertEqual([run["run"] for run in said["runs"]], ["with --gpu-mem 8M", "with --gpu-mem 10M"])
        for run in said["runs"]:
            self.assertEqual(run["compared_copies"], 7)
            self.assertGreater(run["h2d_bytes"], 0)

    def test_ranks_that_start_in_another_order_each_time_are_themselves(self) -> None:
        rank = lambda number, passes: f"RANK={number} {self.layers(passes)}"
        turns = self.folder / "turns"
        script = self.script(f"echo >> {turns}", f"if [ $(($(wc -l < {turns}) % 2)) = 0 ]; then", rank(0, 2), rank(1, 3), "else",
                             rank(1, 3), rank(0, 2), "fi")
        finished = self.simulated("--budget", "8M,10M", "--", script)
        self.assert_ends(finished, 0, "same with --gpu-mem 8M: 14 copies", "same with --gpu-mem 10M: 14 copies")
        self.assertNotIn("not compared", finished.stdout)
        self.assertNotIn("without their order", finished.stdout)

    def test_names_of_statistics_that_it_cannot_read_are_refused(self) -> None:
        finished = self.simulated("--stats", f"{self.folder}/stats.%p.json", "--", self.script())
        self.assert_ends(finished, 2, "stats.%p.json: verify reads the file after each run")

    def test_flags_of_run_are_taken(self) -> None:
        finished = self.simulated("--k", "3", "--", self.script(self.layers()))
        self.assert_ends(finished, 0, "run 3 of 3, with superpipe and the flags", "7 copies")

    def test_other_content_is_named_with_its_kernel(self) -> None:
        script = self.script('passes=4; if [ "$SUPERPIPE_OFF" = 1 ]; then passes=3; fi', self.layers("$passes"))
        finished = self.simulated("--budget", "8M", "--", script)
        self.assert_ends(finished, 1, "DIFFERENT with --gpu-mem 8M", "has other content", "of kernel layers::",
                         "copies out of the device differ")
        # The program's function that asked for the copy, and who called that.
        self.assertRegex(finished.stdout, r"; it is copied by \S*superpipe-layers\+0x[0-9a-f]+, called by \S*superpipe-layers\+0x")
        finished = self.simulated("--budget", "8M", "--json", "--", script)
        self.assert_ends(finished, 1)
        self.assertFalse(json.loads(finished.stdout)["same"])
        self.assertIn("other content", json.loads(finished.stdout)["runs"][0]["first_difference"])

    def test_missing_copies_are_named(self) -> None:
        script = self.script(self.layers(), f'if [ "$SUPERPIPE_OFF" = 1 ]; then {self.layers()}; fi')
        self.assert_ends(self.simulated("--budget", "8M", "--", script), 1, "of process 2", "is missing")

    def test_other_output_and_another_exit_code_are_named(self) -> None:
        script = self.script(self.layers(), "echo first", 'echo "off: $SUPERPIPE_OFF"',
                             'if [ "$SUPERPIPE_OFF" != 1 ]; then echo "what is wrong" >&2; exit 3; fi')
        self.assert_ends(self.simulated("--budget", "8M", "--", script), 1, "the output differs in line 2: 'off: ' instead of 'off: 1'",
                         "exit code 3 instead of exit code 0", "what is wrong")

    def test_output_alone_is_told_from_copies(self) -> None:
        script = self.script(self.layers(), "echo first", 'if [ "$SUPERPIPE_OFF" = 1 ]; then echo "pass 2: 13.096 ms"; else echo "pass 2: 25.6 ms"; fi')
        finished = self.simulated("--budget", "8M", "--", script)
        self.assert_ends(finished, 1, "DIFFERENT OUTPUT with --gpu-mem 8M: every copy is the same (7 out of the device, ",
                         "the output differs in line 2: 'pass 2: 25.6 ms' instead of 'pass 2: 13.096 ms'", "--output no-times")
        said = json.loads(self.simulated("--budget", "8M", "--json", "--", script).stdout)
        self.assertEqual((said["same"], said["output"]), (False, "lines"))
        (only,) = said["runs"]
        self.assertEqual((only["same_copies"], only["same_exit_code"], only["different_lines"]), (True, True, 1))
        self.assertEqual((only["different_line"], only["line"], only["expected_line"]), (2, "pass 2: 25.6 ms", "pass 2: 13.096 ms"))
        self.assert_ends(self.simulated("--budget", "8M", "--output", "no-times", "--", script), 0, "same with --gpu-mem 8M",
                         "not compared: times and rates in the output")
        finished = self.simulated("--budget", "8M", "--output", "ignore", "--", script)
        self.assert_ends(finished, 0, "and exit code; peak", "not compared: the output")
        self.assertNotIn("exit code and output", finished.stdout)

    def test_a_program_that_fails_in_silence_is_said_to(self) -> None:
        finished = self.simulated("--", "false")
        self.assert_ends(finished, 1, "too (exit code 1); it wrote nothing to standard error", "run 3 of at most 4")
        self.assertNotIn("its last lines", finished.stdout)

    def test_a_signal_is_named(self) -> None:
        script = self.script(self.layers(), 'if [ "$SUPERPIPE_OFF" != 1 ]; then kill -SEGV $$; fi')
        self.assert_ends(self.simulated("--budget", "8M", "--", script), 1, "killed by signal 11")

    def test_what_changes_by_itself_is_told_apart(self) -> None:
        counter = self.folder / "counter"
        counter.write_text("2")
        script = self.script(f"n=$(($(cat {counter}) + 1)); echo $n >{counter}", self.layers("$n"), self.layers(), "echo $n")
        finished = self.simulated("--budget", "8M", "--", script)
        self.assert_ends(finished, 0, "same with --gpu-mem 8M: 13 copies", "not compared: the content of 1 of 14 copies",
                         "judged: ", "not compared: 1 of 1 lines of output")

    def test_where_most_of_the_bytes_vary_the_verdict_is_one_of_its_own(self) -> None:
        counter = self.folder / "counter"
        counter.write_text("3")
        varying = self.layers(1).replace("--layer-mib 2", "--layer-mib $n")
        script = self.script(f"n=$(($(cat {counter}) + 1)); echo $n >{counter}", self.layers(),
                             varying)
        finished = self.simulated("--budget", "60M", "--", script)
        self.assert_ends(finished, 3, "same with --gpu-mem 60M: 7 copies",
                         "NOT JUDGED for the most part", "the exit code is 3")
        self.assertRegex(finished.stdout, r"judged: \S+ MiB of \S+ MiB, \d+\.\d % of the bytes that "
                         r"the program copies out; the largest of the others: copy \d+ of thread 1 of "
                         r"process 2 \(4 MiB\), ")
        finished = self.simulated("--budget", "60M", "--json", "--", script)
        self.assert_ends(finished, 3)
        said = json.loads(finished.stdout)
        self.assertEqual((said["same"], said["mostly_judged"]), (True, False))
        self.assertLess(said["judged_bytes"], said["bytes"] / 2)

    def test_a_line_that_was_the_same_by_chance_is_looked_at_again(self) -> None:
        counter = self.folder / "counter"
        counter.write_text("0")
        script = self.script(f"n=$(($(cat {counter}) + 1)); echo $n >{counter}", self.layers(), "echo $((n / 3))")
        finished = self.simulated("--budget", "8M", "--", script)
        self.assert_ends(finished, 0, "run 3 of 3, with", "run 1 of at most 3 more, to see whether lines of output vary, without superpipe",
                         "not compared: 1 of 1 lines of output")

    def test_a_program_that_fails_anyway_is_said_to(self) -> None:
        script = self.script(self.layers(), "echo broken >&2", "exit 4")
        self.assert_ends(self.simulated("--budget", "8M", "--", script), 0, "fails without superpipe too (exit code 4)", "broken")

    def test_a_program_that_copies_nothing_out_verifies_nothing(self) -> None:
        self.assert_ends(self.simulated("--", "true"), 1, "nothing was verified: the program copied nothing out")

    def test_budgets_are_the_sizes_of_a_policy_that_counts_layers(self) -> None:
        finished = self.simulated("--budget", "8M,64M", "--policy", "superpipeline", "--",
                                  self.script(self.layers()))
        self.assert_ends(finished, 0, "same with --gpu-mem 8M", "same with --gpu-mem 64M")

    def test_a_budget_that_is_too_small_ends_otherwise(self) -> None:
        finished = self.simulated("--budget", "4M", "--", self.script(self.layers()))
        self.assert_ends(finished, 1, "DIFFERENT with --gpu-mem 4M", "instead of exit code 0")

    def test_a_budget_that_nothing_can_run_in_verifies_nothing(self) -> None:
        finished = self.simulated("--budget", "1M", "--", self.script(self.layers()))
        self.assert_ends(finished, 1, "NOT VERIFIED with --gpu-mem 1M", "allow more")

    def test_an_interrupted_run_is_the_last(self) -> None:
        temporary = self.folder / "tmp"
        temporary.mkdir()
        for end, code in (("kill -INT $$", -signal.SIGINT), ("kill -QUIT $$", -signal.SIGQUIT)):
            with self.subTest(end):
                finished = self.simulated("--", self.script(end), environment={"TMPDIR": str(temporary)})
                self.assert_ends(finished, code, "run 1 of", "interrupted; nothing was verified")
                self.assertNotIn("run 2 of", finished.stderr)
                self.assertEqual(list(temporary.iterdir()), [])

    def test_exit_codes_are_seen_where_children_are_ignored(self) -> None:
        script = self.script('[ -n "$SUPERPIPE_OFF" ] || exit 3')
        words = [str(SUPERPIPE), "verify", "--simulate", "--", str(script)]
        finished = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT,
                                  preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
        self.assert_ends(finished, 1, "exit code 3 instead of exit code 0")

    def test_nothing_is_left_behind(self) -> None:
        temporary = self.folder / "tmp"
        temporary.mkdir()
        self.assert_ends(self.simulated("--budget", "8M", "--", self.script(self.layers()),
                                        environment={"TMPDIR": str(temporary)}), 0)
        self.assertEqual(list(temporary.iterdir()), [])


class BadUsage(unittest.TestCase):
    def test_bad_words_have_one_line(self) -> None:
        for words, code, says in [
            (["--budget", "lots", "--", "true"], 2, "'lots' is no size above 0"),
            (["--budget", "3G,", "--gpu-mem", "2G", "--", "true"], 2, "neither --gpu-mem nor --k"),
            (["--budget", "3G,,4G", "--", "true"], 2, "'' is no size"),
            (["--k", "0", "--", "true"], 2, "--k 0"),
            (["--policy", "naive", "--", "true"], 2, "--policy naive: needs --k N or --gpu-mem"),
            (["--budget", "3G", "--policy", "best", "--", "true"], 2, "--policy best"),
            (["--output", "some", "--", "true"], 2, "--output some: it takes lines, no-times, ignore"),
            (["--gpu", "--", "true"], 2, "there is no flag '--gpu'"),
            (["true"], 2, "put the command after"),
            ([], 2, "no command"),
            (["--simulate", "--", "/no/such/program"], 127, "there is no command '/no/such/program'"),
        ]:
            with self.subTest(words=words):
                finished = verify(*words)
                self.assertEqual(finished.returncode, code, finished.stderr)
                self.assertEqual(finished.stdout, "")
                self.assertEqual(len(finished.stderr.splitlines()), 1, finished.stderr)
                self.assertTrue(finished.stderr.startswith("superpipe verify: "), finished.stderr)
                self.assertIn(says, finished.stderr)

    def test_help_has_examples(self) -> None:
        finished = verify("--help")
        self.assertEqual(finished.returncode, 0)
        self.assertIn("superpipe verify -- python3 train.py", finished.stdout)

    def test_switched_off_is_refused(self) -> None:
        finished = verify("--simulate", "--", "true", environment={"SUPERPIPE_OFF": "1"})
        self.assertEqual(finished.returncode, 125)
        self.assertIn("SUPERPIPE_OFF=1", finished.stderr)


if __name__ == "__main__":
    unittest.main()
