"""Call sites in programs of Python name its functions, also where the interpreter's lock is not held."""

import json
import os
import pickle
import subprocess
import sys
import sysconfig
import unittest

from simulated_run import LIMIT, SUPERPIPE
from trace_test import TraceCase

# Allocates in functions of several kinds, in a file whose name has a space and no ASCII, and prints where: what Python itself says of
# each frame, innermost first. ctypes lets go of the interpreter's lock before it calls.
PROGRAM = """import ctypes, functools, json, sys, threading

cuda = ctypes.CDLL("libcuda.so.1")
places = []


def call(name, *words):
    code = getattr(cuda, name)(*words)
    if code != 0:
        sys.exit(f"{name}: {code}")


def allocate():
    frames, frame = [], sys._getframe()
    while frame is not None:
        frames.append([frame.f_code.co_qualname, frame.f_code.co_filename, frame.f_lineno])
        frame = frame.f_back
    address = ctypes.c_uint64()
    frames[0][2] = sys._getframe().f_lineno + 2
    places.append(frames)
    call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(4 << 20))


class Maker:
    def make(self, depth):
        if depth == 0:
            return allocate()
        return self.make(
            depth - 1)

    def __call__(self):
        self.make(3)


def each():
    yield allocate()


def in_thread():
    call("cuCtxSetCurrent", context)
    (lambda: allocate())()


context = ctypes.c_void_p()
call("cuInit", 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxSetCurrent", context)
for _ in range(3):
    allocate()
# Native code calls Python between these.
functools.reduce(lambda so_far, maker: maker(), [None, Maker()])
list(each())
thread = threading.Thread(target=in_thread)
thread.start()
thread.join()
print(json.dumps(places))
"""


# Paths of interpreters to test besides the one that runs this, with colons between them.
OTHERS = [path for path in os.environ.get("SUPERPIPE_TEST_PYTHONS", "").split(":") if path]


def is_known_interpreter() -> bool:
    return (3, 11) <= sys.version_info < (3, 15) and not sysconfig.get_config_var("Py_GIL_DISABLED")


class PythonFrames(TraceCase):
    def run_program(self, interpreter: str = sys.executable) -> tuple[list, list]:
        """Where the program said that it allocated, and the same of the trace."""
        program = self.folder / "mein Programm \u00e4.py"
        program.write_text(PROGRAM, encoding="utf-8")
        outcome, trace = self.record([interpreter, "-B", program])
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        self.stderr = outcome.stderr
        sites = {int(line[1]): " ".join(line[2:]).split("|") for line in trace.of("call_site")}
        recorded = [sites[a[4]] for a in trace.numbers("allocation") if a[0] > 0]
        return json.loads(outcome.stdout), recorded

    @unittest.skipUnless(is_known_interpreter(), "this interpreter's frames are not read")
    def test_each_allocation_names_the_functions_that_asked_for_it(self) -> None:
        for interpreter in (sys.executable, *OTHERS):
            with self.subTest(interpreter):
                self.check_allocations(interpreter)

    def check_allocations(self, interpreter: str) -> None:
        places, recorded = self.run_program(interpreter)
        self.assertEqual(len(recorded), len(places))
        for said, lines in zip(places, recorded):
            # The function that allocate() calls comes before it.
            call, *frames = [line for line in lines if ".py:" in line]
            self.assertRegex(call, r"^call /.*/mein Programm ä\.py:\d+$")
            self.assertEqual(frames, [f"{name} {file}:{line}" for name, file, line in said])
        # The same place in a loop is one site, and what calls from elsewhere is another.
        self.assertEqual(len({"|".join(lines) for lines in recorded}), 4)
        # Python's functions stand where the interpreter ran them: native ones are within and around.
        first = recorded[0]
        self.assertFalse(any(line.startswith("_PyEval_EvalFrameDefault+") for line in first), first)
        self.assertTrue(any("ffi" in line for line in first[:first.index(next(l for l in first if ".py:" in l))]), first)
        self.assertIn("main", first[-2] + first[-1])
        self.assertNotIn("frames of Python", self.stderr)

    @unittest.skipUnless(is_known_interpreter(), "this interpreter's frames are not read")
    def test_exports_have_files_and_lines(self) -> None:
        places, _ = self.run_program()
        target = self.folder / "exported"
        for form in ("speedscope", "collapsed", "torch-snapshot"):
            done = subprocess.run([str(SUPERPIPE), "export", "--format", form, str(self.file), "-o", str(target)],
                                  capture_output=True, text=True, timeout=LIMIT)
            self.assertEqual(done.returncode, 0, done.stderr)
            if form != "torch-snapshot":
                self.assertIn("Maker.__call__", target.read_text(encoding="utf-8"))
        line = next(frame[2] for frame in places[3] if frame[0] == "Maker.__call__")
        snapshot = pickle.loads(target.read_bytes())
        found = {(frame["name"], frame["filename"].rsplit("/", 1)[-1], frame["line"])
                 for segment in snapshot["segments"] for frame in segment["frames"]}
        self.assertIn(("Maker.__call__", "mein Programm ä.py", line), found)


if __name__ == "__main__":
    unittest.main()
