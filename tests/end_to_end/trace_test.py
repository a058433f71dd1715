"""`superpipe profile` records what the program did and what superpipe did, and harms the program in no case."""

import os
import signal
import subprocess
import sys
import tempfile
import unittest
from collections import Counter
from pathlib import Path

from simulated_run import BUILD, FAST, LAYERS, LIMIT, MIB, SUPERPIPE, EndToEndCase, clean_environment, layers, run
from hermetic import unprivileged, wait_until

READER = BUILD / "tests" / "trace_text"
LAYER_COUNT, PASSES = 6, 5
PROGRAM = layers(LAYER_COUNT, 2, passes=PASSES)
# Uses 4 MiB, forks, and uses 8 MiB when its child has ended: one that ends at once, or is another program by then.
FORKS = """if True:
    import ctypes, os, sys
    cuda = ctypes.CDLL("libcuda.so.1")
    def call(name, *words):
        code = getattr(cuda, name)(*words)
        if code != 0:
            sys.exit(f"{name}: {code}")
    def use(size):
        address = ctypes.c_uint64()
        call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        call("cuMemsetD8_v2", address, ctypes.c_ubyte(1), ctypes.c_size_t(size))
        call("cuMemFree_v2", address)
    context = ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call("cuCtxSetCurrent", context)
    use(4 << 20)
    child = os.fork()
    if child == 0:
        if sys.argv[1:]:
            os.execv(sys.argv[1], sys.argv[1:])
        os._exit(0)
    if os.waitpid(child, 0)[1] != 0:
        sys.exit("the child failed")
    use(8 << 20)
    print(child)"""


class Trace:
    """A trace as trace_text prints it."""

    def __init__(self, path: Path) -> None:
        finished = subprocess.run([str(READER), str(path)], capture_output=True, text=True,
                                  timeout=LIMIT)
        if finished.returncode != 0:
            raise AssertionError(finished.stderr)
        self.lines = [line.split(" ") for line in finished.stdout.splitlines()]
        self.counts = Counter(line[0] for line in self.lines)
        self.properties: dict[str, list[str]] = {}
        for line in self.of("property"):
            self.properties.setdefault(line[1], []).append(" ".join(line[2:]))
        (end,) = self.of("end")
        self.is_complete, self.events, self.dropped = end[1] == "1", int(end[2]), int(end[3])

    def of(self, kind: str) -> list[list[str]]:
        return [line for line in self.lines if line[0] == kind]

    def numbers(self, kind: str) -> list[list[int]]:
        """The fields of each event of a kind, without time and thread."""
        return [[int(word) for word in line[3:]] for line in self.of(kind)]


