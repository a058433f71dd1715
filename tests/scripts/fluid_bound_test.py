"""bench/virtual_time/fluid_bound.py on passes whose bounds can be worked out by hand."""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ.get("SUPERPIPE_SOURCE_DIR", Path(__file__).resolve().parents[2]))
BUILD = Path(os.environ.get("SUPERPIPE_BUILD_DIR", SOURCE / "build" / "dev"))
SCRIPT = SOURCE / "bench" / "virtual_time" / "fluid_bound.py"
sys.path.insert(0, str(SCRIPT.parent))
import fluid_bound  # noqa: E402  (found through the path above)

MB = 10**6
LINK = 1000 * MB  # a buffer of one MB takes a millisecond
HAS_SOLVER = importlib.util.find_spec("highspy") is not None


def launch(*buffers: int, writes: tuple = (), makes: tuple = (), compute: float = 0.0) -> dict:
    return {"compute_ms": compute, "buffers": list(buffers), "writes": list(writes), "makes": list(makes)}


def workload(sizes: list[int], *passes: list[dict]) -> dict:
    return {"workload": "test", "sizes": sizes, "passes": list(passes)}


@unittest.skipUnless(HAS_SOLVER, "highspy is not installed")
class Bounds(unittest.TestCase):
    def bound_ms(self, found: dict, budget: float, number: int | None = None) -> float:
        return 1e3 * fluid_bound.fluid_bound(found, budget, LINK, 1000, number)

    def assert_bound(self, found: dict, budget: float, ms: float, number: int | None = None) -> None:
        self.assertAlmostEqual(self.bound_ms(found, budget, number), ms, delta=1e-4 * ms)

    def test_of_what_fits_is_its_compute(self) -> None:
        one = [launch(0, compute=3), launch(1, compute=4)]
        self.assert_bound(workload([MB, MB], one, one), 2 * MB, 7)

    def test_of_a_cycle_is_what_does_not_fit(self) -> None:
        # Ten buffers, room for five: five have to come, but while one is used its room serves no other.
        cycle = [launch(number) for number in range(10)]
        self.assert_bound(workload([MB] * 10, cycle, cycle), 5 * MB, 10 * 5 / 9)

    def test_counts_the_link_or_the_compute_whichever_takes_longer(self) -> None:
        cycle = [launch(number, compute=2) for number in range(10)]
        self.assert_bound(workload([MB] * 10, cycle, cycle), 5 * MB, 20)

    def test_counts_what_has_to_be_written_back(self) -> None:
        # Both directions carry all that does not fit. What only leaves is written over by the next pass.
        read_and_changed = [launch(number, writes=(number,)) for number in range(10)]
        self.assert_bound(workload([MB] * 10, read_and_changed, read_and_changed), 5 * MB, 10 * 5 / 9)
        sizes = [2 * MB, 2 * MB, 2 * MB]
        made = [launch(2, makes=(2,), writes=(2,), compute=1), launch(0, compute=1), launch(1, compute=1), launch(2, compute=1)]
        other = [launch(5, makes=(5,), writes=(5,)), launch(0), launch(1), launch(5)]
        found = workload(sizes + [0, 0, 2 * MB], made, other)
        self.assertGreater(self.bound_ms(found, 2 * MB), 6 - 1e-3, "three buffers come into the room of one")

    def test_writes_nothing_back_that_nothing_changes(self) -> None:
        one = [launch(0, writes=(0,)), launch(1)]
        # The first leaves, is written back, and comes again; the second only comes.
        self.assert_bound(workload([MB, MB], one, one), MB, 2)
        only_reads = [launch(0), launch(1)]
        self.assert_bound(workload([MB, MB], only_reads, only_reads), MB, 2)

    def test_what_a_pass_makes_and_frees_comes_from_nowhere(self) -> None:
        sizes = [MB, MB, MB]
        first = [launch(0, compute=5), launch(1, makes=(1,), writes=(1,), compute=5)]
        after = [launch(0, compute=5), launch(2, makes=(2,), writes=(2,), compute=5)]
        self.assert_bound(workload(sizes, first, after), 2 * MB, 10)

    def test_of_the_first_pass_ends_in_its_own_way(self) -> None:
        # Half of it is there when it begins, and another half when it ends.
        cycle = [launch(number) for number in range(10)]
        self.assert_bound(workload([MB] * 10, cycle, cycle), 5 * MB, 5, 0)
        # What was loaded is on the host, so that only what was made has to be written there.
        made = [launch(0), launch(1, makes=(1,), writes=(1,)), launch(2, makes=(2,), writes=(2,))]
        self.assert_bound(workload([MB] * 3, made, [launch(0), launch(1), launch(2)]), MB, 1, 0)

    def test_of_the_first_pass_brings_no_buffer_that_has_no_content(self) -> None:
        cycle = [launch(number, writes=(number,) if number == 9 else ()) for number in range(10)]
        found = workload([MB] * 10, cycle, cycle)
        self.assert_bound(found, 5 * MB, 5, 0)
        self.assert_bound({**found, "without_content": [9]}, 5 * MB, 4, 0)

    def test_asks_for_as_many_passes_as_it_needs(self) -> None:
        with self.assertRaisesRegex(fluid_bound.Failure, "has 1 passes, and 2 are needed"):
            self.bound_ms(workload([MB], [launch(0)]), MB, 0)

    def test_is_no_less_with_more_slots(self) -> None:
        cycle = [launch(number % 7, writes=(number % 7,) if number % 3 == 0 else (), compute=0.2) for number in range(21)]
        found = workload([MB] * 7, cycle, cycle)
        bounds = [fluid_bound.fluid_bound(found, 4 * MB, LINK, slots) for slots in (1, 3, 7, 21)]
        for fewer, more in zip(bounds, bounds[1:]):
            self.assertLessEqual(fewer, more * (1 + 1e-6))
        self.assertGreater(bounds[-1], bounds[0])


