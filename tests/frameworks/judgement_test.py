"""How tests/frameworks judges what a run answered, and whether its seeded faults fit the sources. Needs no torch."""

import json
import os
import sys
import unittest
from pathlib import Path

SOURCE = Path(os.environ.get("SUPERPIPE_SOURCE_DIR", Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(SOURCE / "tests" / "frameworks"))

import frameworks_tests  # noqa: E402
import seeded_faults  # noqa: E402


def answer(**changes) -> dict:
    """That of a run in which all was as it should be, but for `changes`; those with a dot are of the twin."""
    twin = {"adopted": ["aten.lift_fresh.default"], "found": [], "compared": 7, "read_back": 1}
    twin |= {name[5:]: value for name, value in changes.items() if name.startswith("twin_")}
    plain = {name: value for name, value in changes.items() if not name.startswith("twin_")}
    return {"twin": twin, "compared": {"equal": True, "distance": 0.0, "differing": []}, "unmapped_accesses": 0} | plain


class TwinProblem(unittest.TestCase):
    def assert_problem(self, given: dict, text: str) -> None:
        self.assertIn(text, frameworks_tests.twin_problem(given) or "no problem")

    def test_is_none_where_all_is_equal(self) -> None:
        self.assertIsNone(frameworks_tests.twin_problem(answer()))

    def test_is_what_the_twin_found_even_if_the_program_failed(self) -> None:
        self.assert_problem(answer(twin_found=["1 storages differ"], error="SIGSEGV"), "1 storages differ")

    def test_is_the_error(self) -> None:
        self.assert_problem({"error": "SIGSEGV"}, "SIGSEGV")
        self.assert_problem(answer(error="no answer in 180 s"), "no answer")

    def test_is_a_difference_from_the_cpu(self) -> None:
        compared = {"equal": False, "distance": 1e-9, "differing": ["weight"]}
        self.assert_problem(answer(compared=compared), "differs from the CPU by 1e-09 in weight")

    def test_is_a_storage_that_the_twin_did_not_see_made(self) -> None:
        self.assert_problem(answer(twin_adopted=["aten.add.Tensor"]), "unknown origin: aten.add.Tensor")

    def test_is_that_nothing_was_compared(self) -> None:
        self.assert_problem(answer(twin_compared=0), "nothing was compared")
        self.assert_problem(answer(twin_read_back=0), "nothing was compared")

    def test_is_an_access_to_unmapped_memory(self) -> None:
        self.assert_problem(answer(unmapped_accesses=1), "unmapped memory")


class Alike(unittest.TestCase):
    def test_counts_other_digests(self) -> None:
        one, other = {"digest": "1"}, {"digest": "2"}
        self.assertIsNone(frameworks_tests.alike([one, one], one))
        self.assertEqual(frameworks_tests.alike([one, other, other], one), "2 of 3 give other bytes")

    def test_says_what_failed(self) -> None:
        self.assertEqual(frameworks_tests.alike([{"digest": "1"}, {"error": "SIGSEGV"}], {"digest": "1"}), "SIGSEGV")


class SeededFaults(unittest.TestCase):
    def test_each_is_in_the_sources_once_and_says_what_breaks(self) -> None:
        listed = json.loads(seeded_faults.LIST.read_text())
        seeded_faults.check(listed["faults"], seeded_faults.LIST)
        self.assertGreaterEqual(len(listed["faults"]), 3)
        for fault in listed["faults"]:
            self.assertEqual(set(fault), {"name", "file", "find", "replace", "breaks"})
            self.assertTrue(fault["breaks"].endswith("."), fault["name"])

    def test_run_on_programs_that_there_are(self) -> None:
        self.assertLessEqual(set(json.loads(seeded_faults.LIST.read_text())["programs"]), set(frameworks_tests.PROGRAMS))


if __name__ == "__main__":
    unittest.main()
