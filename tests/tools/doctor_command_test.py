"""`superpipe doctor`: what it says of good and of bad drivers, as text and as JSON."""

import json
import unittest

from command_case import FAKE_DRIVER, CommandCase


class Doctor(CommandCase):
    def doctor(self, *flags: str, fake: str = "work", driver: str = str(FAKE_DRIVER)) -> tuple[int, str]:
        finished = self.run_superpipe("doctor", *flags,
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


if __name__ == "__main__":
    unittest.main()
