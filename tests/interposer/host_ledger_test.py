"""Two programs on simgpu that share the host's memory, of which there is too little for both."""

import os
import signal
import struct
import subprocess
import tempfile
import unittest
from pathlib import Path

from managed_run import BUILD, KERNELS, LIBRARY, LIMIT, MIB, PROGRAMS, environment_in
from hermetic import own_processes

PROGRAM = PROGRAMS / "managed_program"
# Eight layers of 2 MiB do not fit the budget, so that all of them need host memory. Two such programs do not fit the cap.
BUDGET = "14M"
NEEDED = 16 * MIB
CAP = 24 * MIB


class HostLedgerTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="superpipe-ledger-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.ledger = self.folder / f"superpipe-host-{os.geteuid()}-{own_processes()}"
        # Of which fifteen sixteenths are for host stores: enough for one program, and for none beside it.
        self.host = {"LD_PRELOAD": f"{BUILD / 'tests' / 'meminfo_shim.so'}:{LIBRARY}", **self.available(18 * MIB)}

    def available(self, size, when="MEMINFO"):
        """The variable by which programs find so much host memory available."""
        file = self.folder / when
        file.write_text(f"MemTotal: 16777216 kB\nMemAvailable: {size >> 10} kB\n")
        return {when: str(file)}

    def set_cap(self, cap):
        """This process joins the ledger as the first one would whose machine has room for `cap`, and reserves nothing."""
        stat = Path("/proc/self/stat").read_text()
        started = int(stat[stat.rindex(")"):].split()[20])
        header = struct.pack("=QIIQ40x", 0x74736F6865706970, 1, 100, cap)
        own = struct.pack("=QQQQQ", os.getpid(), started, 0, 1 << 56, 0)
        self.ledger.write_bytes((header + own).ljust(4064, b"\0"))
        self.ledger.chmod(0o600)

    def reserved(self):
        """What each process has entered, by its id."""
        entries = struct.iter_unpack("=QQQQQ", self.ledger.read_bytes()[64:])
        return {pid: reserved for pid, _, _, _, reserved in entries if pid != 0}

    def start(self, scenario="hold", **variables):
        """A program with eight layers; its first line has been read."""
        process = subprocess.Popen(
            [str(PROGRAM), scenario, str(KERNELS)],
            env=environment_in(self.folder, SUPERPIPE_GPU_MEM=BUDGET,
                               SUPERPIPE_SHARED_FOLDER=self.folder,
                               **{"SUPERPIPE_HOST_LEDGER": "shared", **self.host, **variables}),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, process)
        return process, process.stdout.readline()

    @staticmethod
    def end(process):
        process.kill()
        process.communicate()

    def finish(self, process):
        """What it computed."""
        output, errors = process.communicate(timeout=LIMIT)
        self.assertEqual((process.returncode, errors), (0, ""), output)
        self.assertEqual(output.count("weight "), 8)
        return output

    def test_what_one_has_reserved_is_not_there_for_the_other(self):
        self.set_cap(CAP)
        first, said = self.start()
        self.assertEqual(said, "holds\n")
        self.assertGreaterEqual(self.reserved()[first.pid], NEEDED)
        second, said = self.start()
        self.assertEqual(said, "cuMemAlloc(&address, size): CUDA_ERROR_OUT_OF_MEMORY\n")
        _, errors = second.communicate(timeout=LIMIT)
        lines = errors.splitlines()
        others = "; your other processes have reserved 16 MiB of the 24 MiB that all share)"
        self.assertEqual([line.split(":")[1].split(" at ")[0] for line in lines],
                         [" the host store is full", " out of host memory"], errors)
        for line in lines:
            self.assertIn(others, line)
        self.assertTrue(lines[1].endswith("; an allocation of 2097152 bytes fails"), errors)
        self.finish(first)
        third, said = self.start()
        self.assertEqual(said, "holds\n", "the first has given back what it had")
        self.finish(third)
        self.assertEqual(self.reserved(), {os.getpid(): 0})

    def test_both_run_where_there_is_room_for_both(self):
        self.set_cap(2 * CAP)
        first, _ = self.start()
        second, said = self.start()
        self.assertEqual(said, "holds\n")
        self.assertEqual(self.finish(first), self.finish(second))

    def test_a_killed_process_leaves_nothing_that_counts(self):
        self.set_cap(CAP)
        first, _ = self.start()
        first.send_signal(signal.SIGKILL)
        first.wait()
        second, said = self.start()
        self.assertEqual(said, "holds\n")
        self.finish(second)

    @unittest.skipIf(os.environ.get("SUPERPIPE_SANITIZER"), "a sanitizer's library cannot be preloaded into other programs")
    def test_a_process_that_becomes_another_program_has_nothing(self):
        self.set_cap(CAP)
        first, said = self.start("hold_and_exec")
        self.assertEqual(said, "execs\n")
        first.stdin.write("runs\n")
        first.stdin.flush()
        self.assertEqual(first.stdout.readline(), "runs\n")
        second, said = self.start()
        self.assertEqual(said, "holds\n")
        self.finish(second)

    def test_the_last_process_removes_the_ledger(self):
        first, said = self.start()
        self.assertEqual(said, "holds\n")
        self.assertEqual(self.ledger.stat().st_mode & 0o777, 0o600)
        self.finish(first)
        self.assertFalse(self.ledger.exists())

    def test_where_nothing_can_move_there_is_no_ledger(self):
        first, said = self.start(SUPERPIPE_POLICY="resident")
        self.assertEqual(said, "holds\n")
        self.assertFalse(self.ledger.exists())
        self.finish(first)

    def test_what_the_host_has_meanwhile_is_there(self):
        for ledger in ("shared", "none"):
            at_first = self.available(4 * MIB, "MEMINFO_AT_FIRST")
            first, said = self.start(SUPERPIPE_HOST_LEDGER=ledger, **at_first)
            self.assertEqual(said, "holds\n")
            self.finish(first)
            first, said = self.start(SUPERPIPE_HOST_LEDGER=ledger, **self.available(4 * MIB))
            self.assertEqual(said, "cuMemAlloc(&address, size): CUDA_ERROR_OUT_OF_MEMORY\n")
            self.available(18 * MIB)

    def test_a_second_one_has_what_the_host_has_meanwhile(self):
        self.set_cap(CAP)
        first, _ = self.start()
        self.available(36 * MIB)
        second, said = self.start()
        self.assertEqual(said, "holds\n", "the first counts as if it had pinned nothing")
        self.finish(first)
        self.finish(second)

    def test_without_a_ledger_each_has_its_own_cap(self):
        self.set_cap(CAP)
        first, _ = self.start()
        second, said = self.start(SUPERPIPE_HOST_LEDGER="none")
        self.assertEqual(said, "holds\n")
        self.finish(first)
        self.finish(second)

    def test_a_ledger_that_cannot_be_used_is_said_in_one_line(self):
        self.ledger.write_text("something else")
        self.ledger.chmod(0o600)
        first, said = self.start()
        self.assertEqual(said, "holds\n")
        _, errors = first.communicate(timeout=LIMIT)
        self.assertRegex(errors,
                         r"\Asuperpipe: host memory is not shared .* may take all that is available: "
                         rf"{self.ledger}: it is no ledger of superpipe's; "
                         r"remove it once no program uses it\n\Z")
        self.assertEqual(self.ledger.read_text(), "something else")


if __name__ == "__main__":
    unittest.main()
