"""The picture shows what the timeline says."""

import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path

HERE = Path(__file__).resolve().parent
SCRIPT = HERE.parents[1] / "scripts" / "residency_svg.py"
HEADER = "time_ms,event,buffer,layer,bytes\n"
LEFT, RIGHT = 78, 942  # where the plot begins and ends


class Picture(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def draw(self, timeline: Path | str, *options: str) -> subprocess.CompletedProcess:
        if isinstance(timeline, str):
            text, timeline = timeline, self.folder / "timeline.csv"
            timeline.write_text(text)
        return subprocess.run([sys.executable, "-B", str(SCRIPT), str(timeline), "-o", str(self.folder / "p.svg"),
                               *options], capture_output=True, text=True)

    def shapes(self, timeline: Path | str, *options: str) -> dict[str, list[tuple[float, float, float, float]]]:
        """(x, width, y, height) of all rectangles by class, without the legend's."""
        finished = self.draw(timeline, *options)
        self.assertEqual(finished.returncode, 0, finished.stderr)
        self.root = ElementTree.parse(self.folder / "p.svg").getroot()
        found: dict[str, list[tuple[float, float, float, float]]] = {}
        for rect in self.root.iter("{http://www.w3.org/2000/svg}rect"):
            x, y, width, height = (float(rect.get(name, 0)) for name in ("x", "y", "width", "height"))
            if y >= 74:
                found.setdefault(rect.get("class", ""), []).append((x, width, y, height))
        return found

    def texts(self) -> list[str]:
        return ["".join(text.itertext()) for text in self.root.iter("{http://www.w3.org/2000/svg}text")]

    def test_example_timeline(self) -> None:
        shapes = self.shapes(HERE / "timeline.csv", "--title", "A <title> & more", "--device", "GPU of a test")
        self.assertEqual(len(shapes["empty"]), 6)
        self.assertEqual(len(shapes["fetching"]), 12)
        self.assertEqual(len(shapes["resident"]), 12)
        self.assertEqual(len(shapes["launch"]), 48)
        texts = self.texts()
        for expected in ("A <title> & more", "layer 0", "layer 5", "milliseconds", "fetching", "launch"):
            self.assertIn(expected, texts)
        self.assertTrue(any("GPU of a test · 6 layers, 40.6 MiB; at most 13.5 MiB" in text for text in texts), texts)
        for kind in ("fetching", "resident", "evicting"):
            for x, width, _, _ in shapes[kind]:
                self.assertGreaterEqual(x, LEFT - 0.01)
                self.assertLessEqual(x + width, RIGHT + 0.5)

    def test_simulated_unless_said_otherwise(self) -> None:
        self.shapes(HEADER + "0,fetch_begin,w,0,1048576\n10,fetch_end,w,0,1048576\n")
        self.assertTrue(any(text.startswith("simulated · 1 layers") for text in self.texts()))

    def test_spans_lie_where_their_times_are(self) -> None:
        shapes = self.shapes(HEADER + "100,fetch_begin,w,0,8\n125,fetch_end,w,0,8\n150,launch,w,0,8\n"
                                      "175,evict_begin,w,0,8\n187.5,evict_end,w,0,8\n200,launch,,0,0\n")
        width = RIGHT - LEFT
        for kind, begin, end in (("fetching", 0, 0.25), ("resident", 0.25, 0.75), ("evicting", 0.75, 0.875)):
            (x, wide, _, _), = shapes[kind]
            self.assertAlmostEqual(x, LEFT + begin * width, delta=0.02)
            self.assertAlmostEqual(x + wide, LEFT + end * width, delta=0.02)
        self.assertAlmostEqual(shapes["launch"][0][0], LEFT + 0.5 * width, delta=1)

    def test_what_was_there_before_is_resident_from_the_start(self) -> None:
        shapes = self.shapes(HEADER + "0,launch,a,0,8\n5,launch,b,1,8\n6,evict_begin,c,2,8\n10,launch,a,0,8\n")
        self.assertEqual(sorted(round(x) for x, _, _, _ in shapes["resident"]), [LEFT] * 3)

    def test_an_evicted_layer_is_not_drawn_as_resident(self) -> None:
        shapes = self.shapes(HEADER + "0,evict_begin,w,0,8\n1,evict_end,w,0,8\n10,fetch_begin,w,0,8\n20,launch,v,1,8\n")
        self.assertEqual(len(shapes["resident"]), 1)  # v, and of w nothing: it ends where the picture begins

    def test_buffers_of_a_layer_share_its_height_by_bytes(self) -> None:
        shapes = self.shapes(HEADER + "0,fetch_begin,a,0,300\n0,fetch_begin,b,0,100\n10,fetch_end,a,0,300\n"
                                      "20,fetch_end,b,0,100\n30,launch,a,0,300\n")
        whole = shapes["empty"][0][3]
        self.assertEqual([round(height / whole, 2) for _, _, _, height in shapes["fetching"]], [1, 0.25])
        self.assertEqual([round(height / whole, 2) for _, _, _, height in shapes["resident"]], [0.75, 1])

    def test_a_window_of_the_timeline(self) -> None:
        shapes = self.shapes(HEADER + "0,fetch_begin,w,0,8\n40,fetch_end,w,0,8\n100,launch,w,0,8\n",
                             "--from", "20", "--to", "60")
        (x, wide, _, _), = shapes["fetching"]
        self.assertAlmostEqual(x, LEFT, delta=0.02)
        self.assertAlmostEqual(wide, (RIGHT - LEFT) / 2, delta=0.02)
        self.assertNotIn("launch", shapes)

    def test_axis_starts_at_zero_with_round_steps(self) -> None:
        self.shapes(HEADER + "17.3,launch,w,0,8\n117.3,launch,w,0,8\n")
        self.assertEqual([text for text in self.texts() if text.isdigit()], ["0", "20", "40", "60", "80", "100"])

    def test_whole_passes(self) -> None:
        rows = [f"{10 * i + part},launch,w{i % 3},{i % 3},8" for i in range(12) for part in (0, 5)]
        timeline = HEADER + "\n".join(rows) + "\n"
        shapes = self.shapes(timeline, "--passes", "2")
        self.assertEqual(len(shapes["launch"]), 2 * 6 + 1)  # and the first of the pass behind them
        self.assertIn("60", self.texts())
        finished = self.draw(timeline, "--passes", "4")
        self.assertEqual((finished.returncode, finished.stderr.count("\n")), (1, 1))
        self.assertIn("4 passes: too few", finished.stderr)

    def test_is_self_contained_and_has_dark_colours(self) -> None:
        self.shapes(HERE / "timeline.csv")
        text = (self.folder / "p.svg").read_text()
        self.assertIn("prefers-color-scheme: dark", text)
        for outside in ("href", "url(", "@import", "<script"):
            self.assertNotIn(outside, text)

    def test_refuses_what_is_no_timeline(self) -> None:
        for content, part in (("", "first line"), ("a,b\n1,2\n", "first line"), (HEADER, "no events"),
                              (HEADER + "0,launch,w,,8\n", "no events"), (HEADER + "0,load,w,0,8\n", ":2: unknown event"),
                              (HEADER + "0,launch,w,0\n", ":2: needs five"), (HEADER + "x,launch,w,0,8\n", ":2: not a number"),
                              (HEADER + "0,launch,w,-1,8\n", ":2: negative"), (HEADER + "nan,launch,w,0,8\n", "infinite"),
                              (HEADER + "0,launch,w,0,8\n", "nothing to draw")):
            with self.subTest(content=content):
                finished = self.draw(content)
                self.assertEqual(finished.returncode, 1)
                self.assertIn(part, finished.stderr)
                self.assertEqual(finished.stderr.count("\n"), 1)
                self.assertFalse((self.folder / "p.svg").exists())

    def test_names_a_missing_file(self) -> None:
        finished = self.draw(self.folder / "none.csv")
        self.assertEqual(finished.returncode, 1)
        self.assertIn("none.csv", finished.stderr)


if __name__ == "__main__":
    unittest.main()
