"""What the dynamic loader opens under libsimgpu_loader.so, by which name and path a program asks;
what the small libraries answer that it opens, NVML and CUPTI; and which files of a GPU are there
under libsimgpu_devices.so."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from hermetic import LIMIT, clean_environment  # noqa: E402  (found through the path above)

SIMGPU = Path(os.environ["SUPERPIPE_BUILD_DIR"]) / "lib" / "superpipe" / "simgpu"
# The file that a library was opened from, or why it was not.
OPENED = """
import ctypes, sys
try:
    ctypes.CDLL(sys.argv[1])
except OSError as error:
    print("no", error)
for line in open("/proc/self/maps"):
    path = line.split()[-1]
    if path.rpartition("/")[2].startswith(sys.argv[1].rpartition("/")[2].partition(".so")[0] + "."):
        print(path)
        break
"""


def opened(name: object, loader: Path = SIMGPU / "libsimgpu_loader.so") -> str:
    """Where a program that opens `name` finds it, without a library path."""
    environment = {**clean_environment("LD_"), "LD_AUDIT": str(loader)}
    found = subprocess.run([sys.executable, "-c", OPENED, str(name)], env=environment, text=True,
                           capture_output=True, check=True, timeout=LIMIT)
    return found.stdout.strip() + found.stderr


class LoaderTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="simgpu-loader-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name).resolve()

    def test_a_library_is_found_by_its_name(self) -> None:
        for name in ("libcudart.so.13", "libcublas.so.13", "libcublasLt.so.13",
                     "libcufft.so.12", "libcufft.so.11", "libcusolver.so.12", "libcusolver.so.11",
                     "libcusparse.so.12", "libnvidia-ml.so.1", "libcupti.so.13"):
            self.assertEqual(opened(name), str(SIMGPU / name))

    def test_more_digits_of_a_version_do_not_matter(self) -> None:
        self.assertEqual(opened("libcublas.so.13.1.0.3"), str(SIMGPU / "libcublas.so.13"))

    def test_a_name_without_a_version_is_the_newest(self) -> None:
        for name in ("libcublas.so", "libcudart.so"):
            self.assertEqual(Path(opened(name)).resolve(), SIMGPU / f"{name}.13")
            self.assertEqual(Path(opened(self.folder / name)).resolve(), SIMGPU / f"{name}.13")

    def test_a_path_to_another_file_does_not_matter(self) -> None:
        theirs = self.folder / "libcublasLt.so.13"
        theirs.write_text("no library")
        self.assertEqual(opened(theirs), str(SIMGPU / "libcublasLt.so.13"))

    def test_what_simgpu_has_no_library_for_is_what_it_was(self) -> None:
        for name in ("libcublas.so.130", "libcublas.so.99", "libcubl.so", "libnothing.so.13"):
            self.assertNotIn(str(SIMGPU), opened(name))
        libm = next(line.split()[2] for line in subprocess.run(
            ["ldd", sys.executable], capture_output=True, text=True, check=True).stdout.splitlines()
            if line.split()[0] == "libm.so.6")
        self.assertEqual(Path(opened("libm.so.6")).resolve(), Path(libm).resolve())

    def test_the_driver_is_left_to_what_stands_in_front_of_it(self) -> None:
        theirs = shutil.copy(SIMGPU / "libcuda.so.1", self.folder)
        self.assertEqual(opened(theirs), theirs)
        self.assertNotIn(str(SIMGPU), opened("libcuda.so.1"))

    def test_what_a_package_asks_for_is_found_in_nvidias_packages_beside_it(self) -> None:
        import _ctypes
        packages = self.folder / "site-packages"
        wheel = packages / "nvidia" / "thing" / "lib"
        wheel.mkdir(parents=True)
        shutil.copy(SIMGPU / "libsimgpu_devices.so", wheel / "libcuthing.so.7")
        shutil.copy(SIMGPU / "libsimgpu_devices.so", wheel / "libother.so.7")
        self.assertTrue(opened("libcuthing.so.7").startswith("no "), "Python's own asks")
        # The module by which ctypes opens libraries, as one of the packages.
        shutil.copy(_ctypes.__file__, packages)
        os.environ["PYTHONPATH"] = str(packages)
        self.addCleanup(os.environ.pop, "PYTHONPATH")
        self.assertEqual(opened("libcuthing.so.7"), str(wheel / "libcuthing.so.7"))
        self.assertTrue(opened("libcuthing.so.8").startswith("no "))
        other = packages / "nvidia" / "cu13" / "lib"
        other.mkdir(parents=True)
        shutil.copy(SIMGPU / "libsimgpu_devices.so", other / "libcuthing.so.7")
        self.assertTrue(opened("libcuthing.so.7").startswith("no "), "which of the two is not known")
        self.assertTrue(opened("libother.so.7").startswith("no "), "no library of NVIDIA's")
        self.assertEqual(opened("libcublas.so.13"), str(SIMGPU / "libcublas.so.13"))

    def test_it_looks_in_its_own_folder(self) -> None:
        loader = shutil.copy(SIMGPU / "libsimgpu_loader.so", self.folder)
        self.assertNotIn(str(SIMGPU), opened("libcublas.so.13", Path(loader)))
        shutil.copy(SIMGPU / "libcublas.so.13", self.folder)
        self.assertEqual(opened("libcublas.so.13", Path(loader)), str(self.folder / "libcublas.so.13"))


# What programs begin with that ask NVML: sys.argv[1] is simgpu's driver.
NVML = """
import ctypes, json, sys
nvml = ctypes.CDLL("libnvidia-ml.so.1")

