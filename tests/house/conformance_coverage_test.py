"""Every driver function that superpipe's own code calls is asked of the driver by the conformance suite.

What only passes a program's call on is generated, and not looked at: superpipe relies on nothing there.
"""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Not called by the suite, and why.
EXCEPTIONS = {
    "cuCtxAttach": "deprecated; passed on, and the reference that it takes is counted",
    "cuCtxDetach": "as cuCtxAttach",
    "cuDeviceGetPCIBusId": "asked once, for NVML; where it fails, the bound of what a context takes stays",
    "cuLaunchCooperativeKernelMultiDevice": "deprecated, and needs several devices; what it names stays on the device",
    "cuGraphBatchMemOpNodeGetParams": "simgpu has no such nodes; where it fails, buffers stay on the device",
    "cuGraphInstantiate": "as cuGraphInstantiateWithFlags",
    "cuLogsDumpToMemory": "asked once, when a kernel has failed, for what it tells of that; nothing is relied on",
    "cuMemAdvise": "passed on for memory that is not managed; nothing is relied on",
    "cuMemPrefetchAsync": "as cuMemAdvise",
    "cuMemPoolExportPointer": "passed on for memory that is not managed; nothing is relied on",
    "cuMemPoolImportFromShareableHandle": "needs a pool of another process",
    "cuTensorMapEncodeTiled": "passed on, and the bytes are remembered as they are; the doctor's H7 asks what a driver writes",
    "cuTensorMapEncodeIm2col": "as cuTensorMapEncodeTiled",
    "cuTensorMapEncodeIm2colWide": "as cuTensorMapEncodeTiled",
    "cuTensorMapReplaceAddress": "as cuTensorMapEncodeTiled",
}


def base_name(function):
    """The function's name without its version and its kind of default stream."""
    return re.sub(r"_v\d$", "", re.sub(r"_(ptsz|ptds)$", "", function))


def called(sources):
    """The driver functions that these texts call through superpipe's table."""
    return {base_name(name) for source in sources for name in re.findall(r"\bdriver\(\)\s*\.(cu[A-Z]\w*)", source)}


def asked(sources):
    """The driver functions that these texts of the suite call."""
    return {base_name(name) for source in sources
            for name in re.findall(r"\b(?:cu\(\)|driver)\s*\.(cu[A-Z]\w*)", source) + re.findall(r'\bexported\("(cu[A-Z]\w*)"\)', source)}


def uncovered(product, suite):
    return called(product) - asked(suite) - set(EXCEPTIONS)


class ConformanceCoverageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = ROOT / "interposer"
        cls.product = [path.read_text() for path in sorted(folder.rglob("*"))
                       if path.suffix in (".cc", ".h") and "generated" not in path.parts]
        cls.suite = [path.read_text() for path in sorted((ROOT / "tests" / "conformance").glob("*.cc"))]

    def test_suite_asks_for_what_superpipe_calls(self):
        self.assertGreater(len(called(self.product)), 80)
        self.assertEqual(uncovered(self.product, self.suite), set())

    def test_call_that_the_suite_does_not_make_is_found(self):
        self.assertEqual(uncovered([*self.product, "return driver().cuNewCall_v2_ptsz(1);"], self.suite), {"cuNewCall"})
        without = [text.replace("cuMemUnmap", "cuMemNothing") for text in self.suite]
        self.assertEqual(uncovered(self.product, without), {"cuMemUnmap"})

    def test_exceptions_are_called_and_not_asked_for(self):
        self.assertEqual(set(EXCEPTIONS) - called(self.product), set())
        self.assertEqual(set(EXCEPTIONS) & asked(self.suite), set())


if __name__ == "__main__":
    unittest.main()
