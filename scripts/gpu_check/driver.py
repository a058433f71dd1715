"""What the CUDA driver says of itself, asked in a child process: it may crash or hang.

    driver.py PATH       prints one JSON object
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path

import process

NEEDED_CUDA = (13, 0)  # of the driver: the checks' kernels and the runtime library are CUDA 13's
NEEDED_COMPUTE = (7, 5)
VIRTUAL_MEMORY = 102  # CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
LIMIT_S = 60


@dataclass
class Driver:
    """What was found; `problem` is why it cannot be used, empty if it can."""

    path: str
    problem: str = ""
    cuda: tuple[int, int] = (0, 0)
    device: str = ""
    device_bytes: int = 0
    compute: tuple[int, int] = (0, 0)
    facts: dict = field(default_factory=dict)

    @property
    def is_simulated(self) -> bool:
        return self.device.startswith("simgpu")


def ask(path: str) -> dict:
    """Runs in the child: what the driver at `path` answers."""
    try:
        library = ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_LOCAL)
    except OSError as error:
        return {"open": str(error)}
    if not hasattr(library, "cuInit") or not hasattr(library, "cuDeviceGetAttribute"):
        return {"open": f"{path}: not a CUDA driver: it has no cuInit"}

    def name_of(code: int) -> str:
        name = ctypes.c_char_p()
        found = hasattr(library, "cuGetErrorName") and library.cuGetErrorName(code, ctypes.byref(name)) == 0
        return name.value.decode() if found and name.value else f"error {code}"

    version, count, device = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    code = library.cuInit(0)
    # Answers before cuInit too: too old a driver says so even where it refuses to start.
    library.cuDriverGetVersion(ctypes.byref(version))
    answer: dict = {"version": version.value}
    if code != 0:
        return {**answer, "init": name_of(code)}
    library.cuDeviceGetCount(ctypes.byref(count))
    answer["devices"] = count.value
    if count.value == 0 or library.cuDeviceGet(ctypes.byref(device), 0) != 0:
        return answer
    name, total = ctypes.create_string_buffer(256), ctypes.c_size_t()
    library.cuDeviceGetName(name, 255, device)
    library.cuDeviceTotalMem_v2(ctypes.byref(total), device)

    def attribute(number: int) -> int:
        value = ctypes.c_int()
        return value.value if library.cuDeviceGetAttribute(ctypes.byref(value), number, device) == 0 else 0

    return {**answer, "name": name.value.decode(errors="replace"), "total_bytes": total.value,
            "compute": [attribute(75), attribute(76)], "virtual_memory": bool(attribute(VIRTUAL_MEMORY))}


def probe(path: str, named_by: str, environment: dict[str, str]) -> Driver:
    """Asks the driver at `path`; `named_by` is the variable that names it, empty where the loader finds it."""
    driver = Driver(path)
    if "/" in path and not Path(path).exists():
        driver.problem = f"no CUDA driver: {named_by + '=' if named_by else ''}{path} does not exist"
        return driver
    finished = process.run([sys.executable, "-B", __file__, path], environment, LIMIT_S)
    if finished.timed_out:
        driver.problem = f"the CUDA driver {path} hangs: it did not start within {LIMIT_S} s"
        return driver
    try:
        facts = json.loads(finished.stdout)
    except ValueError:
        driver.problem = f"the CUDA driver {path} crashes when it starts ({finished.problem})"
        return driver
    driver.facts = facts
    driver.cuda = (facts.get("version", 0) // 1000, facts.get("version", 0) % 1000 // 10)
    driver.device = facts.get("name", "")
    driver.device_bytes = facts.get("total_bytes", 0)
    driver.compute = tuple(facts.get("compute", (0, 0)))
    driver.problem = problem_of(path, named_by, facts, driver)
    return driver


def problem_of(path: str, named_by: str, facts: dict, driver: Driver) -> str:
    if "open" in facts:
        if "not a CUDA driver" in facts["open"] or named_by:
            return f"no usable CUDA driver: {facts['open']}"
        return "no CUDA driver (libcuda.so.1) on this machine; --simulate checks a simulated GPU"
    if driver.cuda < NEEDED_CUDA:
        return (f"the driver is too old: it supports CUDA {driver.cuda[0]}.{driver.cuda[1]}, these checks need "
                f"{NEEDED_CUDA[0]}.{NEEDED_CUDA[1]} (driver 580 or newer)")
    if "init" in facts:
        return f"no GPU: the CUDA driver does not start ({facts['init']})"
    if facts.get("devices", 0) == 0 or not driver.device:
        return "no GPU: the CUDA driver has no device (is CUDA_VISIBLE_DEVICES empty?)"
    if driver.compute < NEEDED_COMPUTE:
        return (f"the GPU is too old: {driver.device} has compute capability {driver.compute[0]}.{driver.compute[1]}, "
                f"these checks need {NEEDED_COMPUTE[0]}.{NEEDED_COMPUTE[1]}")
    if not facts.get("virtual_memory"):
        return f"{driver.device} has no virtual memory management, which superpipe needs"
    return ""


if __name__ == "__main__":
    print(json.dumps(ask(sys.argv[1])))
