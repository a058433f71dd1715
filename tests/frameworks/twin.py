"""A twin on the CPU of everything that PyTorch keeps on a simulated device.

Inside `with Twin(library):` each operation of PyTorch runs on both sides: on the device, where its kernels are launched as
always and compute nothing (SIMGPU_MIXERS=off), and on the CPU, on twins of the device's storages. Around the device's
operation two kernels of twin_kernels.cc are launched: one compares its operands, as they lie in device memory, with their
twins; one puts its results' bytes there. So real values are in device memory, and whatever loses, delays or misplaces a
byte between two operations is a mismatch, or a wrong value in what the program reads back.

A twin belongs to a storage and not to a tensor: views, in-place operations and out= variants need no care of their own.
Operations whose result the host computes from device data (nonzero, boolean indices, ...) are computed by the CPU alone, and
copied into a result made on the device. Random numbers are the CPU generator's. Copies that PyTorch leaves to the driver
(to the device, from it, and within it where both sides are contiguous) get no help: their bytes are judged as they come.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

aten = torch.ops.aten

# The size of their result, or what they answer to the host, depends on the data.
BY_CPU = {aten.nonzero, aten.masked_select, aten._unique, aten._unique2, aten.unique_dim, aten.unique_consecutive, aten.bincount,
          aten.repeat_interleave, aten.equal, aten.histc, aten._linalg_check_errors, aten._assert_async}
# They tell the allocator or the driver something, and compute nothing.
DEVICE_ONLY = {aten.record_stream, aten.is_pinned, aten._pin_memory}
INDEXING = {aten.index, aten.index_put, aten.index_put_, aten._index_put_impl_, aten._unsafe_index, aten._unsafe_index_put}
# The CPU has no such operation: torch.nn.attention.sdpa_kernel(SDPBackend.MATH) does without.
FUSED_ATTENTION = {aten._scaled_dot_product_flash_attention, aten._scaled_dot_product_efficient_attention,
                   aten._scaled_dot_product_cudnn_attention, aten._flash_attention_forward, aten._efficient_attention_forward}
SWEEP_EVERY = 256  # operations; how often the twins of freed storages are dropped


class TwinError(Exception):
    """What the program does cannot be twinned."""


class Operand(ctypes.Structure):
    """TwinOperand of twin_kernels.h."""

    _fields_ = [("address", ctypes.c_uint64), ("snapshot", ctypes.c_void_p), ("offset", ctypes.c_uint64), ("size", ctypes.c_uint64),
                ("name", ctypes.c_uint64)]


class Report(ctypes.Structure):
    """TwinReport of twin_kernels.h."""

    _fields_ = [(name, ctypes.c_uint64) for name in ("launches", "compared", "bytes", "mismatches", "operation", "name", "size",
                                                     "offset", "differing")] + [("found", ctypes.c_uint8), ("expected", ctypes.c_uint8)]


class Kernels:
    """The library twin.simgpu.so, with its kernels loaded into torch's context."""

    def __init__(self, path: Path) -> None:
        self.library = ctypes.CDLL(str(path))
        self.library.twin_snapshot.restype = ctypes.c_void_p
        self.library.twin_snapshot.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        self.library.twin_release.argtypes = [ctypes.c_void_p]
        for launch in (self.library.twin_compare, self.library.twin_poke):
            launch.argtypes = [ctypes.c_void_p, ctypes.POINTER(Operand), ctypes.c_size_t, ctypes.c_uint64]
        self.check(self.library.twin_open())

    def check(self, result: int) -> None:
        if result != 0:
            raise TwinError(f"the driver refused the twin's kernels: CUresult {result}")

    def launch(self, kernel, operands: list[Operand], operation: int) -> None:
        if operands:
            stream = torch.cuda.current_stream().cuda_stream
            self.check(kernel(stream, (Operand * len(operands))(*operands), len(operands), operation))

    def report(self) -> Report:
        report = Report()
        self.library.twin_report(ctypes.byref(report))
        return report