class Memory(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]

class NewMemory(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint)] + [
        (name, ctypes.c_ulonglong) for name in ("total", "reserved", "free", "used")]

class Pci(ctypes.Structure):
    _fields_ = [("old_bus_id", ctypes.c_char * 16), ("domain", ctypes.c_uint),
                ("bus", ctypes.c_uint), ("device", ctypes.c_uint), ("device_id", ctypes.c_uint),
                ("subsystem_id", ctypes.c_uint), ("bus_id", ctypes.c_char * 32)]

def done(status):
    assert status == 0, status

def device(index):
    handle = ctypes.c_void_p()
    done(nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)))
    return handle

def number(function, *given):
    value = ctypes.c_int(-1)
    done(function(*given, ctypes.byref(value)))
    return value.value

def text(function, *given):
    value = ctypes.create_string_buffer(96)
    done(function(*given, value, 96))
    return value.value.decode()

def memory(index, new=False):
    value = NewMemory(version=0x2000028) if new else Memory()
    ask = nvml.nvmlDeviceGetMemoryInfo_v2 if new else nvml.nvmlDeviceGetMemoryInfo
    done(ask(device(index), ctypes.byref(value)))
    return {name: getattr(value, name) for name, _ in value._fields_}

def pci(index):
    value = Pci()
    done(nvml.nvmlDeviceGetPciInfo_v3(device(index), ctypes.byref(value)))
    return value

def found(function, name):
    # The number of the device of that name, or minus the status.
    handle = ctypes.c_void_p()
    status = function(name.encode(), ctypes.byref(handle))
    return -status if status else number(nvml.nvmlDeviceGetIndex, handle)
"""


class SmallLibraryTest(unittest.TestCase):
    def told(self, program: str, **settings: str) -> object:
        """What `program` prints, as JSON."""
        ended = self.run_program(program, **settings)
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))
        return json.loads(ended.stdout)

    def run_program(self, program: str, **settings: str) -> subprocess.CompletedProcess[str]:
        environment = {**clean_environment("LD_"), **settings,
                       "LD_AUDIT": str(SIMGPU / "libsimgpu_loader.so")}
        return subprocess.run([sys.executable, "-c", program, str(SIMGPU / "libcuda.so.1")],
                              env=environment, text=True, capture_output=True, timeout=LIMIT)


class NvmlTest(SmallLibraryTest):
    def test_there_are_as_many_devices_as_the_setting_says(self) -> None:
        count = NVML + """
done(nvml.nvmlInit_v2())
print(json.dumps([number(nvml.nvmlDeviceGetCount_v2), number(nvml.nvmlDeviceGetCount)] + [
    nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(ctypes.c_void_p()))
    for index in (0, 1, 2, 63, 64, 0xffffffff)]))
