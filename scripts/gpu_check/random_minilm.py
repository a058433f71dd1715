"""Writes a model of all-MiniLM-L6-v2's architecture with random weights, for machines without the real ones.

    random_minilm.py FOLDER [--seed N]

Standard library only. The same seed gives the same files: model.safetensors and vocab.txt.
"""

from __future__ import annotations

import argparse
import array
import json
import random
import string
import struct
import sys
from pathlib import Path

LAYERS, HIDDEN, INNER, VOCABULARY, POSITIONS = 6, 384, 1536, 30522, 512
POOL = 1 << 16  # random numbers that are drawn one by one; tensors are made of pieces of them
PIECE = 1 << 12
DEVIATION = 0.05


def tensors() -> list[tuple[str, tuple[int, ...]]]:
    """Names and shapes, in the order of the file."""
    found: list[tuple[str, tuple[int, ...]]] = [
        ("embeddings.word_embeddings.weight", (VOCABULARY, HIDDEN)),
        ("embeddings.position_embeddings.weight", (POSITIONS, HIDDEN)),
        ("embeddings.token_type_embeddings.weight", (2, HIDDEN)),
        ("embeddings.LayerNorm.weight", (HIDDEN,)), ("embeddings.LayerNorm.bias", (HIDDEN,))]
    for layer in range(LAYERS):
        prefix = f"encoder.layer.{layer}."
        parts = [(f"attention.self.{name}", HIDDEN, HIDDEN) for name in ("query", "key", "value")]
        parts += [("attention.output.dense", HIDDEN, HIDDEN), ("intermediate.dense", INNER, HIDDEN),
                  ("output.dense", HIDDEN, INNER)]
        for name, outputs, inputs in parts:
            found += [(f"{prefix}{name}.weight", (outputs, inputs)), (f"{prefix}{name}.bias", (outputs,))]
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            found += [(f"{prefix}{name}.weight", (HIDDEN,)), (f"{prefix}{name}.bias", (HIDDEN,))]
    return found


def write_weights(path: Path, seed: int) -> None:
    choose = random.Random(seed)
    pools = {centre: array.array("f", (centre + choose.gauss(0, DEVIATION) for _ in range(POOL + PIECE))).tobytes()
             for centre in (0.0, 1.0)}
    if sys.byteorder != "little":
        sys.exit("random_minilm: needs a little-endian machine, as CUDA does")
    header: dict = {}
    offset = 0
    for name, shape in tensors():
        size = 4 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name, entry in header.items():
            # Norms scale by about one; everything else is about zero.
            pool = pools[1.0 if name.endswith("LayerNorm.weight") else 0.0]
            left = entry["data_offsets"][1] - entry["data_offsets"][0]
            while left > 0:
                begin = 4 * choose.randrange(POOL)
                piece = pool[begin:begin + min(left, 4 * PIECE)]
                file.write(piece)
                left -= len(piece)


def write_vocabulary(path: Path) -> None:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *string.punctuation]
    for sign in string.ascii_lowercase + string.digits:
        words += [sign, f"##{sign}"]
    words += [f"[unused{number}]" for number in range(VOCABULARY - len(words))]
    path.write_text("\n".join(words) + "\n")


def write_model(folder: Path, seed: int = 1) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_weights(folder / "model.safetensors", seed)
    write_vocabulary(folder / "vocab.txt")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    write_model(options.folder, options.seed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
