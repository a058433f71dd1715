"""What a test gives to the programs that it starts: nothing of the machine's, and a folder in which
they find only each other.

ctest starts each test with folders of its own in TMPDIR and SUPERPIPE_SHARED_FOLDER. A test that is
started by hand makes the second one here. No test decides anything by a clock: it waits until
something has happened, and LIMIT ends what hangs.
"""

import atexit
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from collections.abc import Callable
from pathlib import Path

LIMIT = 300  # seconds

if "SUPERPIPE_SHARED_FOLDER" not in os.environ:
    os.environ["SUPERPIPE_SHARED_FOLDER"] = tempfile.mkdtemp(prefix="superpipe-shared-")
    atexit.register(shutil.rmtree, os.environ["SUPERPIPE_SHARED_FOLDER"], ignore_errors=True)
SHARED_FOLDER = Path(os.environ["SUPERPIPE_SHARED_FOLDER"])

# A shell has what it starts in the background ignore some of these, and programs leave it at that.
for _number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number, signal.SIG_DFL)


def clean_environment(*prefixes: str) -> dict[str, str]:
    """The environment without the settings of superpipe and simgpu, and without what begins with
    one of `prefixes`."""
    dropped = ("SUPERPIPE_", "SIMGPU_", *prefixes)
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(dropped)}
    return {**environment, "SUPERPIPE_SHARED_FOLDER": str(SHARED_FOLDER)}


def own_processes() -> str:
    """What the names of files in a shared folder say of this machine's start and pid namespace
    (profiler/process_identity.h)."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    return f"{boot.read_text()[:8] if boot.exists() else 0}-{os.stat('/proc/self/ns/pid').st_ino}"


def segment_of(pid: int, folder: Path = SHARED_FOLDER) -> Path:
    """The file in which a process shows what it does (profiler/live_layout.h)."""
    return folder / f"superpipe-{os.geteuid()}-{own_processes()}-{pid}"


def unprivileged() -> list[str]:
    """What to put before a command for which closed files are closed. They are not for root, unless
    it gives up its capabilities."""
    words = ["setpriv", "--bounding-set=-all", "--inh-caps=-all",
             "--ambient-caps=-all"] if os.geteuid() == 0 else []
    with tempfile.NamedTemporaryFile() as closed:
        os.fchmod(closed.fileno(), 0)
        asked = subprocess.run([*words, "sh", "-c", '! cat "$0"', closed.name], capture_output=True,
                               timeout=LIMIT)
    if asked.returncode != 0:
        raise unittest.SkipTest("who runs this may open closed files, and cannot give that up")
    return words


def wait_until(has_happened: Callable[[], object], what: str | Callable[[], str],
               rest: float = 0.02) -> None:
    """Returns when `has_happened()`. `what` has not, where that takes longer than LIMIT; looks
    every `rest` seconds."""
    deadline = time.monotonic() + LIMIT
    while not has_happened():
        if time.monotonic() > deadline:
            words = what if isinstance(what, str) else what()
            raise AssertionError(f"not within {LIMIT} s: {words}")
        time.sleep(rest)