class TraceCase(EndToEndCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="superpipe-trace-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.file = self.folder / "run.sptrace"

    def record(self, command: list, *flags: str, environment: dict[str, str] | None = None) -> tuple:
        outcome = run(command, "--trace", str(self.file), *flags, environment=environment)
        return outcome, Trace(self.file)


class Recording(TraceCase):
    def check_launches(self, trace: Trace) -> None:
        self.assertTrue(trace.is_complete)
        self.assertEqual(trace.dropped, 0)
        # A launch of the weights' kernel each layer and pass at least, which names its layer's buffer.
        launches = trace.of("launch")
        kernels = {line[1]: " ".join(line[2:]) for line in trace.of("kernel")}
        self.assertTrue(all(kernels.values()))
        with_buffers = [line for line in launches if len(line) > 6]
        self.assertEqual(len(with_buffers), LAYER_COUNT * PASSES)
        numbers = [int(line[3]) for line in with_buffers]
        self.assertEqual(numbers, list(range(1, LAYER_COUNT * PASSES + 1)))
        order = [line[6] for line in with_buffers]
        self.assertEqual(order, order[:LAYER_COUNT] * PASSES)
        self.assertEqual(len(set(order)), LAYER_COUNT)
        # What was allocated: the layers as buffers, smaller things as the driver's own; all were freed.
        self.assertEqual(len([a for a in trace.numbers("allocation") if a[0] > 0]), LAYER_COUNT)
        self.assertGreater(len([a for a in trace.numbers("allocation") if a[0] == 0]), 0)
        # Buffers have the numbers that SUPERPIPE_PIN takes, and what is left to the driver has none.
        self.assertEqual([a[5] for a in trace.numbers("allocation") if a[0] > 0], list(range(1, LAYER_COUNT + 1)))
        self.assertEqual({a[5] for a in trace.numbers("allocation") if a[0] == 0}, {0})
        self.assertEqual(trace.counts["free"], trace.counts["allocation"])
        # Each was made somewhere in the program, outside superpipe's library; the layers all in one place.
        sites = {line[1]: " ".join(line[2:]) for line in trace.of("call_site")}
        self.assertTrue(all(str(LAYERS) in frames for frames in sites.values()), sites)
        self.assertFalse(any("libsuperpipe.so" in frames for frames in sites.values()), sites)
        made_at = {str(a[4]) for a in trace.numbers("allocation") if a[0] > 0}
        self.assertEqual(len(made_at), 1)
        self.assertIn(made_at.pop(), sites)
        self.check_marks(trace)
        self.assertIn("--passes", trace.properties["process.argument"])
        self.assertTrue(trace.properties["device.name"][0].startswith("simgpu"))

    def check_marks(self, trace: Trace) -> None:
        """The program pushes a range of NVTX around each of its passes, whose launches lie within."""
        begin, end = "0", "1"
        texts = {line[1]: " ".join(line[2:]) for line in trace.of("text")}
        marks = trace.of("mark")
        self.assertEqual([line[3] for line in marks], [begin, end] * PASSES)
        self.assertEqual({texts[line[4]] for line in marks if line[3] == begin}, {"pass"})
        within = [line for line in trace.lines if line[0] == "mark" or (line[0] == "launch" and len(line) > 6)]
        a_pass = ["mark", *["launch"] * LAYER_COUNT, "mark"]
        self.assertEqual([line[0] for line in within], a_pass * PASSES)

    def test_times_of_kernels_are_those_of_the_device(self) -> None:
        """The program's kernels say how long they take on simgpu; the first of each are timed."""
        layer_ns = 2_000_000
        for flags in ((), ("--k", "3")):
            with self.subTest(flags=flags):
                _, trace = self.record([*PROGRAM, "--compute-us", str(layer_ns // 1000)], *flags)
                launched = {line[3]: int(line[1]) for line in trace.of("launch") if len(line) > 6}
                times = [line for line in trace.of("kernel_time") if line[5] == "1"]
                # Kernels that the program launches just before its end may be running still.
                self.assertGreater(len(times), LAYER_COUNT * PASSES // 2)
                for _, told, _, launch, duration, _, kernel in times:
                    # None takes less than what is modelled, and how much more is the machine's to
                    # decide.
                    self.assertGreater(int(duration), 0.99 * layer_ns)
                    self.assertGreater(int(told), launched[launch])
                # They ran one after another, and all were over when the last was told.
                self.assertLessEqual(sum(int(line[4]) for line in times),
                                     max(int(line[1]) for line in times))

    def test_events_time_kernels_where_cupti_is_not_to_be_had(self) -> None:
        """CUPTI's library, where there is one, refuses simgpu, and harms nothing."""
        reference = run(PROGRAM, without_superpipe=True)
        outcome, trace = self.record(PROGRAM, "--kernel-times", "cupti")
        self.assert_same_output(outcome, reference)
        (line,) = self.lines(outcome.stderr, "SUPERPIPE_KERNEL_TIMES")
        self.assertRegex(line, r"=cupti: (libcupti\.so\.13 cannot be opened|cuptiSubscribe: CUPTI_ERROR_).*by events instead$")
        self.assertTrue(trace.is_complete)
        self.assertGreater(trace.counts["kernel_time"], 0)

    def test_kernels_are_timed_only_where_they_shall_be(self) -> None:
        outcome, trace = self.record(PROGRAM, "--kernel-times", "off")
        self.assertEqual(self.lines(outcome.stderr, "SUPERPIPE_KERNEL_TIMES"), [])
        self.assertGreater(trace.counts["launch"], 0)
        self.assertEqual(trace.counts["kernel_time"], 0)

    def test_marks_go_to_the_tool_that_the_user_chose(self) -> None:
        outcome, trace = self.record(PROGRAM, environment={"NVTX_INJECTION64_PATH": "/no/such/tool.so"})
        self.assertEqual(trace.counts["mark"], 0)
        self.assertEqual(len(self.lines(outcome.stderr, "/no/such/tool.so")), 1, outcome.stderr)

    def test_a_program_without_the_preload_loads_nothing_of_it(self) -> None:
        """One that inherits the variable of NVTX, but not LD_PRELOAD."""
        asks = """if True:
            import ctypes, os
            tool = ctypes.CDLL(os.environ["NVTX_INJECTION64_PATH"])
            print(tool.InitializeInjectionNvtx2(None), "libsuperpipe.so" in open("/proc/self/maps").read())"""
        outcome = run(["/usr/bin/env", "-u", "LD_PRELOAD", sys.executable, "-c", asks], "--trace", str(self.file),
                      environment={"SIMGPU_KERNELS": f"{LAYERS}.simgpu.so"})
        self.assertEqual(outcome.stdout.split(), ["0", "False"], outcome.stderr)

    def test_with_everything_resident(self) -> None:
        reference = run(PROGRAM, without_superpipe=True)
        outcome, trace = self.record(PROGRAM)
        self.assert_same_output(outcome, reference)
        self.check_launches(trace)
        self.assertEqual(trace.properties["policy.name"], ["auto"])
        self.assertEqual(trace.counts["eviction"], 0)
        self.assertEqual([fetch for fetch in trace.numbers("fetch") if fetch[3] > 0], [])
        line = self.lines(outcome.stderr, "superpipe: trace: ")
        self.assertEqual(line, [f"superpipe: trace: {trace.events} events, 0 dropped, "
                                f"{self.file.stat().st_size} bytes in {self.file}"])
        self.assertEqual(outcome.stderr.splitlines()[-1], line[0])

    def test_while_offloading(self) -> None:
        reference = run(PROGRAM, without_superpipe=True)
        outcome, trace = self.record(PROGRAM, "--k", "3")
        self.assert_same_output(outcome, reference)
        self.check_launches(trace)
        fetches, evictions = trace.numbers("fetch"), trace.numbers("eviction")
        self.assertEqual(sum(fetch[3] for fetch in fetches), outcome.stats["h2d_bytes"])
        self.assertEqual(sum(eviction[3] for eviction in evictions), outcome.stats["d2h_bytes"])
        self.assertEqual(len([fetch for fetch in fetches if fetch[3] > 0]), outcome.stats["fetches"])
        self.assertEqual(len(evictions), outcome.stats["evictions"])
        self.assertGreater(trace.counts["transfer_end"], 0)
        self.assertGreater(trace.counts["pass"], 0)
        stalled_ms = sum(stall[1] for stall in trace.numbers("stall")) / 1e6
        self.assertLessEqual(abs(stalled_ms - outcome.stats["stall_ms"]), 0.05 * outcome.stats["stall_ms"] + 0.01)

    def test_a_budget_in_bytes(self) -> None:
        _, trace = self.record(PROGRAM, "--gpu-mem", "12M")
        self.assertGreater(trace.numbers("budget")[-1][0], 0)
        for pages, *_ in trace.numbers("memory"):
            self.assertLessEqual(pages, 12 * MIB)

    def test_an_access_takes_at_most_24_bytes(self) -> None:
        _, trace = self.record(layers(LAYER_COUNT, 2, passes=100))
        accesses = sum(len(line) - 6 for line in trace.of("launch"))
        self.assertGreaterEqual(accesses, LAYER_COUNT * 100)
        self.assertLessEqual(self.file.stat().st_size / accesses, 24)

    def test_an_event_takes_at_most_8_bytes_while_offloading(self) -> None:
        _, trace = self.record(layers(LAYER_COUNT, 2, passes=100), "--k", "3")
        self.assertGreater(trace.events, 5 * LAYER_COUNT * 100)
        self.assertLessEqual(self.file.stat().st_size / trace.events, 8)


class Processes(TraceCase):
    def test_each_process_has_a_file_of_its_own(self) -> None:
        program = " ".join(str(word) for word in layers(2, 1)[:5])
        outcome = run(["/bin/sh", "-c", f"{program}; {program}"], "--trace", str(self.file),
                      environment={"SIMGPU_KERNELS": f"{LAYERS}.simgpu.so"})
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        files = sorted(self.folder.iterdir())
        self.assertEqual(len(files), 2, files)
        self.assertEqual(files[0], self.file)
        traces = [Trace(file) for file in files]
        self.assertEqual(traces[0].properties["trace.run"], traces[1].properties["trace.run"])
        self.assertEqual(files[1].name, f"{self.file.name}.{traces[1].properties['process.id'][0]}")

    def forked(self, *command: object) -> int:
        """The id of the child, which `command` replaces."""
        outcome = run([sys.executable, "-c", FORKS, *command], "--trace", str(self.file),
                      environment={"SIMGPU_KERNELS": f"{LAYERS}.simgpu.so"})
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        trace = Trace(self.file)
        self.assertTrue(trace.is_complete)
        self.assertEqual([a[2] for a in trace.numbers("allocation") if a[0] > 0], [4 * MIB, 8 * MIB])
        self.assertEqual(trace.counts["use"], 2)
        self.assertEqual(len(self.lines(outcome.stderr, str(self.file))), 2 if command else 1, outcome.stderr)
        return int(outcome.stdout.split()[-1])

    def test_a_forked_child_adds_nothing_to_the_trace(self) -> None:
        self.forked()
        self.assertEqual(list(self.folder.iterdir()), [self.file])

    def test_a_program_that_a_forked_child_executes_has_a_file_of_its_own(self) -> None:
        child = self.forked(*layers(LAYER_COUNT, 2, passes=PASSES)[:7])
        other = self.folder / f"{self.file.name}.{child}"
        self.assertEqual(sorted(self.folder.iterdir()), [self.file, other])
        trace = Trace(other)
        self.assertTrue(trace.is_complete)
        self.assertEqual(trace.properties["process.id"], [str(child)])
        self.assertEqual(trace.properties["trace.run"], Trace(self.file).properties["trace.run"])
        self.assertGreaterEqual(trace.counts["launch"], LAYER_COUNT * PASSES)
        # Tools say that there is the other one, and diff does not of files that it compares.
        first, page = self.file, self.folder / "page"
        for words in (["report", first, "-o", page], ["export", "--format", "csv", first, "-o", page], ["diff", first, first]):
            done = subprocess.run([str(SUPERPIPE), *map(str, words)], capture_output=True,
                                  text=True, timeout=LIMIT)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(len(self.lines(done.stderr, " other files too")), 2 if words[0] == "diff" else 1, done.stderr)
            self.assertIn(str(other), done.stderr)
        done = subprocess.run([str(SUPERPIPE), "diff", str(self.file), str(other)],
                              capture_output=True, text=True, timeout=LIMIT)
        self.assertNotIn("other files", done.stderr)

    def test_a_process_that_dies_leaves_what_it_did(self) -> None:
        program = subprocess.Popen(
            [str(SUPERPIPE), "profile", "-o", str(self.file), "--simulate", "--k", "3", "--",
             str(LAYERS), "--layers", str(LAYER_COUNT), "--layer-mib", "2", "--until",
             str(self.folder / "end")],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, **FAST})
        self.addCleanup(program.kill)
        wait_until(lambda: program.poll() is not None
                   or (self.file.exists() and self.file.stat().st_size > 10_000),
                   "it records little")
        program.send_signal(signal.SIGKILL)
        self.assertEqual(program.wait(LIMIT), -signal.SIGKILL)
        trace = Trace(self.file)
        self.assertFalse(trace.is_complete)
        self.assertGreater(trace.counts["launch"], LAYER_COUNT)


class WithoutLibunwind(TraceCase):
    def test_all_but_call_sites_is_recorded_and_one_line_says_so(self) -> None:
        # The loader finds this one first, and looks for no other.
        broken = self.folder / "libraries"
        broken.mkdir()
        (broken / "libunwind.so.8").touch()
        reference = run(PROGRAM, without_superpipe=True)
        outcome, trace = self.record(PROGRAM, "--k", "3", environment={"LD_LIBRARY_PATH": str(broken)})
        self.assert_same_output(outcome, reference)
        self.assert_one_line("\n".join(self.lines(outcome.stderr, "libunwind")), "call sites are not known", "libunwind8")
        self.assertTrue(trace.is_complete)
        self.assertEqual(trace.counts["call_site"], 0)
        self.assertEqual({a[4] for a in trace.numbers("allocation")}, {0})
        self.assertEqual(trace.counts["stall"] > 0, outcome.stats["stall_ms"] > 0)
        report = subprocess.run([str(SUPERPIPE), "report", str(self.file), "-o", str(self.folder / "report.html")],
                                capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual(report.returncode, 0, report.stderr)


class BadFiles(TraceCase):
    def on_a_small_disk(self, kib: int, *command: object) -> subprocess.CompletedProcess:
        """`command`, whose folder is a file system of so many KiB with nothing in it but what the command writes; that is copied to
        self.folder behind it."""
        script = f'mount -t tmpfs -o size={kib}k none "$1" && cd "$1" && shift && "$@"; code=$?; cp -r . "$KEPT"; exit $code'
        disk, kept = self.folder / "disk", self.folder / "kept"
        disk.mkdir()
        inside = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
        if subprocess.run([*inside, 'mount -t tmpfs none "$1"', "sh", disk], capture_output=True).returncode != 0:
            self.skipTest("this machine lets nobody mount a file system in a namespace of their own")
        inherited = clean_environment("LD_")
        return subprocess.run([*inside, script, "sh", disk, *map(str, command)], env={**inherited, **FAST, "KEPT": str(kept)},
                              capture_output=True, text=True, timeout=LIMIT)

    def test_a_disk_that_fills_up_ends_the_trace_and_not_the_program(self) -> None:
        program = layers(LAYER_COUNT, 2, passes=400)
        program[program.index("{out}/digests")] = self.folder / "digests"
        reference = run(program, without_superpipe=True)
        digests = (self.folder / "digests").read_bytes()
        finished = self.on_a_small_disk(40, SUPERPIPE, "run", "--simulate", "--k", "3", "--trace", "run.sptrace", "--", *program)
        self.assertEqual(finished.returncode, reference.returncode, finished.stderr)
        self.assertEqual((self.folder / "digests").read_bytes(), digests)
        self.assert_one_line("\n".join(self.lines(finished.stderr, "cannot write")), "run.sptrace: ", "file system is nearly full",
                             "the program goes on without being recorded")
        kept = self.folder / "kept" / "run.sptrace"
        trace = Trace(kept)
        self.assertFalse(trace.is_complete)
        self.assertGreater(trace.counts["launch"], LAYER_COUNT * PASSES)
        planned = subprocess.run([str(SUPERPIPE), "plan", str(kept)], capture_output=True,
                                 text=True, timeout=LIMIT)
        self.assertEqual(planned.returncode, 0, planned.stderr)
        self.assertIn("died, or the disk was full", planned.stdout)

    def test_files_that_their_user_may_not_write_are_named(self) -> None:
        closed = self.folder / "closed"
        closed.mkdir()
        self.record(PROGRAM)
        asks = unprivileged()
        closed.chmod(0o555)
        self.addCleanup(closed.chmod, 0o755)
        environment = clean_environment("LD_")
        for words, code in ((["profile", "--simulate", "-o", closed / "t", "--", *PROGRAM[:7]], 2),
                            (["report", self.file, "-o", closed / "t"], 2), (["plan", self.file, "-o", closed / "t"], 2),
                            (["plan", self.file, "--svg", closed / "t"], 2), (["export", self.file, "--format", "csv", "-o", closed / "t"], 2)):
            with self.subTest(subcommand=words[0]):
                finished = subprocess.run([*asks, str(SUPERPIPE), *map(str, words)],
                                          capture_output=True, text=True, timeout=LIMIT,
                                          env=environment)
                self.assertEqual(finished.returncode, code, finished.stderr)
                self.assert_one_line(finished.stderr, f"superpipe {words[0]}: ", str(closed), "Permission denied")
        self.assertEqual(list(closed.iterdir()), [])

    def test_no_permission_is_refused_before_anything_starts(self) -> None:
        finished = subprocess.run([str(SUPERPIPE), "profile", "-o", "/no/such/folder/t", "--", "true"],
                                  capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual(finished.returncode, 2)
        self.assertEqual(len(finished.stderr.splitlines()), 1)
        self.assertIn("/no/such/folder", finished.stderr)

    def test_a_full_device_is_refused_before_anything_starts(self) -> None:
        started = self.folder / "started"
        words = [str(SUPERPIPE), "profile", "--simulate", "-o"]
        finished = subprocess.run([*words, "/dev/full", "--", "touch", started],
                                  capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual(finished.returncode, 2)
        self.assert_one_line(finished.stderr, "superpipe profile: ", "/dev/full", "No space left on device")
        self.assertFalse(started.exists())
        full = self.folder / "full"
        full.mkdir()
        # A namespace of its own may mount what nobody else sees, where the system lets users have one.
        mounted = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
                   'mount -t tmpfs -o size=16k tmpfs "$0" && { cat /dev/zero > "$0/all" 2>/dev/null; exec "$@"; }', str(full)]
        if subprocess.run([*mounted, "true"], capture_output=True, timeout=LIMIT).returncode != 0:
            self.skipTest("no namespace with a file system of its own is to be had")
        finished = subprocess.run([*mounted, *words, full / "run.sptrace", "--", "touch", started],
                                  capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual(finished.returncode, 2, finished.stderr)
        self.assert_one_line(finished.stderr, "superpipe profile: ", str(full), "is full")
        self.assertFalse(started.exists())

    def test_nothing_recorded_is_said_and_leaves_no_former_trace(self) -> None:
        quiet = clean_environment("LD_")

        def profile(*command: object) -> subprocess.CompletedProcess:
            self.record(PROGRAM)
            self.assertTrue(self.file.exists())
            return subprocess.run([str(SUPERPIPE), "profile", "--simulate", "-o", str(self.file), "--", *map(str, command)],
                                  capture_output=True, text=True, timeout=LIMIT,
                                  env={**quiet, **FAST})

        for command, code in ((["true"], 0), ([sys.executable, "-c", "import sys; sys.exit(3)"], 3)):
            with self.subTest(command=command):
                finished = profile(*command)
                self.assertEqual(finished.returncode, code)
                self.assert_one_line(finished.stderr, f"superpipe: nothing was recorded in {self.file}: ", "created no CUDA context")
                self.assertFalse(self.file.exists())
        # A process of the command recorded: nothing is missing.
        finished = profile("sh", "-c", f"{PROGRAM[0]} --layers 2 --passes 1 >/dev/null; true")
        self.assertNotIn("nothing was recorded", finished.stderr)
        self.assertTrue(self.file.exists())

    def test_what_cannot_be_recorded_is_said_first(self) -> None:
        program = self.folder / "static"
        # The least of an ELF file: a header for 64 bits, and no program header that names a loader.
        program.write_bytes(b"\x7fELF\x02\x01\x01" + bytes(57))
        program.chmod(0o755)
        finished = subprocess.run([str(SUPERPIPE), "profile", "--simulate", "-o", str(self.file), "--", str(program)],
                                  capture_output=True, text=True, timeout=LIMIT)
        self.assertIn(f"superpipe profile: note: nothing of {program} itself can be recorded: it is statically linked", finished.stderr)

    def test_a_file_that_cannot_be_written_is_said_and_the_program_goes_on(self) -> None:
        reference = run(PROGRAM, without_superpipe=True)
        for name, why in (("/no/such/folder/t", "No such file"), ("/dev/full", "No space left")):
            with self.subTest(file=name):
                outcome = run(PROGRAM, "--k", "3", environment={"SUPERPIPE_TRACE": name})
                self.assert_same_output(outcome, reference)
                (line,) = self.lines(outcome.stderr, name)
                self.assertIn(why, line)
                self.assertIn("the program goes on without being recorded", line)
                self.assertLess(outcome.peak, reference.peak)

    def test_profile_needs_a_file_and_a_command(self) -> None:
        for words, says in ((["--", "true"], "-o FILE"), (["-o", "t"], "no command")):
            finished = subprocess.run([str(SUPERPIPE), "profile", *words], capture_output=True,
                                      text=True, timeout=LIMIT)
            self.assertEqual(finished.returncode, 2)
            self.assertIn(says, finished.stderr)
            self.assertEqual(len(finished.stderr.splitlines()), 1)


if __name__ == "__main__":
    unittest.main()
