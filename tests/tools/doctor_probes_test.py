"""The questions of `superpipe doctor`, asked of simgpu as it is and of simgpu with one behaviour changed."""

import json
import os
import signal
import subprocess
import sys
import unittest
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from hermetic import LIMIT, clean_environment  # noqa: E402  (found through the path above)

BUILD = Path(os.environ.get("SUPERPIPE_BUILD_DIR", "build/dev")).resolve()
PROXY = BUILD / "tests" / "libproxy_driver.so"
SANITIZED = bool(os.environ.get("SUPERPIPE_SANITIZER"))
# These run programs under the preloaded library, which a sanitizer does not allow.
IN_PROGRAMS = ("H0", "H10")
# These need pages that lie on the host; the tests below ask them one by one.
OF_HOST_PAGES = ("H4", "H24", "H25", "H26", "H27", "H28", "H31", "H32")
KEYS = ["id", "name", "question", "outcome", "reason", "answer", "holds", "seconds", "call", "code", "signal", "figures"]


class Questions(unittest.TestCase):
    def ask(self, *flags: str, proxy: str | None = None, probes: str | None = None,
            environment: dict[str, str] | None = None) -> tuple[int, dict]:
        clean = {**clean_environment("LD_"), **(environment or {})}
        if proxy is None:
            flags = ("--simulate", *flags)
        else:
            clean.update(SUPERPIPE_DRIVER=str(PROXY), PROXY_DRIVER=proxy)
        if probes:
            flags = (*flags, "--probe", probes)
        finished = subprocess.run([BUILD / "bin" / "superpipe", "doctor", "--json", "--quick", *flags], env=clean,
                                  capture_output=True, text=True, timeout=LIMIT)
        self.assertIn(finished.returncode, (0, 1), finished.stderr)
        return finished.returncode, json.loads(finished.stdout)

    def only(self, probes: str, *flags: str, proxy: str | None = None, **how: object) -> dict:
        code, report = self.ask(*flags, proxy=proxy, probes=probes, **how)
        self.assertEqual(code, 0, "a question never changes the exit code")
        probe, = report["probes"]
        return probe

    def assert_answered(self, probe: dict, holds: bool) -> None:
        self.assertEqual((probe["outcome"], probe["holds"]), ("answered", holds),
                         probe["reason"] or probe["answer"])

    def assert_undisturbed(self, probe: str, figures: dict, is_right: Callable[[dict], bool]) -> None:
        """The figures are right, or, since the machine may be busy, those of one of five more answers to the question."""
        for _ in range(5):
            if is_right(figures):
                return
            figures = self.only(probe)["figures"]
        self.assertTrue(is_right(figures), f"{probe}: {figures}")

    def test_each_question_gets_its_answer_on_simgpu(self) -> None:
        ids = [f"H{i}" for i in (*range(11), *range(14, 23), *range(24, 34))]
        wanted = [probe for probe in ids if not (SANITIZED and probe in IN_PROGRAMS)]
        code, report = self.ask(probes=",".join(wanted), environment={"SIMGPU_HOST_PAGES": "off"})
        self.assertEqual(code, 0)
        self.assertTrue(report["simulated"])
        self.assertEqual(report["schema_version"], 1)
        self.assertEqual([probe["id"] for probe in report["probes"]], wanted)
        for probe in report["probes"]:
            with self.subTest(probe["id"], reason=probe["reason"], answer=probe["answer"]):
                self.assertEqual(list(probe), KEYS)
                # What the device does not have is no failure; it has one device.
                expected = ("not_supported" if probe["id"] in OF_HOST_PAGES else
                            "skipped" if probe["id"] in ("H19", "H33") else "answered")
                self.assertEqual(probe["outcome"], expected)
                # Its tensor maps hide their addresses, so that nobody comes to rely on finding them. And an event on its
                # legacy stream waits for all blocking streams, which wait for that.
                self.assertIn(probe["holds"], (False,) if probe["id"] in ("H7", "H22") else (True, None))
                if probe["id"] in ("H0", "H3", "H5", "H6", "H8", "H9") and expected == "answered":
                    self.assertIs(probe["holds"], True)
        figures = {probe["id"]: probe["figures"] for probe in report["probes"]}
        self.assertIs(figures["H7"]["encodes_unmapped"], True)
        self.assertGreater(figures["H1"]["h2d_best_gbps"], 0)
        self.assertGreater(figures["H1"]["d2h_best_gbps"], 0)
        costs = figures["H2"]["costs"]
        self.assertEqual({row["chunk_bytes"] >> 20 for row in costs}, {2, 16, 32, 128})
        self.assertEqual({row["load"] for row in costs}, {"idle", "kernel", "copy"})
        self.assertTrue(figures["H2"]["load_ran_throughout"])
        self.assertGreater(figures["H3"]["unmapped_while_running"], 0)
        self.assertEqual(figures["H5"]["different"], 0)
        self.assertGreater(figures["H5"]["same"], 400)
        # As simgpu is modelled: what unpins host memory waits for the device, and 1,023 launches may be queued.
        self.assertGreater(figures["H14"]["longest_unregister_us"], 100_000)
        self.assertLess(figures["H14"]["longest_map_us"], 100_000)
        self.assertEqual(figures["H14"]["rounds"], 4)
        self.assertEqual([row["got"] for row in figures["H15"]["hints"]], [row["hint"] for row in figures["H15"]["hints"]])
        # Each is the time of a copy and more; a busy machine adds to either.
        self.assertGreater(min(figures["H16"]["behind_one_us"], figures["H16"]["alone_us"]), 0)
        self.assert_undisturbed("H16", figures["H16"], lambda timed: 2 * timed["behind_one_us"] > timed["alone_us"])
        # A launch that took long looks like one that waited for its place.
        self.assert_undisturbed("H17", figures["H17"], lambda counted: counted["launches_queued"] == 1023)
        self.assertGreater(figures["H20"]["same_size_pairs_per_second"], 0)
        self.assertLess(figures["H21"]["first_launch_beside_a_kernel_us"], figures["H21"]["kernel_limit_us"])
        self.assertGreater(min(figures["H18"]["ordinary_pin_gbps"], figures["H18"]["large_pin_gbps"]), 0)
        self.assertTrue(figures["H9"]["equals_the_hosts"] and figures["H9"]["sees_one_flipped_bit"])
        self.assertEqual(figures["H29"]["rounds_at_once"], figures["H29"]["rounds"])
        for name in ("without_digests_gbps", "digests_beside_gbps", "digests_in_front_gbps"):
            self.assertGreater(figures["H30"][name], 0, name)
        if not SANITIZED:
            self.assertEqual(figures["H0"]["runtime_is"], "simgpu's")
            self.assertGreater(figures["H10"]["without_median_ns"], 0)

    def test_simgpu_is_recognised_without_the_flag(self) -> None:
        code, report = self.ask(proxy="as it is", probes="H6")
        self.assertTrue(report["simulated"])
        self.assertEqual(report["probes"][0]["outcome"], "answered")

    def test_crash_hang_and_error_leave_the_other_questions_answered(self) -> None:
        for proxy, outcome in [("crash", "crashed"), ("hang", "timed_out"), ("fail", "failed")]:
            with self.subTest(proxy=proxy):
                # It holds for the other two questions too, which take a second here and many on a busy machine.
                limit = ("--probe-timeout", "20") if proxy == "hang" else ()
                code, report = self.ask(*limit, proxy=proxy, probes="H1,H6,H8")
                self.assertEqual(code, 0)
                self.assertTrue(report["ready"])
                before, bad, after = report["probes"]
                self.assertEqual((before["outcome"], after["outcome"]), ("answered", "answered"))
                self.assertEqual(bad["outcome"], outcome)
                self.assertEqual(bad["call"], "cuMemSetAccess")
                self.assertIn("cuMemSetAccess", bad["reason"])
                self.assertEqual(bad["signal"], signal.SIGABRT if proxy == "crash" else 0)
                self.assertEqual(bad["code"], 999 if proxy == "fail" else 0)
                self.assertTrue(any(finding["what"].startswith(f"H6 {outcome}") for finding in report["findings"]))

    def test_another_behaviour_gets_another_answer(self) -> None:
        for probe_id, proxy, says in [
            ("H3", "unmap-damages", "wrong words"),
            ("H5", "as it is", "first different: cuGraphLaunch"),  # the proxy's own are not what cuGetProcAddress gives
            ("H6", "ignore-read-only", "the kernel wrote"),
            ("H6", "refuse-read-only", "refuses read-only mappings"),
            ("H8", "split-aliases", "wrong words"),
            ("H9", "wrong-copy", "its value is wrong"),
            ("H7", "coded-maps", "not among"),
            ("H25", "host-pages-wrong-memset", "wrong words"),
            ("H26", "host-pages-stale-graphs", "wrong words"),
            ("H27", "host-pages-half-copies", "wrong words"),
            ("H27", "host-pages-wait", "cuMemcpyDtoDAsync from it (host)"),
            ("H31", "host-pages-other-maps", "wrong words"),
            ("H32", "host-pages-lose-adds",
             "lost by add_of_8_bytes, swap_of_8_bytes, swap_of_16_bytes"),
        ]:
            with self.subTest(probe=probe_id, proxy=proxy):
                probe = self.only(probe_id, proxy=proxy)
                self.assertEqual(probe["outcome"], "answered", probe["reason"])
                self.assertIs(probe["holds"], False, probe["answer"])
                self.assertIn(says, probe["answer"])

    def test_access_for_another_device_is_asked_where_there_is_one(self) -> None:
        probe = self.only("H19", environment={"SIMGPU_DEVICES": "2"})
        self.assertEqual((probe["outcome"], probe["holds"]), ("answered", True), probe["reason"])
        figures = probe["figures"]
        self.assertEqual((figures["devices"], figures["mapped"], figures["pool"], figures["wrong_words"]), (2, "open", "open", 0))
        self.assertGreater(min(figures["set_access_alone_median_us"], figures["set_access_for_both_median_us"]), 0)
        for refusal, says in (({"SIMGPU_MAPPED_PEERS": "off"}, "mapped memory (CUDA_ERROR_NOT_SUPPORTED)"),
                              ({"SIMGPU_FAULTS": "cuMemPoolSetAccess:unsupported@1"}, "pools (CUDA_ERROR_NOT_SUPPORTED)")):
            with self.subTest(refusal):
                probe = self.only("H19", environment={"SIMGPU_DEVICES": "2", **refusal})
                self.assertEqual((probe["outcome"], probe["holds"]), ("answered", False), probe["reason"])
                self.assertIn(says, probe["answer"])

    def test_names_of_different_functions_are_given(self) -> None:
        figures = self.only("H5", proxy="as it is")["figures"]
        self.assertIn("cuMemSetAccess", figures["different_names"])
        self.assertEqual(figures["different"], len(figures["different_names"]))

    def test_a_raw_address_in_a_tensor_map_is_found(self) -> None:
        probe = self.only("H7", proxy="raw-maps")
        self.assertIs(probe["holds"], True, probe["reason"])
        self.assertEqual(probe["figures"]["offset_bytes"], 24)
        self.assertTrue(probe["figures"]["nothing_else_depends_on_the_address"])

    def test_a_first_launch_that_waits_for_other_kernels_is_told(self) -> None:
        probe = self.only("H21", environment={"SIMGPU_IMPLICIT_SYNC": "on"})
        self.assertEqual((probe["outcome"], probe["holds"]), ("answered", False), probe["reason"])
        self.assertGreaterEqual(probe["figures"]["load_beside_a_kernel_us"], 100_000)

    def test_an_event_on_the_legacy_stream_joins_blocking_streams(self) -> None:
        probe = self.only("H22", environment={"SIMGPU_COMPUTE_ENGINES": "2"})
        self.assertEqual((probe["outcome"], probe["holds"]), ("answered", False), probe["answer"])
        figures = probe["figures"]
        self.assertEqual([figures["blocking_streams_run_side_by_side"], figures["with_an_event_on_one_of_them"],
                          figures["with_an_event_on_the_legacy_stream"],
                          figures["non_blocking_streams_with_an_event_on_the_legacy_stream"]], [True, True, False, True])
        # How superpipe marks the end of the legacy stream where that would join streams.
        self.assertIs(figures["with_an_event_on_a_third_one"], True)
        self.assertIs(figures["event_behind_a_word_follows_the_legacy_stream"], True)

    def test_host_pages_are_measured_where_the_driver_has_them(self) -> None:
        probe = self.only("H4")
        self.assertEqual(probe["outcome"], "answered", probe["reason"])
        self.assertIs(probe["holds"], True, probe["answer"])
        figures = probe["figures"]
        self.assertEqual(figures["location"], "HOST_NUMA")
        for name in ("wrong_words", "atomic_adds_lost_by_the_device_alone", "host_read_wrong_words",
                     "atomic_adds_lost_with_the_host"):
            self.assertEqual(figures[name], 0, name)
        for name in ("kernel_write_gbps", "kernel_read_gbps", "copy_to_device_gbps", "copy_from_device_gbps"):
            self.assertGreater(figures[name], 0, name)

    def test_what_host_pages_cost_is_told_by_size(self) -> None:
        probe = self.only("H24")
        self.assertEqual(probe["outcome"], "answered", probe["reason"])
        figures = probe["figures"]
        self.assertEqual([row["page_bytes"] >> 20 for row in figures["costs"]],
                         2 * [2, 16, 32, 128])
        for row in figures["costs"]:
            for call in ("create", "map", "set_access", "unmap", "release"):
                self.assertGreater(row[f"{call}_median_us"], 0, call)
        self.assertEqual(figures["fresh_words_not_zero"], 0)
        self.assertIn("fresh pages are zeroed", probe["answer"])
        self.assertIn("VmRSS", [row["counter"] for row in figures["counters"]])
        probe = self.only("H24", proxy="host-pages-dirty")
        self.assertEqual(probe["figures"]["fresh_words_not_zero"], 1)
        self.assertIn("fresh pages are not zeroed", probe["answer"])

    def test_host_pages_are_used_in_each_way(self) -> None:
        for probe_id in ("H25", "H26", "H27", "H31", "H32"):
            with self.subTest(probe_id):
                probe = self.only(probe_id)
                self.assert_answered(probe, True)
                figures = probe["figures"]
                self.assertEqual(figures["location"], "HOST_NUMA")
                for name in (name for name in figures if "wrong_words" in name):
                    self.assertEqual(figures[name], 0, name)
                for name in (name for name in figures if name.endswith("_gbps")):
                    self.assertGreater(figures[name], 0, name)
                if probe_id == "H25":
                    self.assertEqual(
                        [(row["bytes_of_an_access"], row["stride_bytes"])
                         for row in figures["kernels"]],
                        [(4, 4), (4, 128), (4, 4096), (16, 16), (16, 128), (16, 4096)])
                if probe_id == "H26":
                    self.assertEqual(
                        [(row["made_over"], row["launched_over"]) for row in figures["launches"]],
                        [("device", "device"), ("device", "host"), ("device", "device"),
                         ("host", "host"), ("host", "device"), ("host", "host")])
                if probe_id == "H27":
                    self.assertEqual(len(figures["copies"]), 3)
                    self.assertEqual(len(figures["calls"]), 12)

    def test_products_are_timed_with_simgpus_cublas(self) -> None:
        probe = self.only("H28")
        self.assertEqual(probe["outcome"], "answered", probe["reason"])
        rows = probe["figures"]["products"]
        self.assertEqual([(row["type"], row["batch"]) for row in rows],
                         [("fp16", 1), ("fp16", 16), ("fp32", 1), ("fp32", 16)])
        for row in rows:
            self.assertGreater(min(row["on_device_us"], row["in_place_us"], row["brought_us"]), 0)
            self.assertTrue(row["same_bytes"])
        probe = self.only("H28", proxy="host-pages-half-copies")
        self.assertIn("other bytes in place: fp16, batch 1", probe["answer"])

    def test_a_host_page_is_opened_to_a_second_device(self) -> None:
        two = {"SIMGPU_DEVICES": "2"}
        probe = self.only("H33", environment=two)
        self.assert_answered(probe, True)
        for name in ("wrong_words_read", "wrong_words_written"):
            self.assertEqual(probe["figures"][name], 0)
        refusing = {**two, "SIMGPU_MAPPED_PEERS": "off"}
        probe = self.only("H33", environment=refusing)
        self.assert_answered(probe, False)
        self.assertIn("cuMemSetAccess", probe["answer"])

    def test_host_functions_that_run_one_after_the_other_are_told(self) -> None:
        probe = self.only("H29", environment={"SIMGPU_HOST_FUNCTIONS": "serial"})
        self.assert_answered(probe, False)
        self.assertEqual(probe["figures"]["rounds_at_once"], 0)

    def test_host_pages_that_the_host_may_not_use_are_good_for_the_device(self) -> None:
        probe = self.only("H4", proxy="host-pages-not-for-the-host")
        self.assertEqual((probe["outcome"], probe["holds"]), ("answered", True))
        self.assertIn("cuMemSetAccess", probe["figures"]["host_use"])

    # Drivers that have pages on the host, but none of a node: what stands in for them.
    WITHOUT_NODES = (({"proxy": "host-numa-crashes"}, "host_numa_ended", "cuMemCreate"),
                     ({"environment": {"SIMGPU_HOST_PAGES": "no-numa"}}, "refused", "CUDA_ERROR_NOT_PERMITTED"))

    def test_host_pages_of_any_node_are_tried_where_those_of_one_are_bad(self) -> None:
        for driver, figure, says in self.WITHOUT_NODES:
            with self.subTest(**driver):
                probe = self.only("H4", **driver)
                self.assertEqual((probe["outcome"], probe["holds"]), ("answered", True), probe["reason"])
                self.assertEqual(probe["figures"]["location"], "HOST")
                self.assertIn(says, probe["figures"][figure])

    def test_each_question_of_host_pages_falls_back_to_pages_of_any_node(self) -> None:
        for driver, _, _ in self.WITHOUT_NODES:
            with self.subTest(**driver):
                probe = self.only("H31", **driver)
                self.assert_answered(probe, True)
                self.assertEqual(probe["figures"]["location"], "HOST")

    def test_a_driver_that_creates_no_host_pages_is_told_from_a_device_without(self) -> None:
        refusing = {"SIMGPU_HOST_PAGES": "refused"}
        probe = self.only("H4", environment=refusing)
        self.assert_answered(probe, False)
        self.assertIn("CUDA_ERROR_NOT_PERMITTED", probe["answer"])
        probe = self.only("H24", environment=refusing)
        self.assertEqual(probe["outcome"], "not_supported")
        self.assertIn("creates no pages on the host", probe["reason"])
        probe = self.only("H4", environment={"SIMGPU_HOST_PAGES": "crash"})
        self.assertEqual((probe["outcome"], probe["call"]), ("crashed", "cuMemCreate"))

    def test_too_little_memory_skips_a_question_with_its_reason(self) -> None:
        probe = self.only("H1", "--host-mem", "1M")
        self.assertEqual(probe["outcome"], "skipped")
        self.assertIn("of host memory, and 1 MiB may be used", probe["reason"])
        probe = self.only("H9", environment={"SIMGPU_MEMORY": "16M"})
        self.assertEqual(probe["outcome"], "skipped")
        self.assertIn("of device memory", probe["reason"])

    def test_a_failing_call_is_named_with_its_code(self) -> None:
        probe = self.only("H8", environment={"SIMGPU_FAULTS": "cuMemCreate:oom@1"})
        self.assertEqual(probe["outcome"], "failed")
        self.assertEqual((probe["call"], probe["code"]), ("cuMemCreate", 2))

    @unittest.skipIf(SANITIZED, "a sanitizer's library cannot be preloaded into other programs")
    def test_switched_off_superpipe_skips_what_needs_it(self) -> None:
        probe = self.only("H0", environment={"SUPERPIPE_OFF": "1"})
        self.assertEqual(probe["outcome"], "skipped")
        self.assertIn("SUPERPIPE_OFF", probe["reason"])

    @unittest.skipIf(SANITIZED, "a sanitizer's library cannot be preloaded into other programs")
    def test_the_users_variables_do_not_decide_what_is_measured(self) -> None:
        for variable in ({"SUPERPIPE_K": "nonsense", "SUPERPIPE_STRICT": "1"},
                         {"LD_PRELOAD": str(BUILD / "lib" / "superpipe" / "libsuperpipe.so")}):
            with self.subTest(variable=variable):
                probe = self.only("H10", environment=variable)
                self.assertEqual(probe["outcome"], "answered", probe["reason"])


if __name__ == "__main__":
    unittest.main()
