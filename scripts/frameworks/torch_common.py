"""What the torch scripts share: a transformer with random weights, digests of tensors, and what is reported.

The scripts know nothing of superpipe. They need torch, use transformers where it is there, and download nothing.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import os
import sys
import time

# Before torch is imported: cuBLAS has to give the same sums in every run.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch  # noqa: E402

SEED = 20240601


def parse(description: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--device", default="cuda", help="cuda (default) or cpu")
    parser.add_argument("--size", choices=("full", "medium", "small"), default="full",
                        help="medium: a thirtieth of the weights; small: to see that it works")
    parser.add_argument("--without-cudnn", action="store_true", help="for devices that cuDNN does not know")
    parser.add_argument("--passes", type=int, default=8, help="forward passes, or training steps")
    parser.add_argument("--library", choices=("auto", "transformers", "torch"), default="auto",
                        help="who brings the model; auto: transformers where it is installed")
    parser.add_argument("--accelerate-mem", type=int, default=0, metavar="BYTES",
                        help="have accelerate keep so much of the weights on the device, and bring the rest for each use "
                        "(for inference, in the place of superpipe)")
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit("torch sees no CUDA device")
    if options.without_cudnn:
        torch.backends.cudnn.enabled = False
        torch.backends.cuda.enable_cudnn_sdp(False)
    torch.manual_seed(SEED)
    torch.use_deterministic_algorithms(True, warn_only=True)
    return options


class PlainTransformer(torch.nn.Module):
    """A transformer of torch's own layers, where transformers is not installed."""

    def __init__(self, vocabulary: int, hidden: int, inner: int, layers: int, heads: int) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(vocabulary, hidden)
        self.layers = torch.nn.ModuleList(
            torch.nn.TransformerEncoderLayer(hidden, heads, inner, dropout=0.0, batch_first=True, norm_first=True)
            for _ in range(layers))
        self.head = torch.nn.Linear(hidden, vocabulary, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        state = self.embedding(ids)
        for layer in self.layers:
            state = layer(state)
        return self.head(state)


class LogitsOnly(torch.nn.Module):
    """A model of transformers, of whose answer only the logits are used."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=ids, use_cache=False).logits


def make_model(options: argparse.Namespace, dtype: torch.dtype, vocabulary: int, hidden: int, inner: int, layers: int,
               heads: int) -> tuple[torch.nn.Module, str]:
    """The model on the device, and what it is called."""
    if options.size == "medium":
        vocabulary, hidden, inner, layers, heads = vocabulary // 4, hidden // 4, inner // 4, layers // 2, heads // 2
    elif options.size == "small":
        vocabulary, hidden, inner, layers, heads = 512, 64, 128, 2, 4
    transformers = None
    if options.library != "torch":
        try:
            import transformers
        except ImportError:
            if options.library == "transformers":
                sys.exit("transformers is not installed")
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(options.device):
            if transformers is None:
                model: torch.nn.Module = PlainTransformer(vocabulary, hidden, inner, layers, heads)
                name = f"torch {torch.__version__}: {layers} TransformerEncoderLayer of {hidden}"
            else:
                model = LogitsOnly(transformers.LlamaForCausalLM(transformers.LlamaConfig(
                    vocab_size=vocabulary, hidden_size=hidden, intermediate_size=inner, num_hidden_layers=layers,
                    num_attention_heads=heads, max_position_embeddings=2048, use_cache=False)))
                name = f"transformers {transformers.__version__}: Llama, {layers} layers of {hidden}"
    finally:
        torch.set_default_dtype(before)
    return model.to(options.device), f"{name}, {str(dtype).replace('torch.', '')}"


def offload_by_accelerate(model: torch.nn.Module, options: argparse.Namespace) -> torch.nn.Module:
    """The model with what exceeds --accelerate-mem on the host, as accelerate does it. What PyTorch counts begins anew."""
    try:
        import accelerate
    except ImportError:
        sys.exit("accelerate is not installed")
    whole = ["LlamaDecoderLayer", "TransformerEncoderLayer"]
    placed = accelerate.infer_auto_device_map(model, max_memory={0: options.accelerate_mem, "cpu": 1 << 50},
                                              no_split_module_classes=whole)
    # It keeps what it is to bring where that is, so that has to be the host.
    model = accelerate.dispatch_model(model.to("cpu"), device_map=placed)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    return model


def random_ids(options: argparse.Namespace, batch: int, length: int, vocabulary: int) -> torch.Tensor:
    if options.size == "medium":
        length, vocabulary = length // 4, vocabulary // 4
    elif options.size == "small":
        batch, length, vocabulary = 2, 16, 512
    generator = torch.Generator().manual_seed(SEED)
    return torch.randint(0, vocabulary, (batch, length), generator=generator).to(options.device)


def digest(*tensors: torch.Tensor) -> str:
    """SHA-256 of the tensors' bytes."""
    found = hashlib.sha256()
    for tensor in tensors:
        host = tensor.detach().cpu().contiguous()
        size = host.numel() * host.element_size()
        if size:
            found.update((ctypes.c_char * size).from_address(host.data_ptr()))
    return found.hexdigest()


def now(options: argparse.Namespace) -> float:
    """Seconds, once the device has done all it was given."""
    if options.device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def report(options: argparse.Namespace, name: str, model: torch.nn.Module, digests: list[str], pass_ms: list[float]) -> None:
    """Prints the result as one line of JSON, the last one."""
    result = {
        "model": name, "torch": torch.__version__, "digests": digests, "pass_ms": [round(each, 3) for each in pass_ms],
        "parameter_bytes": sum(each.numel() * each.element_size() for each in model.parameters()),
    }
    if options.device == "cuda":
        free, total = torch.cuda.mem_get_info()
        result |= {"max_memory_allocated_bytes": torch.cuda.max_memory_allocated(),
                   "max_memory_reserved_bytes": torch.cuda.max_memory_reserved(),
                   "driver_free_bytes": free, "driver_total_bytes": total, "device": torch.cuda.get_device_name(),
                   "allocator": torch.cuda.get_allocator_backend()}
    print(json.dumps(result), flush=True)