class Script(unittest.TestCase):
    def run_script(self, *words: object) -> subprocess.CompletedProcess:
        return subprocess.run([sys.executable, SCRIPT, *map(str, words)], capture_output=True, text=True, check=False)

    def test_says_which_file_cannot_be_read(self) -> None:
        answer = self.run_script("/no/such/launches", "/no/such/figures")
        self.assertEqual(answer.returncode, 2)
        self.assertIn("/no/such/launches cannot be read", answer.stderr)

    @unittest.skipUnless(HAS_SOLVER, "highspy is not installed")
    def test_says_what_auto_takes_of_it(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            launches, figures, bounds = (Path(folder) / name for name in ("launches.json", "figures.json", "bounds.json"))
            subprocess.run([BUILD / "bench" / "virtual_time" / "virtual_time", "--workload", "llama-decode", "--budget", "50", "--policy", "auto,lru",
                            "--passes", "4", "--json", figures, "--launches", launches], check=True, stdout=subprocess.DEVNULL)
            answer = self.run_script(launches, figures, "--slots", "20", "--json", bounds)
            self.assertEqual(answer.returncode, 0, answer.stderr)
            (row,) = json.loads(bounds.read_text())
            answer = self.run_script(launches, figures, "--slots", "20", "--first", "--json", bounds)
            self.assertEqual(answer.returncode, 0, answer.stderr)
            (first,) = json.loads(bounds.read_text())
            (figure,) = [figure for figure in json.loads(figures.read_text()) if figure["policy"] == "auto"]
        self.assertEqual(first["pass_ms"], figure["first_pass_ms"])
        self.assertEqual((row["workload"], row["budget_percent"]), ("llama-decode", 50))
        # Its launches take almost no time beside the link, so that both bounds say the same. In the first pass caches have no content.
        for bounds in (first, row):
            self.assertAlmostEqual(bounds["fluid_bound_ms"] / bounds["windowed_bound_ms"], 1, delta=0.01)
        self.assertLess(first["fluid_bound_ms"], 0.9 * row["fluid_bound_ms"])
        self.assertGreater(row["pass_ms"], 0.999 * row["fluid_bound_ms"])
        self.assertIn("times the fluid bound", answer.stdout)


if __name__ == "__main__":
    unittest.main()
