#!/usr/bin/env python3
"""Checks which module includes which.

    policy <- settings <- profiler <- residency <- interposer      tools may use the first four

residency/ sees no settings: it is told what they say,

and, in residency/, which room sees which:

    streams <- host <- pieces <- transfer <- room <- uses      all see the files of FOR_ALL_ROOMS

NVIDIA's headers are seen by interposer/, tools/simgpu/, tools/superpipe/probes/, tests/, examples/ and bench/ only, and
policy/ and settings/ use nothing but the standard library, without its clocks and threads.
Prints one line a violation; exit code 1 if there is one.
"""

import argparse
import re
import sys
from pathlib import Path

ORDER = ["policy", "settings", "profiler", "residency", "interposer"]
# The folders without clock, thread and file.
PURE = {"policy", "settings"}
ROOMS = ["streams", "host", "pieces", "transfer", "room", "uses"]
# What lies in residency/ itself and is no room's: the device, the mutex, what parts share.
FOR_ALL_ROOMS = {
    "residency/content_digest.h",
    "residency/device_memory.h",
    "residency/generated",
    "residency/manager_mutex.h",
    "residency/manager_waits.h",
    "residency/own_thread.h",
    "residency/residency_core.h",
    "residency/residency_options.h",
    "residency/result.h",
    "residency/thread_annotations.h",
    "residency/tuning.h",
    "residency/warning_queue.h",
}
# The parts, which act on the core. What else lies in a room does not know it.
PARTS = {
    "pieces": {"page_supply", "piece_access"},
    "transfer": {"content_mover", "evictor", "host_digests", "stream_marker", "use_completion"},
    "room": {
        "admission", "eviction_queue", "left_out_buffers", "partial_admission",
        "passthrough_admission", "precleaner", "turn",
    },
    "uses": {"buffer_lifetimes", "copy_routes", "listed_buffers", "use_tracker"},
}
SOURCES = {".h", ".hh", ".hpp", ".c", ".cc", ".cpp", ".cu", ".cuh", ".inc"}
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')
NVIDIA = re.compile(
    r"^(cuda[\w]*\.h|cuda[A-Z]\w*\.h|cu(pti|blas|dnn|fft|rand|solver|sparse)\w*\.h|driver_types\.h|vector_types\.h"
    r"|device_launch_parameters\.h|cooperative_groups\.h|fatbinary\w*\.h|nv\w*\.h|(cuda|crt|nv|nvtx3|cub|thrust)/.*)$")
# The standard library by its look: one lower-case word, no folder, no extension.
STANDARD = re.compile(r"^[a-z0-9_]+$")
# A duration is a unit like bytes; only reading a clock is impure.
CLOCK = re.compile(r"\b\w+_clock\b")
# Standard, but time and concurrency are told to policy, not asked for by it.
NOT_PURE = {"ctime", "thread", "mutex", "shared_mutex", "condition_variable", "future", "atomic",
            "semaphore", "latch", "barrier", "stop_token", "iostream", "fstream", "filesystem"}

# They ask the driver itself.
PROBES = ("tools", "superpipe", "probes")


def allowed_modules(path: Path) -> set[str] | None:
    """The project folders that the file at `path` (relative to the root) may include; None: any."""
    top = path.parts[0]
    if path.parts == ("interposer", "kernel_plugin.cc"):
        # The library's kernel as simgpu runs it: what the kernel computes, and nothing of the library.
        return {"residency/content_digest.h", "residency/transfer/digest_kernel.h", "tools/simgpu/kernel_plugin.h"}
    if top == "residency" and len(path.parts) > 2 and path.parts[1] in ROOMS:
        rooms = ROOMS[: ROOMS.index(path.parts[1]) + 1]
        is_part = path.stem in PARTS.get(path.parts[1], ())
        for_all = FOR_ALL_ROOMS - (set() if is_part else {"residency/residency_core.h"})
        return {"policy", "profiler"} | for_all | {f"residency/{room}" for room in rooms}
    if top in ORDER:
        seen = set(ORDER[: ORDER.index(top) + 1])
        return seen - {"settings"} if top == "residency" else seen
    if path.parts[:2] == ("tools", "simgpu"):
        # A driver under test must not share the code that it judges.
        return {"tools/simgpu"}
    if path.parts[:3] == PROBES and path.name == "kernel_plugin.cc":
        return {"tools/superpipe/probes", "tools/simgpu/kernel_plugin.h"}
    if top == "tools":
        return {"policy", "settings", "profiler", "residency", "/".join(path.parts[:2])}
    if top == "examples":
        # Plain CUDA programs; their simgpu kernels know the plugin header and nothing else.
        return {"examples", "tools/simgpu/kernel_plugin.h"}
    return None


def folder_of(path: Path) -> str:
    """The module, with its room where both are of residency/."""
    room = path.parts[0] == "residency" and len(path.parts) > 2 and path.parts[1] in ROOMS
    return "/".join(path.parts[:2]) if room else path.parts[0]


def may_see_nvidia(path: Path) -> bool:
    return (path.parts[0] in ("interposer", "tests", "examples", "bench")
            or path.parts[:2] == ("tools", "simgpu")
            or path.parts[:3] == PROBES)


def violations_in(root: Path, path: Path) -> list[str]:
    """What is wrong with the includes of one file; `path` is relative to `root`."""
    found = []
    allowed = allowed_modules(path)
    for number, line in enumerate((root / path).read_text(encoding="utf-8").splitlines(), start=1):
        match = INCLUDE.match(line)
        if not match:
            if path.parts[0] in PURE and CLOCK.search(line.split("//")[0]):
                found.append(f"{path}:{number}: {path.parts[0]}/ is pure: times are told to it, it reads no clock")
            continue
        quoted, system = match.groups()
        name = quoted or system
        where = f"{path}:{number}: "
        if NVIDIA.match(name) and not may_see_nvidia(path):
            found.append(f"{where}{name}: NVIDIA's headers are not for {path.parent}/")
            continue
        if quoted:
            if "/" not in quoted:
                found.append(f'{where}"{quoted}": include from the project root')
            elif allowed is not None and not any(quoted == entry or quoted.startswith(entry + "/")
                                                 for entry in allowed):
                folders = f"{folder_of(path)}/ may not include {folder_of(Path(quoted))}/"
                found.append(f"{where}{quoted}: {folders}")
        elif path.parts[0] in PURE:
            if not STANDARD.match(system):
                found.append(f"{where}<{system}>: {path.parts[0]}/ uses the standard library only")
            elif system in NOT_PURE:
                found.append(f"{where}<{system}>: {path.parts[0]}/ is pure: no clock, no threads, no files")
    return found


def violations(root: Path) -> tuple[list[str], int]:
    """All violations under `root`, and how many files were read."""
    found, count = [], 0
    for top in [*ORDER, "tools", "examples"]:
        for path in sorted((root / top).rglob("*")):
            if path.suffix in SOURCES and path.is_file():
                count += 1
                found += violations_in(root, path.relative_to(root))
    return found, count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    found, count = violations(parser.parse_args().root)
    for line in found:
        print(line)
    if count == 0:
        print("no source file found: wrong --root?")
        return 1
    print(f"includes: {count} files, {len(found)} violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
