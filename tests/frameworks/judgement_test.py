"""How tests/frameworks judges what a run answered, which scripts run, whether its seeded faults fit the sources, and whose PyTorch
tests take. Needs none.
"""

import json
import os
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

SOURCE = Path(os.environ.get("SUPERPIPE_SOURCE_DIR", Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(SOURCE / "tests" / "frameworks"))

import environment  # noqa: E402
import frameworks_tests  # noqa: E402
import kernel_words_check  # noqa: E402
import layers_check  # noqa: E402
import script_grid  # noqa: E402
import script_runs  # noqa: E402
import seeded_faults  # noqa: E402
import stale_words  # noqa: E402


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


class StaleWords(unittest.TestCase):
    """Buffer N lies at 100 N; operation 0 uses the first buffer, operation 1 the second."""

    OPERANDS = [[100], [200]]

    def setUp(self) -> None:
        self.rows: list[dict[str, str]] = []
        for buffer in (1, 2):
            self.allocate(buffer)

    def add(self, event: str, thread: int = 1, **fields: object) -> None:
        columns = ("buffer", "address", "size", "kernel", "buffers", "way", "text")
        self.rows.append({"event": event, "thread": str(thread)} | {name: str(fields.get(name, "")) for name in columns})

    def allocate(self, buffer: int) -> None:
        self.add("allocation", buffer=buffer, address=100 * buffer)

    def begin(self, operation: int) -> None:
        self.add("mark", way="begin", text=stale_words.mark(operation))

    def end(self) -> None:
        self.add("mark", way="end")

    def run_operation(self, operation: int, *buffers: int, fetched: int | None = None) -> None:
        self.begin(operation)
        if fetched is not None:
            self.add("fetch", thread=2, buffer=fetched, size=7)
        self.add("launch", kernel="add", buffers=" ".join(map(str, buffers)))
        self.end()

    def found(self) -> stale_words.Found:
        return stale_words.stale_words(self.rows, self.OPERANDS)

    def test_are_none_where_launches_name_operands(self) -> None:
        self.run_operation(0, 1, fetched=1)
        self.run_operation(1, 2)
        self.assertEqual((self.found().launches, self.found().names, self.found().stale_names), (2, 2, 0))
        self.assertIsNone(stale_words.problem(self.found()))

    def test_are_what_launches_name_beyond_their_operands(self) -> None:
        self.run_operation(1, 2, 1, fetched=1)
        found = self.found()
        self.assertEqual((found.stale_names, found.stale_bytes, found.stale), (1, 7, {"add": 1}))
        self.assertIn("7 of 7 bytes fetched for stale words", stale_words.problem(found))

    def test_cost_nothing_where_the_buffer_was_there(self) -> None:
        self.run_operation(0, 1, fetched=1)
        self.run_operation(1, 2, 1)
        self.assertEqual((self.found().stale_names, self.found().stale_bytes), (1, 0))

    def test_cost_what_came_ahead_for_them(self) -> None:
        self.add("fetch", thread=2, buffer=1, size=7)
        self.run_operation(1, 2, 1)
        self.run_operation(0, 1)
        self.assertEqual(self.found().stale_bytes, 7)

    def test_are_not_what_the_operation_allocates_for_itself(self) -> None:
        self.begin(0)
        self.allocate(3)
        self.add("launch", buffers="1 3")
        self.add("free", buffer=3)
        self.end()
        self.assertEqual(self.found().stale_names, 0)

    def test_are_not_a_librarys_workspace_in_later_operations(self) -> None:
        self.begin(0)
        self.allocate(3)
        self.end()
        self.run_operation(1, 2, 3)
        self.assertEqual(self.found().stale_names, 0)

    def test_are_results_of_earlier_operations(self) -> None:
        self.rows.pop()
        self.begin(1)
        self.allocate(2)
        self.end()
        self.run_operation(0, 1, 2)
        self.assertEqual(self.found().stale_names, 1)

    def test_are_told_by_the_operation_of_the_launchs_own_thread(self) -> None:
        self.begin(1)
        self.add("mark", thread=3, way="begin", text=stale_words.mark(0))
        self.add("launch", thread=3, buffers="1")
        self.assertEqual(self.found().stale_names, 0)

    def test_are_not_judged_where_launches_are_of_no_operation(self) -> None:
        self.run_operation(0, 1, fetched=1)
        self.add("launch", buffers="1")
        self.assertIn("1 launches of no operation", stale_words.problem(self.found()))

    def test_are_not_judged_where_nothing_moved(self) -> None:
        self.run_operation(0, 1)
        self.assertIn("nothing was fetched", stale_words.problem(self.found()))


class Alike(unittest.TestCase):
    def test_counts_other_digests(self) -> None:
        one, other = {"digest": "1"}, {"digest": "2"}
        self.assertIsNone(frameworks_tests.alike([one, one], one))
        self.assertEqual(frameworks_tests.alike([one, other, other], one), "2 of 3 give other bytes")

    def test_says_what_failed(self) -> None:
        self.assertEqual(frameworks_tests.alike([{"digest": "1"}, {"error": "SIGSEGV"}], {"digest": "1"}), "SIGSEGV")


class Possible(unittest.TestCase):
    def test_is_all_where_the_least_is_below(self) -> None:
        self.assertEqual(frameworks_tests.possible([100, 50, 30], 0), {100: "", 50: "", 30: ""})

    def test_is_the_least_instead_of_what_is_below_it(self) -> None:
        self.assertEqual(frameworks_tests.possible([100, 50, 30], 60),
                         {100: "", 60: ", the least for one launch, not 50 and 30"})

    def test_is_what_equals_the_least_once(self) -> None:
        self.assertEqual(frameworks_tests.possible([50, 30], 50), {50: ", the least for one launch, not 30"})

    def test_knows_programs_and_allocators_that_there_are(self) -> None:
        for name, allocator in (*frameworks_tests.AT_LEAST, *frameworks_tests.SHORT):
            self.assertIn(name, frameworks_tests.PROGRAMS)
            self.assertIn(allocator, frameworks_tests.ALLOCATORS)


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


class Layers(unittest.TestCase):
    MODULES = [{"name": "embed", "parameters": [[10, 1 << 20]]}, {"name": "block.0.in", "parameters": [[11, 1 << 20], [90, 1]]},
               {"name": "block.0.out", "parameters": [[12, 1 << 20]]}, {"name": "block.1.in", "parameters": [[13, 1 << 20]]},
               {"name": "head", "parameters": [[10, 1 << 20]]}]
    GOOD = {10: "1", 11: "1", 12: "1", 13: "2", 99: ""}

    def judge(self, layers: dict, shown: int = 2) -> tuple[str | None, str]:
        return layers_check.problem({"blocks": ["block.0.", "block.1."], "modules": self.MODULES}, layers, shown)

    def test_have_no_problem_where_each_block_is_one(self) -> None:
        self.assertEqual(self.judge(self.GOOD), (None, "2 blocks of 2 layers, 4 parameters"))

    def test_may_not_cut_a_block_nor_join_two_nor_leave_one_out(self) -> None:
        for change, text in (({12: "2"}, "block.0. is in layers ['1', '2']"), ({13: "1"}, "share layers"),
                             ({13: ""}, "block.1.in is in no layer: ''"), ({13: "shared"}, "block.1.in is in no layer: 'shared'"),
                             ({10: ""}, "embed is in no layer"), ({10: "2"}, "in the order of their calls: [2, 1, 1, 2]")):
            with self.subTest(change=change):
                self.assertIn(text, self.judge(self.GOOD | change)[0])
        self.assertIn("block.1.in is in no layer: 'it is no buffer'", self.judge({10: "1", 11: "1", 12: "1"})[0])

    def test_are_as_many_as_the_run_says(self) -> None:
        self.assertIn("there are 3 layers", self.judge(self.GOOD, 3)[0])

    def test_are_read_by_address_from_an_export(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            export = Path(folder) / "run.csv"
            export.write_text("event,buffer,address,layer\nallocation,0,10,1\nallocation,,11,\nfree,0,,\nallocation,1,12,shared\n")
            self.assertEqual(layers_check.layers_by_address(export), {10: "1", 12: "shared"})


class KernelWords(unittest.TestCase):
    STRUCTS = [{"name": "a list", "type": "at::List<", "bytes": [64, 64]}, {"name": "a functor", "type": "at::f", "bytes": [100, 120]}]

    def test_has_no_problem_where_each_row_fits_a_kernel(self) -> None:
        parameters = [(3, 64, "at::List<float>"), (2, 104, "at::f<int>"), (5, 32, "other")]
        self.assertEqual(kernel_words_check.rows_problem(parameters, self.STRUCTS), (None, "2 of 2 rows, 5 of 10 structs of kernels"))

    def test_names_the_rows_that_fit_none(self) -> None:
        for kernel in ((3, 72, "at::List<float>"), (3, 64, "other::at::List<float>")):
            problem, detail = kernel_words_check.rows_problem([kernel, (1, 100, "at::f<int>")], self.STRUCTS)
            self.assertIn("a list", problem)
            self.assertIn("1 of 2 rows", detail)

    STEPS = [{"name": "fill", "uses": [0]}, {"name": "touch", "uses": []}, {"name": "fill", "uses": [2]}, {"name": "touch", "uses": []},
             {"name": "add", "uses": [0, 2]}]

    def named(self, buffers: list[int]) -> list[set[int]]:
        with tempfile.TemporaryDirectory() as folder:
            timeline = Path(folder) / "timeline.csv"
            timeline.write_text("time_ms,event,buffer,layer,bytes\n0,fetch_begin,9,,1\n" + "".join(
                f"0,launch,{buffer},,1\n" for buffer in buffers))
            return kernel_words_check.launches_of_steps(timeline)

    def test_finds_the_launches_of_each_step_between_two_marks(self) -> None:
        self.assertEqual(self.named([0, 1, 5, 0, 1, 6, 0, 1, 5, 6, 0, 7, 1]), [{5}, {6}, {5, 6, 7}])

    def test_is_content_where_each_operand_was_named(self) -> None:
        problem, detail = kernel_words_check.operands_problem(self.STEPS, [{5}, {5}, set(), {6}, {5, 6, 7}])
        self.assertIsNone(problem)
        self.assertEqual(detail, "1 operations, 2 operands")

    def test_names_the_operations_of_which_an_operand_was_not(self) -> None:
        self.assertIn("add", kernel_words_check.operands_problem(self.STEPS, [{5}, {5}, {6}, {6}, {5, 7}])[0])

    def test_does_not_judge_a_timeline_of_other_steps(self) -> None:
        self.assertIn("2 steps", kernel_words_check.operands_problem(self.STEPS, [{5}, {6}])[0])
        self.assertIn("2 buffers", kernel_words_check.operands_problem(self.STEPS, [{5}, {5, 6}, {6}, {6}, {5, 6}])[0])


class Scripts(unittest.TestCase):
    """What `superpipe verify` says of runs, and which scripts run."""

    SAME = ("same with --gpu-mem 80M: 9 copies out of the device (49 MiB), exit code and output; "
            "peak 78 MiB, 12.5 MiB moved in, 3 MiB out\n")
    REFUSED = ("DIFFERENT with --gpu-mem 20M:\n  80 of 88 copies out of the device differ; the first: copy 9\n"
               "  exit code 1 instead of exit code 0; its last lines on standard error:\n"
               "    superpipe: the budget of 20971520 bytes (20 MiB) was too small for a launch of kernel void f(...), "
               "which needs 33554432 bytes (32 MiB) at once; the smallest budget that would run it: 41943040 bytes\n")
    DIFFERS = "DIFFERENT with --gpu-mem 40M:\n  1 of 9 copies out of the device differ; the first: copy 4\n"
    BUDGETS = {80: 100, 40: 50, 20: 25}

    def test_tell_the_same_from_what_was_refused_and_what_differs(self) -> None:
        cells = script_runs.cells_of(self.SAME + self.DIFFERS + self.REFUSED, self.BUDGETS)
        self.assertEqual(cells[100], script_runs.Cell("same", "12.5 MiB"))
        self.assertEqual(cells[25], script_runs.Cell("refused", "32 MiB", "kernel void f(...)"))
        self.assertEqual(cells[50].outcome, "differs")
        self.assertIn("copy 4", cells[50].detail)

    def test_tell_what_does_not_run_without_superpipe(self) -> None:
        fails = ("the program fails without superpipe too (exit code 1); its last lines on standard error:\n"
                 "    RuntimeError: CUDNN_STATUS_NOT_SUPPORTED\n")
        cells = script_runs.cells_of(self.SAME + fails, self.BUDGETS)
        self.assertEqual(cells, {100: script_runs.Cell("not on simgpu", "RuntimeError: CUDNN_STATUS_NOT_SUPPORTED")})

    def test_tell_what_superpipe_wrote_at_once(self) -> None:
        small = "superpipe: a pass-through allocation of 16 bytes (16 B) fails: 31457280 bytes (30 MiB) are pass-through memory already"
        graph = ("superpipe: a launch of kernel <CUDA graph of 30 nodes> needs 12582912 bytes (12 MiB) of managed buffers at once, "
                 "but the budget leaves 6291456 bytes (6 MiB)")
        self.assertEqual(script_runs.refusal_in(f"{small}\nTraceback"), script_runs.Cell("refused", "30 MiB", "small allocations"))
        self.assertEqual(script_runs.refusal_in(graph), script_runs.Cell("refused", "12 MiB", "kernel <CUDA graph of 30 nodes>"))
        self.assertIsNone(script_runs.refusal_in("Traceback"))
        self.assertEqual(script_runs.REFUSED.search("was too small for one operation, which needs 10485760 bytes (10 MiB) at once")[1],
                         "one operation")

    def test_take_the_flags_for_the_only_budget(self) -> None:
        said = self.SAME.replace("--gpu-mem 80M", "superpipe and the flags")
        self.assertEqual(script_runs.cells_of(said, {80: 50}), {50: script_runs.Cell("same", "12.5 MiB")})

    def test_have_to_be_the_same_and_to_move_data(self) -> None:
        self.assertIsNone(script_runs.problem_of(script_runs.Cell("same", "12.5 MiB")))
        self.assertIn("nothing", script_runs.problem_of(script_runs.Cell("same", "0 B")))
        self.assertIn("32 MiB", script_runs.problem_of(script_runs.Cell("refused", "32 MiB", "kernel f")))

    def test_are_all_in_the_table(self) -> None:
        self.assertEqual(sorted(script.name for script in script_runs.RUNS),
                         sorted(path.name for path in script_runs.SCRIPTS.glob("*.py")))

    def test_take_turns(self) -> None:
        for framework in script_runs.FRAMEWORKS:
            every = {script for script in script_runs.chosen([framework])
                     if script.always or script.in_turn}
            for parity in (0, 1):  # JAX has the odd numbers of commits, TensorFlow the even ones
                parts = [script_runs.chosen([framework], turn=turn) for turn in range(parity, 24, 2)]
                self.assertEqual(set().union(*parts), every)
        self.assertEqual({script_runs.policy_of(turn) for turn in range(3)}, set(script_runs.POLICIES))

    def test_grid_says_what_came_of_each_cell(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            script = script_runs.RUNS[0]
            grid = script_grid.Grid(Path(folder) / "grid.json")
            grid.add(script, "auto", script_runs.cells_of(self.SAME + self.REFUSED, self.BUDGETS))
            page = script_grid.Grid(grid.path).markdown()
        self.assertIn("same · not run · refused (32 MiB) | not run · not run · not run", page)
        self.assertIn("32 MiB for kernel void f(...)", page)

    def test_grid_looks_for_the_smallest_budget_until_it_is_known(self) -> None:
        script = script_runs.RUNS[0]
        refused = script_runs.Cell("refused", "32 MiB", "kernel void f(...)")
        with tempfile.TemporaryDirectory() as folder:
            grid = script_grid.Grid(Path(folder) / "grid.json")
            grid.add(script, "auto", {100: script_runs.Cell("same"), 25: refused})
            self.assertEqual(grid.lacks_smallest(script), (25, 100))
            grid.add(script, "auto", {62: refused})
            self.assertEqual(grid.lacks_smallest(script), (62, 100))
            grid.add(script, "auto", {65: script_runs.Cell("same")})
            self.assertIsNone(grid.lacks_smallest(script))
            self.assertEqual(grid.percents(script), [100, 50, 25, 62, 65])
            self.assertIn("65 %: same |", grid.markdown())

    def test_smallest_budget_is_found_by_what_is_refused(self) -> None:
        script = script_runs.RUNS[0]
        tried = []

        def written(words: list, limit: float) -> tuple[str, str]:
            tried.append(int(words[words.index("--gpu-mem") + 1].rstrip("M")))
            fits = tried[-1] >= script.budget(40)
            return "", "" if fits else (
                "superpipe: a launch of f() needs 9 bytes (9 B) of managed buffers at once, but the budget")

        with mock.patch.object(script_runs, "written", written):
            found = script_runs.smallest_percent(Path("s"), Path("p"), script, 25, 50, 1)
        self.assertTrue(40 <= found <= 40 + script_runs.NEAR, found)
        self.assertLess(len(tried), 6)


class TorchPython(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.python = self.root / "build" / "frameworks-venv" / "bin" / "python3"
        self.stamp = self.root / "build" / "frameworks-venv" / "installed.txt"
        self.python.parent.mkdir(parents=True)
        self.python.touch()
        self.addCleanup(mock.patch.stopall)
        mock.patch.dict(os.environ).start()
        os.environ.pop("SUPERPIPE_TORCH_PYTHON", None)

    def test_is_taken_once_all_of_its_packages_are_installed(self) -> None:
        self.assertIsNone(environment.torch_python(self.root))
        self.stamp.write_text("torch==0.1\n")
        self.assertIsNone(environment.torch_python(self.root))
        lists = ("requirements.txt", "requirements-scripts.txt")
        self.stamp.write_text((environment.HERE / lists[0]).read_text())
        self.assertIsNone(environment.torch_python(self.root))
        self.stamp.write_text("".join((environment.HERE / name).read_text() for name in lists))
        self.assertEqual(environment.torch_python(self.root), self.python)

    def test_is_the_one_that_is_named(self) -> None:
        os.environ["SUPERPIPE_TORCH_PYTHON"] = str(self.python)
        self.assertEqual(environment.torch_python(self.root / "elsewhere"), self.python)

    def test_that_is_named_has_to_be_there(self) -> None:
        os.environ["SUPERPIPE_TORCH_PYTHON"] = str(self.root / "none")
        with self.assertRaisesRegex(environment.Unfit, "none, which is no file"):
            environment.torch_python(self.root)


if __name__ == "__main__":
    unittest.main()
