"""scripts/piece_states.py writes down all that residency/pieces/piece_state.h says."""

import importlib.machinery
import importlib.util
import os
import re
import sys
import unittest
from pathlib import Path

SOURCE = Path(os.environ.get("SUPERPIPE_SOURCE_DIR", Path(__file__).resolve().parents[2]))
HEADER = SOURCE / "residency" / "pieces" / "piece_state.h"


def load() -> object:
    name = str(SOURCE / "scripts" / "piece_states.py")
    loader = importlib.machinery.SourceFileLoader("piece_states", name)
    spec = importlib.util.spec_from_loader("piece_states", loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules["piece_states"] = module
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


piece_states = load()


class PieceStates(unittest.TestCase):
    def setUp(self) -> None:
        self.text = HEADER.read_text(encoding="utf-8")

    def test_each_state_and_transition_is_in_both(self) -> None:
        states, transitions = piece_states.read(self.text)
        table = piece_states.table(states, transitions)
        picture = piece_states.picture(states, transitions)
        self.assertEqual(len(re.findall(r"^\| \w", table, re.MULTILINE)), 1 + len(states))
        self.assertEqual(picture.count("<line"), len(transitions))
        for state in states:
            self.assertIn(f">{state.name}<", picture)
        for _, _, cause in transitions:
            self.assertIn(f"({cause})", table)

    def test_what_is_written_in_another_way_is_an_error(self) -> None:
        for before, behind in (
            ('{PieceState::kOut, "out"', '{PieceState::kOut, Name{"out"}'),
            ("{PieceState::kOut, PieceState::kFetching,", "{PieceState::kOut, kFetching,"),
            ("  kUnmapped,", "  kElsewhere,  ///< on a disk\n  kUnmapped,"),
        ):
            with self.subTest(behind), self.assertRaises(piece_states.Unreadable):
                self.assertIn(before, self.text)
                piece_states.read(self.text.replace(before, behind, 1))


if __name__ == "__main__":
    unittest.main()