class Storage:
    """One storage of the device: its twin, and the twin's bytes as of the last operation that wrote it."""

    def __init__(self, kernels: Kernels, storage: torch.UntypedStorage, serial: int) -> None:
        self.kernels = kernels
        self.weak = StorageWeakRef(storage)  # keeps the key, which is an address, from being used again
        # Not what the host's heap held before: that may be addresses of simgpu's copies of operands, which simgpu translates when
        # a kernel stores them, as the one does that puts these bytes on the device.
        self.twin = torch.UntypedStorage(storage.nbytes(), device="cpu").fill_(0)
        self.serial = serial  # names it to the kernels
        self.snapshot: int | None = None

    def resize(self, size: int) -> None:
        """Makes the twin `size` bytes long; what it gains is zero."""
        before = self.twin.nbytes()
        self.twin.resize_(size)
        if size > before:
            torch.empty(0, dtype=torch.uint8).set_(self.twin)[before:] = 0
        self.take_snapshot()

    def take_snapshot(self) -> None:
        self.drop_snapshot()
        if self.twin.nbytes() > 0:
            self.snapshot = self.kernels.library.twin_snapshot(self.twin.data_ptr(), self.twin.nbytes())
            if not self.snapshot:
                raise MemoryError("no memory for a snapshot of a twin")

    def drop_snapshot(self) -> None:
        if self.snapshot is not None:
            self.kernels.library.twin_release(self.snapshot)
            self.snapshot = None

    def tensor(self, like: torch.Tensor) -> torch.Tensor:
        """The twin of `like`, a tensor in this storage."""
        twin = torch.empty(0, dtype=like.dtype, device="cpu")
        twin.set_(self.twin, like.storage_offset(), like.size(), like.stride())
        if like.is_conj():
            twin = torch._conj(twin)
        return torch._neg_view(twin) if like.is_neg() else twin


def on_device(value) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == "cuda"


def extent(tensor: torch.Tensor) -> tuple[int, int]:
    """First byte within the storage, and number of bytes, that the tensor's elements span."""
    if tensor.numel() == 0:
        return 0, 0
    last = sum((size - 1) * stride for size, stride in zip(tensor.size(), tensor.stride()))
    return tensor.storage_offset() * tensor.element_size(), (last + 1) * tensor.element_size()


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether its elements fill a range of memory, so that a copy that keeps the strides is the driver's."""
    return extent(tensor)[1] == tensor.numel() * tensor.element_size()