"""
        self.assertEqual(self.told(count), [1, 1, 0, 2, 2, 2, 2, 2])
        self.assertEqual(self.told(count, SIMGPU_DEVICES="2"), [2, 2, 0, 0, 2, 2, 2, 2])
        self.assertEqual(self.told(count, SIMGPU_DEVICES="64"), [64, 64, 0, 0, 0, 0, 2, 2])

    def test_a_device_is_the_drivers_and_found_by_each_of_its_names(self) -> None:
        devices = self.told(NVML + """
done(nvml.nvmlInit_v2())
driver = ctypes.CDLL(sys.argv[1])
done(driver.cuInit(0))
told = []
for index in range(number(nvml.nvmlDeviceGetCount_v2)):
    uuid = ctypes.create_string_buffer(16)
    done(driver.cuDeviceGetUuid(uuid, index))
    bus_id = ctypes.create_string_buffer(32)
    done(driver.cuDeviceGetPCIBusId(bus_id, 32, index))
    name = ctypes.create_string_buffer(96)
    done(driver.cuDeviceGetName(name, 96, index))
    info = pci(index)
    told.append({
        "names": [text(nvml.nvmlDeviceGetName, device(index)), name.value.decode()],
        "uuid": text(nvml.nvmlDeviceGetUUID, device(index)),
        "driver_uuid": uuid.raw.hex(),
        "bus_ids": [info.bus_id.decode(), info.old_bus_id.decode()],
        "driver_bus_id": bus_id.value.decode(),
        "bus": info.bus,
        "numbers": [number(nvml.nvmlDeviceGetIndex, device(index)),
                    number(nvml.nvmlDeviceGetMinorNumber, device(index)),
                    found(nvml.nvmlDeviceGetHandleByUUID,
                          text(nvml.nvmlDeviceGetUUID, device(index))),
                    found(nvml.nvmlDeviceGetHandleByPciBusId_v2, info.bus_id.decode()),
                    found(nvml.nvmlDeviceGetHandleByPciBusId_v2, info.old_bus_id.decode()),
                    found(nvml.nvmlDeviceGetHandleByPciBusId, bus_id.value.decode())],
    })
print(json.dumps(told))
""", SIMGPU_DEVICES="17")
        self.assertEqual(len(devices), 17)
        for index, told in enumerate(devices):
            self.assertEqual(told["numbers"], [index] * 6)
            self.assertEqual(told["uuid"], f"GPU-{uuid.UUID(hex=told['driver_uuid'])}")
            self.assertEqual(told["bus_ids"],
                             ["0000" + told["driver_bus_id"], told["driver_bus_id"]])
            self.assertEqual(told["bus"], int(told["driver_bus_id"].split(":")[1], 16))
            self.assertEqual(told["names"][0], told["names"][1])
        for name in ("uuid", "driver_bus_id"):
            self.assertEqual(len({told[name] for told in devices}), 17)

    def test_a_name_of_no_device_is_not_found(self) -> None:
        self.assertEqual(self.told(NVML + """
done(nvml.nvmlInit_v2())
print(json.dumps([
    found(nvml.nvmlDeviceGetHandleByUUID, "GPU-00000000-0000-0000-0000-000000000000"),
    found(nvml.nvmlDeviceGetHandleByPciBusId_v2, "0000:03:00.0"),
    found(nvml.nvmlDeviceGetHandleByPciBusId_v2, "0000:02:00.0"),
    found(nvml.nvmlDeviceGetHandleByPciBusId_v2, "")]))
""", SIMGPU_DEVICES="2"), [-6, -6, 1, -6])

    def test_what_it_says_of_itself_fits_the_driver(self) -> None:
        cuda, drivers, capability, drivers_capability = self.told(NVML + """
done(nvml.nvmlInit_v2())
driver = ctypes.CDLL(sys.argv[1])
done(driver.cuInit(0))
major, minor = ctypes.c_int(), ctypes.c_int()
done(nvml.nvmlDeviceGetCudaComputeCapability(device(0), ctypes.byref(major), ctypes.byref(minor)))
def attribute(name):
    value = ctypes.c_int()
    done(driver.cuDeviceGetAttribute(ctypes.byref(value), name, 0))
    return value.value
