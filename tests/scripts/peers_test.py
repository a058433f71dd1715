"""bench/peers: bounds, equal memory, the search for a knob, and tables. Needs no torch."""

import ast
import json
import os
import subprocess
import sys
import tempfile
import types
import unittest
from pathlib import Path
from unittest import mock

SOURCE = Path(os.environ.get("SUPERPIPE_SOURCE_DIR", Path(__file__).resolve().parents[2]))
sys.path[:0] = [str(SOURCE / "bench" / "peers"), str(SOURCE / "scripts" / "gpu_check")]
import compare  # noqa: E402  (found through the path above, as are all below)
import judging  # noqa: E402
import peers  # noqa: E402
import programs  # noqa: E402
import step_peers  # noqa: E402
from judging import MIB, Row  # noqa: E402

COMPARE = SOURCE / "bench" / "peers" / "compare.py"


def row(peer: str, pass_ms: float, budget: str = "50", **more: object) -> Row:
    more = {
        "name": f"the {peer}",
        "runs": 3,
        "memory": "equal",
        "times_bound": 1.5,
        "output": "same",
        **more,
    }
    return Row(
        "llama", budget, peer, pass_ms=pass_ms, peak_bytes=60 * MIB, budget_bytes=60 * MIB, **more
    )


class Bound(unittest.TestCase):
    def test_is_what_the_device_does_not_hold_over_the_link(self) -> None:
        self.assertEqual(judging.bound_ms(10, 120, 70, 1000), 50)

    def test_is_no_more_than_all_the_state_and_no_less_than_a_pass_without_transfers(self) -> None:
        self.assertEqual(judging.bound_ms(10, 120, 0, 1000), 120)
        self.assertEqual(judging.bound_ms(10, 120, 119, 1000), 10)
        self.assertEqual(judging.bound_ms(10, 120, 500, 1000), 10)


class Memory(unittest.TestCase):
    def test_a_budget_leaves_room_for_what_is_no_state(self) -> None:
        self.assertEqual(judging.budget_bytes(120, 100, 25), 45)

    def test_peaks_are_equal_within_the_slack_only(self) -> None:
        budget, layer = 400 * MIB, 26 * MIB
        for peak, verdict in (
            (400, "equal"),
            (407, "equal"),
            (409, "more"),
            (375, "equal"),
            (373, "less"),
        ):
            self.assertEqual(judging.memory_verdict(peak * MIB, budget, layer), verdict, peak)


class Knob(unittest.TestCase):
    """The search, over a device whose peak is `base` and a layer for each step."""

    def found(
        self, guess: int, base: int, budget: int, layer: int = 10, highest: int = 12
    ) -> tuple[int, dict]:
        tried = {}
        knob = guess
        while knob is not None:
            tried[knob] = (base + layer * knob) * MIB
            knob = judging.next_knob(tried, budget * MIB, 1, layer * MIB, 1, highest)
        return judging.best_knob(tried, budget * MIB, layer * MIB), tried

    def test_ends_at_the_largest_that_fits(self) -> None:
        for guess in (3, 5, 7):
            self.assertEqual(self.found(guess, base=100, budget=152)[0], 5, guess)

    def test_ends_at_once_where_the_guess_was_right(self) -> None:
        self.assertEqual(self.found(5, base=100, budget=152)[1].keys(), {5})

    def test_looks_between_one_that_fits_and_one_that_does_not(self) -> None:
        tried = {11: 366 * MIB, 1: 96 * MIB, 5: 224 * MIB}
        self.assertEqual(judging.next_knob(tried, 193 * MIB, 1, 12 * MIB, 1, 22), 3)
        tried |= {3: 160 * MIB, 4: 200 * MIB}
        self.assertEqual(judging.best_knob(tried, 193 * MIB, 12 * MIB), 3)

    def test_tries_few(self) -> None:
        for guess in range(1, 13):
            self.assertLessEqual(
                len(self.found(guess, base=100, budget=152)[1]), judging.MOST_TRIES
            )

    def test_that_never_fits_gives_the_least(self) -> None:
        self.assertEqual(self.found(3, base=100, budget=50)[0], 1)

    def test_stays_within_its_range(self) -> None:
        self.assertEqual(self.found(11, base=100, budget=900)[0], 12)


