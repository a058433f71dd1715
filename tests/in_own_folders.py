"""Runs one test in folders of its own, where nothing that another one left changes what it says.

    in_own_folders.py COMMAND [ARGUMENT...]

TMPDIR and SUPERPIPE_SHARED_FOLDER are new folders, which are removed at the end. What the test
started and did not end is ended with it. The exit code is the command's; as in a shell, 128 and its
number if a signal ended it.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path


def end_group(group: int) -> None:
    """Kills what is left of the process group, if anything is."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass


def run(command: list[str]) -> int:
    """Runs the command in folders of its own. @return the exit code."""
    folder = tempfile.mkdtemp(prefix="superpipe-test-")
    try:
        temporary, shared = Path(folder) / "tmp", Path(folder) / "shared"
        temporary.mkdir()
        shared.mkdir()
        environment = {
            **os.environ,
            "TMPDIR": str(temporary),
            "SUPERPIPE_SHARED_FOLDER": str(shared),
        }
        # A signal that ends this process ends the test's own processes, too.
        numbers = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}
        signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
        test = subprocess.Popen(
            command,
            env=environment,
            start_new_session=True,
            preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers),
        )
        for number in numbers:
            signal.signal(number, lambda *_: end_group(test.pid))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
        status = test.wait()
        end_group(test.pid)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(run(sys.argv[1:]))
