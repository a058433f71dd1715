"""The machine that a check runs on: what is recorded of it, and how much device memory is in use."""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import subprocess
import threading
from pathlib import Path

# Recorded of the environment: these variables and no others. Whatever else is set may be a secret.
VARIABLES = ("CUDA_DEVICE_ORDER", "CUDA_DISABLE_PTX_JIT", "CUDA_LAUNCH_BLOCKING", "CUDA_MODULE_LOADING",
             "CUDA_VISIBLE_DEVICES", "LANG", "LC_ALL", "NVIDIA_VISIBLE_DEVICES", "PYTORCH_ALLOC_CONF",
             "PYTORCH_CUDA_ALLOC_CONF", "SUPERPIPE_CHECK_PYTHON", "SUPERPIPE_DRIVER")


def output_of(command: list[str], limit: float = 30) -> str:
    """What a command prints; empty where it is not there or fails."""
    if shutil.which(command[0]) is None:
        return ""
    try:
        return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=limit).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def first_line(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace").splitlines()[0]
    except (OSError, IndexError):
        return ""


def environment() -> dict:
    """The machine in facts, without anything secret."""
    clocks = output_of(["nvidia-smi", "--query-gpu=name,driver_version,clocks.sm,clocks.mem,clocks.max.sm,clocks.max.mem,"
                        "pcie.link.gen.current,pcie.link.width.current,temperature.gpu,power.draw", "--format=csv"])
    return {
        "uname": " ".join((platform.system(), platform.release(), platform.version(), platform.machine())),
        "python": platform.python_version(),
        "glibc": " ".join(platform.libc_ver()),
        "lscpu": output_of(["lscpu"]),
        "nvidia_smi": without_identity(output_of(["nvidia-smi", "-q"])),
        "nvidia_smi_clocks": clocks,
        "nvidia_driver": first_line("/proc/driver/nvidia/version"),
        "memory": {key: value for key, value in meminfo().items() if key in ("MemTotal", "MemAvailable", "SwapTotal")},
        "cgroup_memory_max": first_line("/sys/fs/cgroup/memory.max"),
        "lockable": limit_of("Max locked memory"),
        "variables": {name: os.environ[name] for name in VARIABLES if name in os.environ},
    }


def without_identity(text: str) -> str:
    """nvidia-smi's description without what tells one machine from another, and without other people's processes."""
    secret = ("serial", "uuid", "guid", "part number", "board id", "host id", "pdi", "minor number", "bus id", "bus  ")
    lines = text.split("\n    Processes")[0].splitlines()
    return "\n".join(line for line in lines if not any(word in line.partition(":")[0].lower() for word in secret))


def limit_of(name: str) -> str:
    try:
        for line in Path("/proc/self/limits").read_text().splitlines():
            if line.startswith(name):
                return line[len(name):].split()[0]
    except OSError:
        pass
    return ""


def meminfo() -> dict[str, int]:
    """/proc/meminfo in bytes."""
    found = {}
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            name, _, value = line.partition(":")
            found[name] = int(value.split()[0]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return found


def available_host_bytes() -> int:
    """Host memory that can still be had, by the kernel's estimate and by the cgroup; 0 where neither is known."""
    available = meminfo().get("MemAvailable", 0)
    limit = first_line("/sys/fs/cgroup/memory.max")
    if limit.isdigit():
        used = first_line("/sys/fs/cgroup/memory.current")
        left = max(0, int(limit) - int(used)) if used.isdigit() else int(limit)
        available = min(available, left) if available else left
    return available


class _NvmlMemory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class DeviceMemoryWatch:
    """The most device memory in use while a block runs, as NVIDIA's management library sees it from outside.

    `before` and `peak` are bytes, or None where there is no such library. Counts all programs on the device.
    """

    INTERVAL_S = 0.01

    def __init__(self, enabled: bool = True) -> None:
        self.before: int | None = None
        self.peak: int | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._device = ctypes.c_void_p()
        self._library = None
        if enabled:
            try:
                library = ctypes.CDLL("libnvidia-ml.so.1")
                if library.nvmlInit_v2() == 0 and library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self._device)) == 0:
                    self._library = library
            except (OSError, AttributeError):
                pass

    def _used(self) -> int | None:
        memory = _NvmlMemory()
        if self._library is None or self._library.nvmlDeviceGetMemoryInfo(self._device, ctypes.byref(memory)) != 0:
            return None
        return memory.used

    def __enter__(self) -> DeviceMemoryWatch:
        self.before = self.peak = self._used()
        if self.before is not None:
            self._thread = threading.Thread(target=self._watch, daemon=True)
            self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._stop.wait(self.INTERVAL_S):
            used = self._used()
            if used is not None and used > self.peak:
                self.peak = used

    def __exit__(self, *_: object) -> None:
        if self._thread is not None:
            self._stop.set()
            self._thread.join()

    def figures(self) -> dict:
        if self.before is None:
            return {}
        return {"driver_used_before_bytes": self.before, "driver_used_peak_bytes": self.peak,
                "driver_peak_bytes": self.peak - self.before}
