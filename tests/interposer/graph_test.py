"""Programs that launch graphs on simgpu, with and without superpipe: same bytes, less memory."""

import unittest

from managed_run import MIB, ManagedCase


class GraphTest(ManagedCase):
    """What a graph names is on the device when it is launched, and may leave between launches."""

    PROGRAM = "graph_program"
    # A buffer is 2 MiB, as the context and the headroom are. Eight layers and a state do not fit.
    BUDGETS = ({"SUPERPIPE_GPU_MEM": "14M"}, {"SUPERPIPE_GPU_MEM": "14M", "SUPERPIPE_POLICY": "lru"},
               {"SUPERPIPE_GPU_MEM": "14M", "SUPERPIPE_POLICY": "superpipeline"})

    def assert_moves_within_the_budget(self, scenario, **checks):
        for variables in self.BUDGETS:
            with self.subTest(variables):
                run = self.assert_same(scenario, **checks, **variables)
                self.assert_moved(run)
                self.assertLessEqual(run.simgpu["peak_bytes"], 14 * MIB)

    def test_captured_graphs_compute_the_same(self):
        self.assert_moves_within_the_budget("captured")

    def test_copies_and_fills_in_graphs_see_the_newest_bytes(self):
        self.assert_moves_within_the_budget("memory_nodes")

    def test_graphs_that_are_changed_use_what_they_name_then(self):
        self.assert_moves_within_the_budget("changed")

    def test_a_graph_in_a_captured_graph_is_used_with_it(self):
        self.assert_moves_within_the_budget("launched_in_capture")

    def test_what_a_graph_may_use_unseen_stays_on_the_device(self):
        self.assert_moves_within_the_budget(
            "conditional", says=None)
        run = self.run_managed("conditional", SUPERPIPE_GPU_MEM="14M")
        self.assertIn("buffers stay on the device from now on: a graph has nodes of which the driver does not tell "
                      "what they use\n", run.errors)

    def test_memory_that_graphs_allocate_is_within_the_budget(self):
        # 16 MiB are left to buffers and graphs, and a graph takes 6 of them, which come back.
        for variables in ({}, {"SUPERPIPE_POLICY": "lru"}, {"SUPERPIPE_POLICY": "superpipeline"}):
            with self.subTest(variables):
                run = self.assert_same("own_memory", SUPERPIPE_GPU_MEM="20M", **variables)
                self.assert_moved(run)
                self.assertGreaterEqual(run.statistics["passthrough_bytes"], 6 * MIB)
                self.assertLessEqual(run.simgpu["peak_bytes"], 20 * MIB)

    def test_memory_of_a_graph_that_no_budget_has_is_refused_in_one_line(self):
        run = self.run_managed("own_memory_too_large", SUPERPIPE_GPU_MEM="20M")
        self.assertEqual((run.code, run.output.splitlines()[0]), (0, "launch 2"), run.output + run.errors)
        self.assertRegex(run.errors, rf"\Asuperpipe: memory of {32 * MIB} bytes [^\n]* that a graph allocates fails: [^\n]*\n\Z")
        self.assertLessEqual(run.simgpu["peak_bytes"], 20 * MIB)

    def test_a_graph_above_the_budget_fails_its_launch_and_says_what_it_needs(self):
        run = self.run_managed("too_large", SUPERPIPE_GPU_MEM="20M")
        output = self.without_superpipe("too_large").output.replace("launch 0", "launch 701")
        self.assertEqual((run.code, run.output), (0, output), run.errors)
        self.assertRegex(run.errors, rf"\Asuperpipe: .*<CUDA graph of 16 nodes> needs {34 * MIB} bytes.*"
                         rf"the budget leaves {16 * MIB} bytes.*SUPERPIPE_OVERFLOW=allow.*\n"
                         r"superpipe: what a CUDA graph uses has to be on the device all at once: .*\n\Z")
        self.assertLessEqual(run.simgpu["peak_bytes"], 20 * MIB)

    def test_a_graph_above_the_budget_runs_when_overflow_is_allowed(self):
        run = self.assert_same("too_large", says=None, SUPERPIPE_GPU_MEM="20M", SUPERPIPE_OVERFLOW="allow")
        self.assertRegex(run.errors, rf"\Asuperpipe: .*needs {34 * MIB} bytes.*running over the budget\n\Z")

    def test_where_nothing_can_move_graphs_reach_the_driver_as_they_are(self):
        plain = self.without_superpipe("changed").simgpu["api_calls"]
        run = self.assert_same("changed", SUPERPIPE_POLICY="resident")
        added = {name for name, calls in run.simgpu["api_calls"].items()
                 if name.startswith("cuGraph") and calls != plain.get(name, 0)}
        self.assertEqual(added, set())


if __name__ == "__main__":
    unittest.main()