print(json.dumps([number(nvml.nvmlSystemGetCudaDriverVersion_v2),
                  number(driver.cuDriverGetVersion), [major.value, minor.value],
                  [attribute(75), attribute(76)]]))
""")
        self.assertEqual(cuda, drivers)
        self.assertEqual(capability, drivers_capability)

    def test_a_text_needs_its_room_and_every_answer_a_place(self) -> None:
        self.assertEqual(self.told(NVML + """
done(nvml.nvmlInit_v2())
name = text(nvml.nvmlDeviceGetName, device(0))
room = ctypes.create_string_buffer(b"-" * 90)
statuses = [nvml.nvmlDeviceGetName(device(0), room, len(name)), room.value == b"-" * 90,
            nvml.nvmlDeviceGetName(device(0), room, len(name) + 1), room.value == name.encode(),
            nvml.nvmlDeviceGetName(device(0), None, 96), nvml.nvmlDeviceGetName(None, room, 90),
            nvml.nvmlDeviceGetCount_v2(None), nvml.nvmlDeviceGetMemoryInfo(device(0), None),
            nvml.nvmlDeviceGetMemoryInfo(None, ctypes.byref(Memory())),
            nvml.nvmlDeviceGetHandleByIndex_v2(0, None)]
print(json.dumps(statuses))
"""), [7, True, 0, True, 2, 2, 2, 2, 2, 2])

    def test_memory_is_what_the_driver_has_in_use_in_this_process(self) -> None:
        told = self.told(NVML + """
done(nvml.nvmlInit_v2())
seen = {"before": [memory(0), memory(0, new=True)]}
driver = ctypes.CDLL(sys.argv[1])
seen["open"] = memory(0)
done(driver.cuInit(0))
seen["begun"] = memory(0)
context, address = ctypes.c_void_p(), ctypes.c_ulonglong()
done(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
done(driver.cuCtxSetCurrent(context))
seen["context"] = memory(0)
done(driver.cuMemAlloc_v2(ctypes.byref(address), 64 << 20))
seen["allocation"] = memory(0)
seen["new"] = memory(0, new=True)
free, total = ctypes.c_size_t(), ctypes.c_size_t()
done(driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)))
seen["driver"] = {"total": total.value, "free": free.value, "used": total.value - free.value}
seen["other"] = memory(1)
done(driver.cuMemFree_v2(address))
seen["freed"] = memory(0)
print(json.dumps(seen))
""", SIMGPU_DEVICES="2", SIMGPU_MEMORY="512M")
        none = {"total": 512 << 20, "free": 512 << 20, "used": 0}
        old, new = told["before"]
        self.assertEqual(old, none)
        self.assertEqual({name: new[name] for name in none}, none)
        self.assertEqual(new["reserved"], 0)
        self.assertEqual(told["open"], none)
        self.assertEqual(told["begun"], none)
        self.assertGreater(told["context"]["used"], 0)
        self.assertEqual(told["allocation"]["used"], told["context"]["used"] + (64 << 20))
        self.assertEqual(told["allocation"], told["driver"])
        self.assertEqual({name: told["new"][name] for name in none}, told["driver"])
        self.assertEqual(told["freed"], told["context"])
        self.assertEqual(told["other"], none)

    def test_memory_of_others_is_in_use_before_the_driver_and_with_it(self) -> None:
        before, opened_only, begun = self.told(NVML + """
done(nvml.nvmlInit_v2())
seen = [memory(0)["used"]]
driver = ctypes.CDLL(sys.argv[1])
seen.append(memory(0)["used"])
done(driver.cuInit(0))
seen.append(memory(0)["used"])
print(json.dumps(seen))
""", SIMGPU_OTHER_BYTES="48M")
        self.assertEqual(before, 48 << 20)
        self.assertEqual(begun, 48 << 20)
        self.assertEqual(opened_only, 48 << 20)

    def test_it_does_not_begin_the_driver(self) -> None:
        self.assertEqual(self.told(NVML + """
