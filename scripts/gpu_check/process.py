"""Child processes with a time limit, which leave nothing running behind."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

PR_SET_PDEATHSIG = 1
MOST_DYING_S = 20  # a driver may take seconds to give back what a killed process held
_LIBC = ctypes.CDLL(None)


def die_with_parent() -> None:
    """Asks the kernel to kill this process when its parent goes: a killed check leaves nothing on the GPU."""
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def descendants(pid: int) -> list[int]:
    """All processes below `pid`, parents before children."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            fields = Path("/proc", entry, "stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(entry))
    found, waiting = [], [pid]
    while waiting:
        for child in children.get(waiting.pop(), []):
            found.append(child)
            waiting.append(child)
    return found


def signal_all(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def is_running(pid: int) -> bool:
    try:
        return Path("/proc", str(pid), "stat").read_text(errors="replace").rpartition(")")[2].split()[0] not in "ZX"
    except (OSError, IndexError):
        return False


def kill_tree(process: subprocess.Popen) -> None:
    """Kills a child and all below it, also what left its process group, and waits until they hold nothing any more."""
    found: list[int] = []
    while True:  # stopped first: what runs can fork while it is looked for
        now = [process.pid, *descendants(process.pid)]
        signal_all(now, signal.SIGSTOP)
        if now == found:
            break
        found = now
    signal_all(found, signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + MOST_DYING_S
    while any(map(is_running, found)) and time.monotonic() < deadline:
        time.sleep(0.01)


@dataclass(frozen=True)
class Finished:
    """How a child process ended."""

    command: list[str]
    returncode: int
    stdout: str
    stderr: str
    seconds: float
    timed_out: bool

    @property
    def problem(self) -> str:
        """One line on why it did not succeed; empty if it did."""
        if self.timed_out:
            return f"did not end within {self.seconds:.0f} s"
        if self.returncode == 0:
            return ""
        ending = f"exit code {self.returncode}"
        if self.returncode < 0:
            try:
                ending = f"ended by {signal.Signals(-self.returncode).name}"
            except ValueError:
                ending = f"ended by signal {-self.returncode}"
        # Quotes the last line that is not superpipe's summary: it is the likeliest to name the error.
        lines = [line.strip() for line in (self.stderr or self.stdout).splitlines() if line.strip()]
        said = [line for line in lines if not line.startswith(("superpipe: policy", "superpipe: peak", "superpipe: moved"))]
        return f"{ending}: {said[-1][:300]}" if said else ending


def run(command: list, environment: dict[str, str], limit: float, standard_input: str = "") -> Finished:
    """Runs `command` for `limit` seconds at most; what is still running then is killed with all its children."""
    words = [str(word) for word in command]
    begin = time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors, tempfile.TemporaryFile() as given:
        given.write(standard_input.encode())
        given.seek(0)
        try:
            process = subprocess.Popen(words, env=environment, stdin=given, stdout=out, stderr=errors,
                                       preexec_fn=die_with_parent)
        except OSError as error:
            return Finished(words, 127, "", f"cannot start {words[0]}: {error.strerror}", 0.0, False)
        timed_out = False
        try:
            process.wait(timeout=max(0.1, limit))
        except subprocess.TimeoutExpired:
            timed_out = True
            kill_tree(process)
        out.seek(0)
        errors.seek(0)
        return Finished(words, process.returncode, out.read().decode(errors="replace"),
                        errors.read().decode(errors="replace"), time.monotonic() - begin, timed_out)
