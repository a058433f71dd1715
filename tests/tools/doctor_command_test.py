"""`superpipe doctor`: what it says of good and of bad drivers, as text and as JSON."""

import json
import unittest

from command_case import BUILD, FAKE_DRIVER, CommandCase

OLD_DRIVER = BUILD / "tests" / "libold_driver.so"


class Doctor(CommandCase):
    def doctor(self, *flags: str, fake: str = "work", driver: str = str(FAKE_DRIVER)) -> tuple[int, str]:
        finished = self.run_superpipe("doctor", "--no-probes", *flags,
                                      environment={"SUPERPIPE_DRIVER": driver, "FAKE_DRIVER": fake})
        self.assertEqual(finished.stderr, "")
        return finished.returncode, finished.stdout

    def doctor_json(self, *flags: str, **how: str) -> tuple[int, dict]:
        code, text = self.doctor("--json", *flags, **how)
        return code, json.loads(text)

    def problems(self, report: dict) -> str:
        return "\n".join(f"{finding['what']}; {finding['advice']}" for finding in report["findings"]
                         if finding["level"] == "problem")

    def test_working_driver_is_described(self) -> None:
        code, text = self.doctor()
        self.assertEqual(code, 0, text)
        for part in (str(FAKE_DRIVER), "CUDA 13.0", "Fake GPU 3000", "1 GiB", "compute 9.0", "would use", "ready"):
            self.assertIn(part, text)
        self.assertNotIn("SIMULATED", text)

    def test_json_has_the_same(self) -> None:
        code, report = self.doctor_json()
        self.assertEqual(code, 0)
        self.assertTrue(report["ready"])
        self.assertFalse(report["simulated"])
        self.assertEqual(report["driver"]["outcome"], "usable")
        self.assertEqual(report["devices"][0]["total_bytes"], 1 << 30)
        self.assertGreater(report["host"]["total_bytes"], report["host"]["available_bytes"])
        self.assertEqual(self.problems(report), "")

    def test_simulation_is_said_in_the_first_line(self) -> None:
        code, text = self.doctor("--simulate", driver="/no/such/driver")
        self.assertEqual(code, 0, text)
        self.assertIn("SIMULATED", text.splitlines()[0])
        self.assertIn(str(self.simgpu / "libcuda.so.1"), text)
        code, report = self.doctor_json("--simulate")
        self.assertEqual(next(iter(report)), "simulated")
        self.assertTrue(report["simulated"])

    def test_each_bad_driver_is_a_finding_with_advice(self) -> None:
        for how, outcome, says in [
            ({"fake": "crash"}, "crashed", "crashed while cuInit"),
            ({"fake": "fail"}, "init_failed", "CUDA_ERROR_NO_DEVICE"),
            ({"fake": "none"}, "usable", "no device"),
            ({"fake": "no-vmm"}, "usable", "no virtual memory management"),
            ({"driver": "/no/such/libcuda.so.1"}, "not_found", "SUPERPIPE_DRIVER=/no/such/libcuda.so.1"),
            ({"driver": "libm.so.6"}, "not_a_driver", "no cuInit"),
            ({"driver": str(OLD_DRIVER)}, "too_old", "CUDA 11.4, and superpipe needs 12.4 or newer; update"),
            ({"fake": "old"}, "too_old",
             "CUDA 12.3, and superpipe needs 12.4 or newer; update NVIDIA's driver to 550 or newer"),
        ]:
            with self.subTest(**how):
                code, report = self.doctor_json(**how)
                self.assertEqual(code, 1)
                self.assertFalse(report["ready"])
                self.assertEqual(report["driver"]["outcome"], outcome)
                self.assertIn(says, self.problems(report))
                code, text = self.doctor(**how)
                self.assertEqual(code, 1)
                self.assertIn("not ready", text)

    def test_missing_parts_are_findings(self) -> None:
        self.library.unlink()
        code, report = self.doctor_json()
        self.assertEqual(code, 1)
        self.assertIn(str(self.library), self.problems(report))
        (self.simgpu / "libcuda.so.1").unlink()
        code, report = self.doctor_json("--simulate")
        self.assertEqual(code, 1)
        self.assertIn("simgpu's driver is missing", self.problems(report))

    def test_bad_usage(self) -> None:
        self.assert_one_line(self.run_superpipe("doctor", "--bogus"), 2, "superpipe doctor", "--bogus")
        self.assert_one_line(self.run_superpipe("doctor", "--", "ls"), 2, "takes no command")

    def test_bad_values_are_refused_before_anything_starts(self) -> None:
        folder = self.root / "read-only"
        folder.mkdir()
        for flags, parts in [
            (("--probe", "H1,H99"), ("'H99'", "H0, H1", "--list")),
            (("--probe", "H1,"), ("''", "--list")),
            (("--probe", "H1", "--no-probes"), ("one of them",)),
            (("--probe-timeout", "soon"), ("--probe-timeout soon", "seconds")),
            (("--probe-timeout", "0"), ("--probe-timeout 0", "seconds")),
            (("--host-mem", "lots"), ("--host-mem lots", "size")),
            (("--cudart", "/no/such/libcudart.so.13"), ("--cudart /no/such/libcudart.so.13",)),
            (("--output", str(self.root / "missing" / "out.json")), ("--output", "No such file", "folder")),
            (("--output", str(folder)), ("--output", "it is a folder")),
            (("--output", "/proc/version"), ("--output", "/proc/version")),
        ]:
            with self.subTest(flags=flags):
                # A driver that hangs would be noticed: nothing may have asked it.
                finished = self.run_superpipe("doctor", *flags, environment={
                    "SUPERPIPE_DRIVER": str(FAKE_DRIVER), "FAKE_DRIVER": "hang"})
                self.assert_one_line(finished, 2, "superpipe doctor: ", *parts)

    def test_output_file_holds_the_object_and_stdout_the_text(self) -> None:
        out = self.root / "report.json"
        out.write_text("old")
        code, text = self.doctor("--output", str(out))
        self.assertEqual(code, 0)
        self.assertIn("ready", text)
        report = json.loads(out.read_text())
        self.assertEqual(report["devices"][0]["name"], "Fake GPU 3000")
        self.assertEqual([path.name for path in self.root.glob("report.json*")], ["report.json"])

    def test_list_names_every_question(self) -> None:
        finished = self.run_superpipe("doctor", "--list")
        self.assertEqual(finished.returncode, 0)
        listed = [line.split()[0] for line in finished.stdout.splitlines()]
        self.assertEqual(listed, [f"H{i}" for i in (*range(11), *range(14, 23), *range(24, 34))])

    def test_text_calls_questions_by_their_names_in_a_column(self) -> None:
        finished = self.run_superpipe("doctor", environment={"SUPERPIPE_DRIVER": str(FAKE_DRIVER),
                                                             "FAKE_DRIVER": "none"})
        answers = [line for line in finished.stdout.splitlines() if "skipped: " in line]
        names = [line[:line.index("skipped: ")] for line in answers]
        self.assertIn("  beside launches  ", names)
        self.assertEqual({len(name) for name in names}, {len("  beside launches  ")})
        self.assertNotRegex(finished.stdout, r"\bH\d")
        code, text = self.doctor()
        self.assertEqual(code, 0)
        self.assertIn("host pages was not asked", text)
        self.assertNotRegex(text, r"\bH\d")

    def test_json_has_the_codes(self) -> None:
        _, report = self.doctor_json()
        why = {feature["name"]: feature["why"] for feature in report["features"]}
        self.assertEqual(why["unmapping"], "H3 was not asked")

    def test_questions_are_chosen_by_code_or_name(self) -> None:
        for word in ("H2", "h2", "map costs", "map-costs", "Map_Costs"):
            with self.subTest(word=word):
                finished = self.run_superpipe("doctor", "--json", "--probe", word, environment={
                    "SUPERPIPE_DRIVER": str(FAKE_DRIVER), "FAKE_DRIVER": "none"})
                probe, = json.loads(finished.stdout)["probes"]
                self.assertEqual(probe["id"], "H2")

    def test_without_a_usable_device_each_question_is_skipped(self) -> None:
        for how in ({"fake": "none"}, {"driver": "/no/such/libcuda.so.1"}):
            with self.subTest(**how):
                finished = self.run_superpipe("doctor", "--json", environment={
                    "SUPERPIPE_DRIVER": how.get("driver", str(FAKE_DRIVER)), "FAKE_DRIVER": how.get("fake", "work")})
                self.assertEqual(finished.returncode, 1)
                probes = json.loads(finished.stdout)["probes"]
                self.assertEqual({probe["outcome"] for probe in probes}, {"skipped"})
                self.assertEqual({probe["reason"] for probe in probes}, {"there is no usable device"})
                self.assertEqual(len(probes), 30)

    def test_a_driver_that_lacks_functions_does_not_support_what_needs_them(self) -> None:
        finished = self.run_superpipe("doctor", "--json", "--probe", "H1", environment={
            "SUPERPIPE_DRIVER": str(FAKE_DRIVER), "FAKE_DRIVER": "work"})
        self.assertEqual(finished.returncode, 0)  # a question without an answer stands in nobody's way
        probe, = json.loads(finished.stdout)["probes"]
        self.assertEqual(probe["outcome"], "not_supported")
        self.assertIn("cuDevicePrimaryCtxRetain", probe["reason"])

    def test_simulation_without_its_kernels_is_said(self) -> None:
        finished = self.run_superpipe("doctor", "--simulate", "--json", "--probe", "H9",
                                      environment={"FAKE_DRIVER": "work"})
        self.assertEqual(finished.returncode, 0)
        probe, = json.loads(finished.stdout)["probes"]
        self.assertEqual(probe["outcome"], "skipped")
        self.assertIn("superpipe.simgpu.so", probe["reason"])


if __name__ == "__main__":
    unittest.main()
