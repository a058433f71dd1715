"""This process under superpipe, and the environment that puts others under it."""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import subprocess

# What this process was asked for and the command shall not do.
_ASKED_FOR = ("SUPERPIPE_SUMMARY", "SUPERPIPE_STRICT", "SUPERPIPE_TRACE")


class Error(RuntimeError):
    """Superpipe could not do what it was asked for; the message says why."""


class NotActive(Error):
    """This process does not run under superpipe."""


def is_active() -> bool:
    """Whether this process runs under superpipe: its library is loaded in place of the CUDA driver,
    and manages what the process does with it.

    Loads nothing. False where superpipe is switched off (SUPERPIPE_OFF=1), refused one of its
    variables, or found a driver or a device that it cannot manage. The latter shows with the first
    CUDA context; before it, True means that superpipe is there and not switched off.
    """
    try:
        active = ctypes.CDLL(None).superpipe_is_active
    except (AttributeError, OSError):
        return False
    return active() == 1


def require_active() -> None:
    """Raises NotActive, with what is wrong, unless is_active()."""
    if not is_active():
        raise NotActive(_why_not_active())


def stats() -> dict[str, object]:
    """What `superpipe top --json` says of this process, such as pages_bytes and budget_bytes.

    Takes about a tenth of a second, and disturbs no launch. docs/top.md says what the entries are.
    Raises NotActive, and Error where there are no figures: before the first CUDA context is made.
    """
    require_active()
    text = _ask("top", str(os.getpid()), "--once", "--json", "--interval", "0.1")
    for process in json.loads(text)["processes"]:
        if process["pid"] == os.getpid():
            return process
    raise Error(f"superpipe top says nothing of process {os.getpid()}")


def set_budget(size: int | str, timeout: float = 10) -> None:
    """Gives this process another budget, and returns when its pages fit.

    `size`: bytes, or text as of `superpipe run --gpu-mem`: "4G", "40%". Raises ValueError where it
    is no size, NotActive, and Error where the budget is refused, or pages do not fit it within
    `timeout` seconds, such as those that a kernel uses.
    """
    require_active()
    _ask("budget", str(os.getpid()), _text(size), f"--timeout={timeout}")


def environment(**settings: None | bool | int | str) -> dict[str, str]:
    """The variables that put a child process under superpipe, to be added to its environment.

    Settings are the flags of `superpipe env`: environment(gpu_mem="6G", simulate=True). None and
    False leave a flag out. Raises ValueError where there is no such flag or its value is bad, and
    Error where the command or a part of superpipe is missing.
    """
    flags = []
    for name, value in settings.items():
        if value is None or value is False:
            continue
        flag = "--" + name.replace("_", "-")
        flags.append(flag if value is True else f"{flag}={_text(value)}")
    return environment_of(flags)


def environment_of(flags: list[str]) -> dict[str, str]:
    """The same by flags as `superpipe env` takes them."""
    return json.loads(_ask("env", "--format=json", *flags))


def command() -> str:
    """Where the command `superpipe` lies: beside the library that this process runs under, in this
    package, or on PATH. Raises Error where it is not."""
    library = _preloaded_library()
    folders = [os.path.dirname(os.path.abspath(__file__))]
    if library is not None:
        # It lies in lib/superpipe.
        folders.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(library))))
    for folder in folders:
        candidate = os.path.join(folder, "bin", "superpipe")
        if os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            return candidate
    found = shutil.which("superpipe")
    if found is None:
        raise Error(
            "there is no command superpipe: install superpipe's wheel into this environment, "
            "or add the bin folder of its installation to PATH"
        )
    return os.path.abspath(found)


def _text(value: int | str) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError(f"{value!r}: it takes a text or a whole number")
    return str(value)


def _preloaded_library() -> str | None:
    """The entry of LD_PRELOAD that is superpipe's library."""
    for entry in re.split("[: ]", os.environ.get("LD_PRELOAD", "")):
        if os.path.basename(entry) == "libsuperpipe.so":
            return entry
    return None


def _why_not_active() -> str:
    start = "this process does not run under superpipe: "
    library = _preloaded_library()
    if library is None:
        return start + "start it by superpipe run, or with the variables of superpipe env"
    if not os.access(library, os.R_OK):
        return start + f"LD_PRELOAD names {library}, which cannot be read"
    if os.environ.get("SUPERPIPE_OFF") == "1":
        return start + "SUPERPIPE_OFF=1 switches it off"
    return start + (
        f"{library} is in LD_PRELOAD but not in force; a line on standard error has said why, "
        "SUPERPIPE_LOG=info says more"
    )


def _ask(*words: str) -> str:
    """What `superpipe WORDS` prints."""
    dropped = _ASKED_FOR
    if words[0] != "env":  # which puts superpipe's entries in front of what these have
        dropped += ("LD_PRELOAD", "LD_AUDIT")
    environment = {name: text for name, text in os.environ.items() if name not in dropped}
    program = command()
    try:
        asked = subprocess.run(
            [program, *words],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="surrogateescape",
        )
    except OSError as error:
        raise Error(f"cannot execute {program}: {error.strerror}") from error
    if asked.returncode == 0:
        return asked.stdout
    message = asked.stderr.strip() or f"{program} ended with {asked.returncode}"
    raise (ValueError if asked.returncode == 2 else Error)(message)