class Runs(unittest.TestCase):
    RUN = {
        "pass_ms": [9.0, 5.0, 6.0],
        "peak_bytes": 7,
        "host_bytes": 3,
        "moved_bytes": [4, 0],
        "overrun_share": 0.001,
        "digest": "a",
        "first_digest": "f",
    }

    def test_of_a_cell_are_one_by_medians_and_largest_peaks(self) -> None:
        others = [
            {**self.RUN, "pass_ms": [8.0], "peak_bytes": 9},
            {**self.RUN, "pass_ms": [7.0], "overrun_share": 0.5},
        ]
        found = judging.merged([self.RUN, *others])
        self.assertEqual(
            found,
            {
                "pass_ms": 7.0,
                "peak_bytes": 9,
                "host_bytes": 3,
                "moved_bytes": (4, 0),
                "overrun": 0.5,
            },
        )

    def test_are_compared_with_plain_pytorch(self) -> None:
        other = {**self.RUN, "digest": "b"}
        judge = judging.output_verdict
        self.assertEqual(judge([self.RUN], [self.RUN], False, True), "same")
        self.assertEqual(judge([self.RUN, other], [self.RUN], False, True), "other")
        self.assertEqual(judge([self.RUN], [self.RUN, other], False, True), "varies without it too")

    def test_whose_optimizer_is_on_the_host_compare_by_the_first_step_on_simgpu(self) -> None:
        other = {**self.RUN, "digest": "b"}
        self.assertEqual(
            judging.output_verdict([other], [self.RUN], True, True), "same in the first forward pass"
        )
        self.assertEqual(judging.output_verdict([other], [self.RUN], True, False), "other")
        self.assertEqual(
            judging.output_verdict([{**other, "first_digest": "g"}], [self.RUN], True, True),
            "other",
        )


class Tables(unittest.TestCase):
    ROWS = [
        row("plain", 10, "all", memory=""),
        row("superpipe-auto", 100),
        row("hooks", 250, lines_changed=29),
        row("dispatch", 80, name="accelerate dispatch_model"),
        row("cpu-offload", 300, "own"),
        row("superpipe-auto", 200, "as cpu-offload"),
        row("fsdp", 0, "own", problem="not installed: torch", runs=0),
        row("late", 120, overrun=0.02),
    ]

    def test_a_losing_row_stays_and_is_named(self) -> None:
        self.assertEqual(
            judging.losses(self.ROWS),
            ["llama, 50 %: accelerate dispatch_model 80 ms, superpipe 100 ms"],
        )
        page = judging.markdown(self.ROWS, ["facts"], True)
        self.assertIn("| accelerate dispatch_model | 80 | 1.50 | 0.80 |", page)
        self.assertIn(
            "- llama, 50 %: accelerate dispatch_model 80 ms",
            page.partition("## Where superpipe loses")[2],
        )

    def test_nothing_lost_is_said(self) -> None:
        self.assertTrue(judging.markdown(self.ROWS[:3], [], True).endswith("Nowhere.\n"))

    def test_each_heading_says_whether_it_is_simulated(self) -> None:
        for simulated, word in ((True, "simulated"), (False, "measured")):
            headings = [
                line
                for line in judging.markdown(self.ROWS, [], simulated).splitlines()
                if line.startswith("#")
            ]
            self.assertGreater(len(headings), 2)
            for heading in headings:
                self.assertIn(word, heading)

    def test_a_tool_that_takes_what_it_takes_is_compared_at_that(self) -> None:
        page = judging.markdown(self.ROWS, [], True)
        self.assertIn("| the cpu-offload | 300 | 1.50 | 1.50 |", page)

    def test_what_is_not_installed_and_what_was_late_is_said(self) -> None:
        page = judging.markdown(self.ROWS, [], True)
        self.assertIn("| the fsdp | not installed: torch |", page)
        self.assertIn("| the late | 120* |", page)

    def test_rows_have_all_columns(self) -> None:
        lines = [
            line
            for line in judging.markdown(self.ROWS, [], True).splitlines()
            if line.startswith("|")
        ]
        self.assertEqual({line.count("|") for line in lines}, {len(judging.COLUMNS) + 1})

    def test_the_short_table_has_the_fastest_that_took_no_more(self) -> None:
        rows = [*self.ROWS, row("greedy", 20, memory="more")]
        self.assertEqual(
            judging.compact(rows)[2:],
            ["| llama | 50 % | 100 | 1.50 | accelerate dispatch_model | 80 | 0.80 x |"],
        )


class Lines(unittest.TestCase):
    def test_of_code_are_counted_without_comments_and_documentation(self) -> None:
        source = (
            'def f(x):\n    """Says\n    much."""\n\n    # why\n'
            "    y = (x +\n         1)  # so\n    return y\n"
        )
        self.assertEqual(peers.code_lines(source), 3)

    def test_a_peer_s_are_those_of_its_function_and_of_what_it_needs(self) -> None:
        found = {name: peer.lines_changed() for name, peer in peers.PEERS.items()}
        self.assertEqual((found["plain"], found["cpu-offload"]), (1, 2))
        self.assertGreater(found["hooks"], 20)

    def test_no_peer_is_imported_before_its_function_runs(self) -> None:
        tree = ast.parse((SOURCE / "bench" / "peers" / "peers.py").read_text())
        names = [
            name.name for node in tree.body if isinstance(node, ast.Import) for name in node.names
        ]
        self.assertLessEqual(set(names), sys.stdlib_module_names)