def is_made_of_others(func) -> bool:
    """Whether `func` is nothing but other operations. Inference mode hands those over whole."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    return has(func.name(), "CompositeImplicitAutograd") and not has(func.name(), "CUDA")


def same_bytes(left: torch.Tensor, right: torch.Tensor) -> bool:
    left, right = (each.detach().resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8) for each in (left, right))
    return torch.equal(left, right)


class Twin(TorchDispatchMode):
    """The mode. Ask finish() for what it found, inside or after the `with`."""

    def __init__(self, library: Path) -> None:
        super().__init__()
        torch.cuda.init()
        torch.cuda.current_stream().synchronize()  # makes the context current
        self.kernels = Kernels(library)
        self.storages: dict[int, Storage] = {}
        self.makers: list[str] = []  # the operations that made the storages, by serial number
        self.names: list[str] = []  # of the operations, by number
        self.generators: dict[int, torch.Generator] = {}
        self.adopted: list[str] = []  # operations that met a storage of unknown origin
        self.by_cpu: set[str] = set()  # operations that only the CPU ran
        self.read_back = 0
        self.wrong_reads: list[str] = []

    # ---- Storages.

    def storage_of(self, tensor: torch.Tensor, made_by: str | None = None) -> Storage:
        """Its twin. A new one is empty if an operation has made the storage, else it gets what lies on the device."""
        storage = tensor.untyped_storage()
        known = self.storages.get(storage._cdata)
        if known is None:
            known = Storage(self.kernels, storage, len(self.makers))
            self.makers.append(made_by or "outside of the twin")
            self.storages[storage._cdata] = known
            if made_by is None and storage.nbytes() > 0:
                self.adopted.append(self.names[-1] if self.names else "the end")
                flat = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage)
                torch.empty(0, dtype=torch.uint8).set_(known.twin).copy_(flat)
                known.take_snapshot()
        elif known.twin.nbytes() != storage.nbytes():
            known.resize(storage.nbytes())
        return known

    def twin_of(self, value):
        """`value` for the CPU's side: tensors become their twins, devices the CPU, generators the CPU's."""
        if on_device(value):
            return self.storage_of(value).tensor(value)
        if isinstance(value, torch.device) and value.type == "cuda":
            return torch.device("cpu")
        if isinstance(value, torch.Generator) and value.device.type == "cuda":
            if id(value) not in self.generators:
                self.generators[id(value)] = torch.Generator().manual_seed(value.initial_seed())
            return self.generators[id(value)]
        return value

    def sweep(self) -> None:
        for key in [key for key, storage in self.storages.items() if storage.weak.expired()]:
            self.storages.pop(key).drop_snapshot()

    def compare(self, tensors: list[torch.Tensor], number: int) -> None:
        """Launches the comparison of the tensors' whole storages."""
        operands = {}
        for tensor in tensors:
            known = self.storage_of(tensor)
            if known.snapshot is not None:
                address = tensor.untyped_storage().data_ptr()
                operands[address] = Operand(address, known.snapshot, 0, known.twin.nbytes(), known.serial)
        self.kernels.launch(self.kernels.library.twin_compare, list(operands.values()), number)

    def written(self, tensors: list[torch.Tensor], number: int, poke: bool = True) -> None:
        """The twins of `tensors` have changed: what is compared from now on, and what is put on the device."""
        changed = {known.serial: known for known in map(self.storage_of, tensors)}
        new = {serial for serial, known in changed.items() if known.snapshot is None}
        for known in changed.values():
            known.take_snapshot()
        if poke:
            operands = []
            for tensor in tensors:
                known = self.storage_of(tensor)
                # What an operation has made may be larger than its result, as a mean's is.
                offset, size = (0, known.twin.nbytes()) if known.serial in new else extent(tensor)
                if size > 0:
                    operands.append(Operand(tensor.untyped_storage().data_ptr() + offset, known.snapshot, offset, size, known.serial))
            self.kernels.launch(self.kernels.library.twin_poke, operands, number)

    # ---- Operations.

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        packet = func.overloadpacket
        flat, _ = tree_flatten((args, kwargs))
        inputs = [value for value in flat if on_device(value)]
        device = kwargs.get("device")
        if not inputs and (device is None or torch.device(device).type != "cuda"):
            return func(*args, **kwargs)
        if packet in FUSED_ATTENTION:
            raise TwinError(f"{func} is fused; allow only SDPBackend.MATH")
        if packet in DEVICE_ONLY:
            return func(*args, **kwargs)
        if is_made_of_others(func):
            with self:
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        self.names.append(str(func))
        number = len(self.names) - 1
        if number % SWEEP_EVERY == 0:
            self.sweep()
        returns = func._schema.returns
        if returns and all(each.alias_info is not None and not each.alias_info.is_write for each in returns):
            return self.view(func, inputs, args, kwargs)
        if packet is aten._local_scalar_dense:
            return self.read_scalar(func, args[0], number)
        if packet is aten._to_copy and self.crosses(args[0], kwargs.get("device")):
            return self.to_copy(func, args[0], kwargs, number)
        if packet is aten.copy_ and self.crosses(args[0], args[1].device):
            return self.copy_across(func, args[0], args[1], number, *args[2:], **kwargs)
        if packet in INDEXING and any(isinstance(index, torch.Tensor) and index.dtype in (torch.bool, torch.uint8)
                                      for index in args[1]):
            with self:
                return func(args[0], self.as_numbers(args[1]), *args[2:], **kwargs)
        return self.on_both(func, inputs, args, kwargs, number)

    @staticmethod
    def crosses(tensor: torch.Tensor, device) -> bool:
        return device is not None and torch.device(device).type != tensor.device.type

    def view(self, func, inputs, args, kwargs):
        for tensor in inputs:
            self.storage_of(tensor)
        return func(*args, **kwargs)

    @staticmethod
    def as_numbers(indices):
        """Boolean indices as the positions where they are true."""
        numbers = []
        for index in indices:
            if isinstance(index, torch.Tensor) and index.dtype in (torch.bool, torch.uint8):
                numbers.extend(index.nonzero().unbind(1))
            else:
                numbers.append(index)
        return numbers

    def on_both(self, func, inputs, args, kwargs, number: int):
        self.compare(inputs, number)
        by_cpu = func.overloadpacket in BY_CPU
        twin_args, twin_kwargs = tree_map(self.twin_of, (args, kwargs))
        if "device" in twin_kwargs:
            twin_kwargs["device"] = torch.device("cpu")
        if by_cpu:
            self.by_cpu.add(func.name())
            expected = func(*twin_args, **twin_kwargs)
            result = tree_map(lambda value: torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=inputs[0].device)
                              if isinstance(value, torch.Tensor) else value, expected)
        else:
            result = func(*args, **kwargs)
            expected = func(*twin_args, **twin_kwargs)
        changed = self.arguments_written(func, args, kwargs)
        outputs, expected_outputs = tree_flatten(result)[0], tree_flatten(expected)[0]
        if len(outputs) != len(expected_outputs):
            raise TwinError(f"{func} gives {len(outputs)} results on the device, {len(expected_outputs)} on the CPU")
        known = {value.untyped_storage()._cdata for value in inputs}
        for value, wanted in zip(outputs, expected_outputs):
            if not on_device(value) or value.untyped_storage()._cdata in known:
                continue
            twin = self.storage_of(value, str(func)).tensor(value)
            if twin.size() != wanted.size() and twin.numel() != wanted.numel() or twin.dtype != wanted.dtype:
                raise TwinError(f"{func} gives {value.dtype} {tuple(value.size())} on the device, "
                                f"{wanted.dtype} {tuple(wanted.size())} on the CPU")
            twin.copy_(wanted.reshape(twin.size()))
            changed.append(value)
        self.written(changed, number, poke=not self.is_drivers_copy(func, result, args))
        return result

    @staticmethod
    def arguments_written(func, args, kwargs) -> list[torch.Tensor]:
        """Tensors of the device that `func` writes, by its schema."""
        found = []
        for index, argument in enumerate(func._schema.arguments):
            if argument.alias_info is None or not argument.alias_info.is_write:
                continue
            value = kwargs.get(argument.name) if argument.kwarg_only or index >= len(args) else args[index]
            tensors = value if isinstance(value, (list, tuple)) else [value]
            if any(isinstance(tensor, torch.Tensor) and not on_device(tensor) for tensor in tensors):
                raise TwinError(f"{func} writes a tensor of the host")
            found.extend(tensor for tensor in tensors if tensor is not None)
        return found

    @staticmethod
    def is_drivers_copy(func, result, args) -> bool:
        """Whether PyTorch leaves the whole operation to cuMemcpyDtoDAsync."""
        if func.overloadpacket not in (aten.copy_, aten.clone, aten._to_copy):
            return False
        source = args[1] if func.overloadpacket is aten.copy_ else args[0]
        return (source.dtype == result.dtype and source.size() == result.size() and result.numel() > 0
                and source.is_contiguous() and result.is_contiguous() and not source.is_conj() and not source.is_neg())

    # ---- Between host and device.

    def read_scalar(self, func, tensor: torch.Tensor, number: int):
        self.compare([tensor], number)
        value, expected = func(tensor), func(self.twin_of(tensor))
        self.judge_read(value == expected or value != value and expected != expected, number, tensor)
        return value

    def judge_read(self, same: bool, number: int, tensor: torch.Tensor) -> None:
        self.read_back += 1
        if not same:
            self.wrong_reads.append(f"operation {number}, {self.names[number]} of {tuple(tensor.size())}")

    def to_copy(self, func, source: torch.Tensor, kwargs: dict, number: int) -> torch.Tensor:
        """`source.to(...)` of the other side. A conversion is made first, by whom `source` belongs to."""
        dtype = kwargs.get("dtype") or source.dtype
        with self:
            if dtype != source.dtype:
                source = aten._to_copy(source, dtype=dtype)
            if source.is_conj() or source.is_neg() or not is_dense(source):
                source = aten.clone(source.resolve_conj().resolve_neg(), memory_format=torch.contiguous_format)
        if not on_device(source):
            result = func(source, **kwargs)
            twin = self.storage_of(result, str(func)).tensor(result)
            twin.copy_(source)
            # With other strides than the source it was rearranged, by a kernel of the device.
            self.written([result], number, poke=result.stride() != source.stride())
            return result
        self.compare([source], number)
        result = func(source, **kwargs)
        torch.cuda.current_stream().synchronize()
        self.judge_read(same_bytes(result, self.twin_of(source)), number, source)
        return result

    def copy_across(self, func, target: torch.Tensor, source: torch.Tensor, number: int, non_blocking: bool = False) -> torch.Tensor:
        """`target.copy_(source)` of the other side, in a form that the driver can copy by itself."""
        plain = (source.dtype == target.dtype and source.size() == target.size() and source.is_contiguous()
                 and target.is_contiguous() and not source.is_conj() and not source.is_neg())
        if not plain:
            with self:
                staged = aten._to_copy(source.expand(target.size()), dtype=target.dtype)
                return target.copy_(aten._to_copy(staged, device=target.device))
        if on_device(target):
            self.compare([target], number)
            func(target, source, non_blocking)
            self.twin_of(target).copy_(source)
            self.written([target], number, poke=False)
            return target
        self.compare([source], number)
        func(target, source, non_blocking)
        torch.cuda.current_stream().synchronize()
        self.judge_read(same_bytes(target, self.twin_of(source)), number, source)
        return target

    # ---- The end.

    def finish(self) -> dict:
        """Compares every storage that still lives, waits for the device, and says what was found.

        @return counts; "found": lines that say what differs, empty if nothing does.
        """
        self.names.append("the end")
        self.sweep()
        living = [(known, torch.UntypedStorage._new_with_weak_ptr(known.weak.cdata)) for known in self.storages.values()]
        operands = [Operand(storage.data_ptr(), known.snapshot, 0, known.twin.nbytes(), known.serial)
                    for known, storage in living if storage is not None and known.snapshot is not None]
        self.kernels.launch(self.kernels.library.twin_compare, operands, len(self.names) - 1)
        torch.cuda.synchronize()
        report = self.kernels.report()
        found = []
        if report.mismatches:
            found.append(f"{report.mismatches} operands differ; the first before operation {report.operation}, "
                         f"{self.names[report.operation]}: storage {report.name}, made by {self.makers[report.name]}, of {report.size} "
                         f"bytes: {report.differing} differ, the first at {report.offset}: {report.found:#04x}, twin {report.expected:#04x}")
        if self.wrong_reads:
            found.append(f"{len(self.wrong_reads)} reads give other values; the first: {self.wrong_reads[0]}")
        return {"operations": len(self.names) - 1, "compared": report.compared, "compared_bytes": report.bytes,
                "launches": report.launches, "read_back": self.read_back, "mismatches": report.mismatches + len(self.wrong_reads),
                "adopted": self.adopted, "by_cpu": sorted(self.by_cpu), "found": found}