driver = ctypes.CDLL(sys.argv[1])
done(nvml.nvmlInit_v2())
done(nvml.nvmlInitWithFlags(0))
number(nvml.nvmlDeviceGetCount_v2)
text(nvml.nvmlDeviceGetName, device(0))
text(nvml.nvmlDeviceGetUUID, device(0))
pci(0)
memory(0)
memory(0, new=True)
done(nvml.nvmlShutdown())
print(driver.cuDeviceGetCount(ctypes.byref(ctypes.c_int())))
"""), 3)

    def test_it_does_not_open_the_driver(self) -> None:
        self.assertEqual(self.told(NVML + """
done(nvml.nvmlInit_v2())
memory(0)
print(json.dumps(["libcuda.so" in line for line in open("/proc/self/maps")].count(True)))
"""), 0)

    def test_a_malformed_setting_is_said_once_and_refused(self) -> None:
        ended = self.run_program(NVML + """
print(json.dumps([nvml.nvmlInit_v2(), nvml.nvmlInit(), nvml.nvmlInitWithFlags(0),
                  nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(ctypes.c_void_p()))]))
""", SIMGPU_MEMORY="plenty")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertNotIn(0, json.loads(ended.stdout))
        self.assertEqual(len(ended.stderr.splitlines()), 1, ended.stderr)
        self.assertIn("SIMGPU_MEMORY=plenty is not valid", ended.stderr)

    def test_a_function_without_an_answer_says_so_once(self) -> None:
        ended = self.run_program(NVML + """
done(nvml.nvmlInit_v2())
nvml.nvmlErrorString.restype = ctypes.c_char_p
power = ctypes.c_uint(7)
print(json.dumps([nvml.nvmlDeviceGetPowerUsage(device(0), ctypes.byref(power)),
                  nvml.nvmlDeviceGetPowerUsage(device(0), ctypes.byref(power)), power.value,
                  nvml.nvmlErrorString(3).decode()]))
""")
        self.assertEqual(json.loads(ended.stdout), [3, 3, 7, "Not Supported"])
        self.assertEqual(ended.stderr, "simgpu: nvmlDeviceGetPowerUsage is not supported by "
                                       "simgpu's NVML\n")


class CuptiTest(SmallLibraryTest):
    def test_it_tells_its_version_and_names_of_results(self) -> None:
        self.assertEqual(self.told("""
import ctypes, json
cupti = ctypes.CDLL("libcupti.so.13")
version = ctypes.c_uint()
told = [cupti.cuptiGetVersion(ctypes.byref(version)), version.value]
for result in (0, 27, 12345):
    text = ctypes.c_char_p()
    told += [cupti.cuptiGetResultString(result, ctypes.byref(text)), text.value.decode()]
print(json.dumps(told + [cupti.cuptiGetVersion(None), cupti.cuptiGetResultString(0, None)]))
"""), [0, 130500, 0, "CUPTI_SUCCESS", 0, "CUPTI_ERROR_NOT_SUPPORTED", 0,
       "an error that simgpu's CUPTI does not have", 1, 1])

    def test_a_function_that_is_not_there_is_refused_and_says_so_once(self) -> None:
        ended = self.run_program("""
import ctypes
cupti = ctypes.CDLL("libcupti.so.13")
print(cupti.cuptiActivityEnable(10), cupti.cuptiActivityEnable(3))
""")
        self.assertEqual(ended.stdout, "27 27\n")
        self.assertEqual(ended.stderr, "simgpu: cuptiActivityEnable is not supported by simgpu's "
                                       "CUPTI\n")


# What os and the C library's functions say of each path in sys.argv: a machine with a GPU has such
# files of its own.
LOOKS = """
import ctypes, json, os, sys

def number(look):
    try:
        return look().st_rdev
    except OSError as error:
        return error.strerror

library = ctypes.CDLL(None, use_errno=True)

def called(name, *given):
    function = getattr(library, name, None)  # some are not in every C library
    if function is None:
        return "none"
    ctypes.set_errno(0)
    return [function(*given), ctypes.get_errno()]