class Command(unittest.TestCase):
    def compare(self, *words: object) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, "-B", str(COMPARE), *map(str, words)], capture_output=True, text=True
        )

    def test_refuses_what_there_is_not(self) -> None:
        for words, says in (
            (("--models", "bert"), "there is no bert"),
            (("--budgets", "0,50"), "percentages above 0"),
            (("--peers", "magic"), "there is no magic"),
            (("--runs", 0), "from 1 on"),
        ):
            finished = self.compare(*words)
            self.assertEqual(finished.returncode, 2, finished.stderr)
            self.assertIn(says, finished.stderr)

    def test_says_what_is_missing_in_one_line(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            bare = Path(folder) / "python"
            bare.write_text("#!/bin/sh\necho '{}'\n")
            bare.chmod(0o755)
            torch = Path(folder) / "torch"
            torch.write_text('#!/bin/sh\necho \'{"torch": "2"}\'\n')
            torch.chmod(0o755)
            for words, says in (
                (("--python", "/no/such"), "cannot be run"),
                (("--python", bare), "has no torch"),
                (("--python", torch, "--superpipe", "/no/such"), "/no/such is not there"),
            ):
                finished = self.compare(*words)
                self.assertEqual(
                    (finished.returncode, finished.stderr.count("\n")), (2, 1), finished.stderr
                )
                self.assertIn(says, finished.stderr)

    def test_refuses_runs_with_other_settings(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            python, file = Path(folder) / "python", Path(folder) / "runs.json"
            python.write_text('#!/bin/sh\necho \'{"torch": "2"}\'\n')
            python.chmod(0o755)
            file.write_text(json.dumps({"settings": {"size": "other"}, "cells": {}, "tries": {}}))
            finished = self.compare("--python", python, "--superpipe", python, "--json", file)
            self.assertEqual(finished.returncode, 2, finished.stderr)
            self.assertIn("has runs with other settings", finished.stderr)


class Fitted(unittest.TestCase):
    """The search over programs, of which some do not work."""

    PLAIN = {
        "layer_bytes": [10 * MIB] * 8,
        "weights_bytes": 80 * MIB,
        "peak_bytes": 180 * MIB,
    }

    def cells(self, works) -> dict:
        def run(_model: str, _peer: str, knob: int, _flags: list) -> dict:
            if not works(knob):
                return {"problem": "no answer"}
            return {"problem": "", "pass_ms": [1.0], "peak_bytes": (100 + 10 * knob) * MIB}

        bench = types.SimpleNamespace(run=run)
        report = compare.Report(None, {})
        options = types.SimpleNamespace(runs=1)
        comparison = compare.Comparison(bench, report, options)
        comparison.tell = lambda *_: None
        comparison.fitted("m/50/hooks", 140 * MIB, self.PLAIN, "layers", 1)
        return report.cells

    def test_takes_the_largest_that_fits(self) -> None:
        (run,) = self.cells(lambda knob: True)["m/50/hooks"]
        self.assertEqual((run["knob"], run["broken_knobs"]), (4, []))

    def test_that_breaks_down_has_the_problem(self) -> None:
        (run,) = self.cells(lambda knob: False)["m/50/hooks"]
        self.assertEqual(run["problem"], "no answer")

    def test_that_breaks_down_later_takes_what_worked(self) -> None:
        five = lambda tried, *_: 5 if 5 not in tried else None
        with mock.patch.object(judging, "next_knob", five):
            (run,) = self.cells(lambda knob: knob < 5)["m/50/hooks"]
        self.assertEqual((run["knob"], run["broken_knobs"]), (4, ["5: no answer"]))


class Step(unittest.TestCase):
    OURS = {
        "peer": "superpipe-auto",
        "name": "superpipe auto",
        "budget": "50",
        "problem": "",
        "output": "same",
    }

    def test_is_judged_by_superpipe_s_rows(self) -> None:
        peer = {**self.OURS, "peer": "dispatch", "problem": "not installed: accelerate"}
        self.assertEqual(step_peers.judged([self.OURS, peer]), "")
        self.assertIn("other output", step_peers.judged([{**self.OURS, "output": "other"}]))
        self.assertIn("exit code 1", step_peers.judged([{**self.OURS, "problem": "exit code 1"}]))

    def test_without_rows_of_superpipe_says_why(self) -> None:
        self.assertEqual(step_peers.judged([]), "superpipe was not run")
        self.assertEqual(
            step_peers.judged([{**self.OURS, "peer": "plain", "problem": "no GPU"}]), "no GPU"
        )


class ReasonOfAnEnd(unittest.TestCase):
    def test_is_what_superpipe_refused(self) -> None:
        refused = "a pass-through allocation of 8192 bytes (8 KiB) fails"
        said = f"superpipe: {refused}: 50 MiB are\nOutOfMemoryError: no\n      : 17.00 GiB\n"
        self.assertEqual(programs.reason_in(said), refused)
        launch = "the budget of 8 bytes was too small for a launch of f, which needs 9 bytes at once"
        self.assertEqual(programs.reason_in(f"superpipe: {launch}; more\nError: x\n"), launch)

    def test_or_else_the_programs_last_line(self) -> None:
        said = "superpipe: policy auto\nValueError: bad\n\nsuperpipe: moved 3 MiB\n"
        self.assertEqual(programs.reason_in(said), "ValueError: bad")
        self.assertEqual(programs.reason_in("superpipe: policy auto\n"), "said nothing")


if __name__ == "__main__":
    unittest.main()
