#!/usr/bin/env python3
"""all-MiniLM-L6-v2 computed with numpy on the CPU: what superpipe-minilm is judged against.

Usage: minilm_reference.py --model DIR [--output FILE] [--tokens] [SENTENCE...]

Shares no code with the program: its own safetensors reader, its own tokenizer (over Python's
unicodedata), float64 arithmetic, one sentence at a time. Without a SENTENCE it reads the lines of
standard input. `--output` gets 384 little-endian float32 a sentence.
"""

import argparse
import json
import math
import struct
import sys
import unicodedata
from pathlib import Path

LAYERS, HEADS, HIDDEN = 6, 12, 384
MOST_TOKENS = 256
# What BERT takes for ideographs: the CJK blocks of the Unicode of its day.
IDEOGRAPHS = ((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F),
              (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F))


class Tokenizer:
    """BERT's uncased tokenizer, after Devlin et al., 2018."""

    def __init__(self, vocabulary: Path) -> None:
        self.ids = {piece: i for i, piece in enumerate(vocabulary.read_text("utf-8").split("\n"))
                    if piece}

    @staticmethod
    def _words(text: str) -> list[str]:
        spaced = []
        for c in text:
            if c in "\t\n\r" or unicodedata.category(c) == "Zs":
                spaced.append(" ")
            elif c == "\ufffd" or unicodedata.category(c).startswith("C"):
                continue
            elif any(first <= ord(c) <= last for first, last in IDEOGRAPHS):
                spaced.append(f" {c} ")
            else:
                spaced.append(c)
        # Letter by letter, as the fast tokenizer does: str.lower() of a word knows a final sigma.
        folded = unicodedata.normalize("NFD", "".join(c.lower() for c in spaced))
        words, word = [], ""
        for c in folded:
            if unicodedata.category(c) == "Mn":
                continue
            symbol = c.isascii() and c.isprintable() and not c.isalnum() and c != " "
            if c == " " or unicodedata.category(c) == "Zs":
                words.append(word)
                word = ""
            elif symbol or unicodedata.category(c).startswith("P"):
                words += [word, c]
                word = ""
            else:
                word += c
        return [w for w in words + [word] if w]

    def _pieces(self, word: str) -> list[int]:
        if len(word) > 100:
            return [self.ids["[UNK]"]]
        pieces, rest, mark = [], word, ""
        while rest:
            fitting = [n for n in range(len(rest), 0, -1) if mark + rest[:n] in self.ids]
            if not fitting:
                return [self.ids["[UNK]"]]
            pieces.append(self.ids[mark + rest[: fitting[0]]])
            rest, mark = rest[fitting[0]:], "##"
        return pieces

    def encode(self, text: str) -> list[int]:
        """The ids of a sentence with [CLS] and [SEP], cut to MOST_TOKENS."""
        ids = [i for word in self._words(text) for i in self._pieces(word)]
        return [self.ids["[CLS]"], *ids[: MOST_TOKENS - 2], self.ids["[SEP]"]]


def load_weights(path: Path) -> dict:
    """All float tensors of a safetensors file, as float64 arrays by name."""
    import numpy as np

    data = path.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    weights = {}
    for name, entry in header.items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            begin, end = entry["data_offsets"]
            raw = np.frombuffer(data[8 + length + begin : 8 + length + end], dtype="<f4")
            weights[name] = raw.reshape(entry["shape"]).astype(np.float64)
    return weights


def embed(weights: dict, ids: list[int]):
    """The embedding of one sentence: HIDDEN values, length 1."""
    import numpy as np

    erf = np.vectorize(math.erf)

    def dense(x, name):
        return x @ weights[name + ".weight"].T + weights[name + ".bias"]

    def norm(x, name):
        centred = x - x.mean(axis=-1, keepdims=True)
        deviation = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-12)
        return centred / deviation * weights[name + ".weight"] + weights[name + ".bias"]

    count = len(ids)
    x = (weights["embeddings.word_embeddings.weight"][ids]
         + weights["embeddings.position_embeddings.weight"][:count]
         + weights["embeddings.token_type_embeddings.weight"][0])
    x = norm(x, "embeddings.LayerNorm")
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}."
        q, k, v = (dense(x, f"{name}attention.self.{part}").reshape(count, HEADS, -1)
                   .transpose(1, 0, 2) for part in ("query", "key", "value"))
        scores = q @ k.transpose(0, 2, 1) / math.sqrt(HIDDEN / HEADS)
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        shares /= shares.sum(axis=-1, keepdims=True)
        context = (shares @ v).transpose(1, 0, 2).reshape(count, HIDDEN)
        x = norm(x + dense(context, name + "attention.output.dense"),
                 name + "attention.output.LayerNorm")
        inner = dense(x, name + "intermediate.dense")
        inner = inner * 0.5 * (1 + erf(inner / math.sqrt(2)))
        x = norm(x + dense(inner, name + "output.dense"), name + "output.LayerNorm")
    mean = x.mean(axis=0)
    return mean / np.linalg.norm(mean)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True,
                        help="folder with model.safetensors and vocab.txt")
    parser.add_argument("--output", type=Path, help="where the embeddings go")
    parser.add_argument("--tokens", action="store_true", help="print token ids only")
    parser.add_argument("sentences", nargs="*")
    arguments = parser.parse_args()
    sentences = arguments.sentences
    if not sentences:
        text = sys.stdin.buffer.read().decode("utf-8", errors="replace")
        sentences = text.removesuffix("\n").split("\n")
    tokenizer = Tokenizer(arguments.model / "vocab.txt")
    ids = [tokenizer.encode(sentence) for sentence in sentences]
    if arguments.tokens:
        for sentence in ids:
            print(*sentence)
        return 0
    try:
        import numpy as np
    except ImportError:
        print("minilm_reference.py: numpy is missing (pip install numpy)", file=sys.stderr)
        return 1
    weights = load_weights(arguments.model / "model.safetensors")
    rows = np.stack([embed(weights, sentence) for sentence in ids])
    if arguments.output:
        rows.astype("<f4").tofile(arguments.output)
    for row in rows @ rows.T:
        print(" ".join(f"{value:7.4f}" for value in row))
    return 0


if __name__ == "__main__":
    sys.exit(main())