def looks(path):
    words, room, here = path.encode(), ctypes.create_string_buffer(512), -100
    return {
        "exists": os.path.exists(path),
        "lexists": os.path.lexists(path),
        "stat": number(lambda: os.stat(path)),
        "lstat": number(lambda: os.lstat(path)),
        "access": [os.access(path, mode) for mode in (os.F_OK, os.R_OK, os.X_OK)],
        "effective": os.access(path, os.R_OK, effective_ids=True),
        "functions": [called(name, words, room) for name in ("stat", "stat64", "lstat", "lstat64")]
            + [called(name, here, words, room, 0) for name in ("fstatat", "fstatat64")]
            + [called(name, 1, words, room) for name in ("__xstat", "__xstat64")]
            + [called("statx", here, words, 0, 0x7ff, room), called("access", words, 4),
               called("faccessat", here, words, 4, 0)],
    }

print(json.dumps([looks(path) for path in sys.argv[1:]]))
"""


class CudaTwelveTest(SmallLibraryTest):
    """What programs of CUDA 12 open, where its names or structures are other ones than today."""

    def test_libraries_have_the_version_of_their_name(self) -> None:
        told = self.run_program("""
import ctypes
version = ctypes.c_int()
for library, function in (("libcudart.so.12", "cudaRuntimeGetVersion"),):
    assert getattr(ctypes.CDLL(library), function)(ctypes.byref(version)) == 0
    print(version.value)
ctypes.CDLL("libcublas.so.12").cublasGetVersion_v2(None, ctypes.byref(version))
print(version.value)
lt = ctypes.CDLL("libcublasLt.so.12").cublasLtGetVersion
lt.restype = ctypes.c_size_t
print(lt())
cupti = ctypes.c_uint32()
assert ctypes.CDLL("libcupti.so.12").cuptiGetVersion(ctypes.byref(cupti)) == 0
print(cupti.value)
for library, function in (("libcufft.so.11", "cufftGetVersion"),
                          ("libcusolver.so.11", "cusolverGetVersion")):
    assert getattr(ctypes.CDLL(library), function)(ctypes.byref(version)) == 0
    print(version.value)
""")
        runtime, blas, lt, cupti, fft, solver = map(int, told.stdout.split())
        self.assertEqual((runtime // 1000, blas // 10000, lt // 10000, cupti), (12, 12, 12, 28))
        self.assertEqual((fft // 1000, solver // 1000), (11, 11))

    def test_device_properties_have_their_layout_of_then(self) -> None:
        told = self.run_program("""
import ctypes, struct
runtime = ctypes.CDLL("libcudart.so.12")
driver = ctypes.CDLL("libcuda.so.1")
room = ctypes.create_string_buffer(1032 + 64)
room[1032:] = b"x" * 64
assert runtime.cudaGetDeviceProperties_v2(room, 0) == 0
print(room.raw[:256].rstrip(b"\\0").decode())
print(*struct.unpack_from("Q", room, 288), *struct.unpack_from("ii", room, 360))
print(room.raw[1032:] == b"x" * 64, runtime.cudaGetDeviceProperties_v2(room, 5) != 0)
""", SIMGPU_MEMORY="96M", LD_LIBRARY_PATH=str(SIMGPU))
        self.assertEqual(told.stdout.splitlines(),
                         ["simgpu H200", f"{96 << 20} 9 0", "True True"], told.stderr)

    def test_attributes_of_pointers_have_their_layout_of_then(self) -> None:
        told = self.run_program("""
import ctypes, struct
runtime = ctypes.CDLL("libcudart.so.12")
driver = ctypes.CDLL("libcuda.so.1")
memory = ctypes.c_void_p()
assert runtime.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(1024)) == 0
room = ctypes.create_string_buffer(b"x" * 96, 96)
assert runtime.cudaPointerGetAttributes(room, memory) == 0
print(*struct.unpack_from("ii", room, 0), struct.unpack_from("Q", room, 8)[0] == memory.value)
print(room.raw[24:] == b"x" * 72)
""", LD_LIBRARY_PATH=str(SIMGPU))
        self.assertEqual(told.stdout.splitlines(), ["2 0 True", "True"], told.stderr)

    def test_calls_without_the_data_of_edges_are_those_with_none(self) -> None:
        told = self.run_program("""
import ctypes
runtime = ctypes.CDLL("libcudart.so.12")
driver = ctypes.CDLL("libcuda.so.1")
stream, graph, node, taken = (ctypes.c_void_p() for _ in range(4))
assert runtime.cudaStreamCreate(ctypes.byref(stream)) == 0
assert runtime.cudaStreamBeginCapture(stream, 0) == 0
status, id, count = ctypes.c_int(), ctypes.c_ulonglong(), ctypes.c_size_t(9)
print(runtime.cudaStreamGetCaptureInfo_v2(stream, ctypes.byref(status), ctypes.byref(id),
                                          ctypes.byref(graph), ctypes.byref(taken),
                                          ctypes.byref(count)), status.value, count.value)
assert runtime.cudaGraphAddEmptyNode(ctypes.byref(node), graph, None, ctypes.c_size_t(0)) == 0
print(runtime.cudaStreamUpdateCaptureDependencies(stream, ctypes.byref(node), ctypes.c_size_t(1), 1))
runtime.cudaStreamGetCaptureInfo_v2(stream, ctypes.byref(status), None, None, ctypes.byref(taken),
                                    ctypes.byref(count))
print(count.value)
""", LD_LIBRARY_PATH=str(SIMGPU))
        self.assertEqual(told.stdout.splitlines(), ["0 1 0", "0", "1"], told.stderr)

    def test_names_whose_meaning_has_changed_are_not_supported(self) -> None:
        told = self.run_program("""
import ctypes
runtime = ctypes.CDLL("libcudart.so.12")
for name in ("cudaMemAdvise", "cudaMemPrefetchAsync", "cudaGraphGetEdges",
             "cudaSignalExternalSemaphoresAsync", "cudaGetDeviceProperties"):
    print(getattr(runtime, name)())
""", LD_LIBRARY_PATH=str(SIMGPU))
        self.assertEqual(told.stdout.split(), ["801"] * 5, told.stderr)
        self.assertIn("cudaMemAdvise is not supported by simgpu's runtime library", told.stderr)

    def test_every_name_that_nvidias_library_exports_is_there(self) -> None:
        names = Path(os.environ["SUPERPIPE_SOURCE_DIR"],
                     "tools/simgpu/cudart/generated/cudart12_names.inc")
        wanted = set(re.findall(r"\(int, (\w+), ", names.read_text()))
        exported = subprocess.run(["nm", "-D", "--defined-only", SIMGPU / "libcudart.so.12"],
                                  capture_output=True, text=True, check=True).stdout
        found = set(re.findall(r" [TW] (\w+)@@libcudart\.so\.12$", exported, re.MULTILINE))
        self.assertGreater(len(wanted), 400)
        self.assertEqual(wanted - found, set())


class DeviceFilesTest(unittest.TestCase):
    def looks(self, *paths: str, preloaded: bool = True) -> list[dict[str, object]]:
        environment = clean_environment("LD_")
        if preloaded:
            environment["LD_PRELOAD"] = str(SIMGPU / "libsimgpu_devices.so")
        ended = subprocess.run([sys.executable, "-c", LOOKS, *paths], env=environment, text=True,
                               capture_output=True, timeout=LIMIT)
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))
        return json.loads(ended.stdout)

    def test_the_files_of_a_gpu_are_there_for_what_looks(self) -> None:
        null, *files = self.looks("/dev/null", "/dev/nvidia0", "/dev/nvidia9", "/dev/nvidiactl")
        self.assertTrue(null["exists"])
        self.assertEqual(null["stat"], os.stat("/dev/null").st_rdev)
        self.assertEqual(null["access"], [True, True, False])
        for file in files:
            self.assertEqual(file, null)

    def test_other_files_are_what_they_were(self) -> None:
        others = ("/dev/nvidia-uvm", "/dev/nvidia10", "/dev/nvidia", "/dev/nvidiactl0",
                  "/dev/nvidia0/file", "/dev/nvidia:", "/dev/nvidia/", "/tmp/dev/nvidia0",
                  "nvidia0", "/dev/zero", "/", "")
        self.assertEqual(self.looks(*others), self.looks(*others, preloaded=False))


if __name__ == "__main__":
    unittest.main()
