#!/usr/bin/env python3
"""Draws which layers were on the device over time, from a timeline that superpipe recorded.

Usage: residency_svg.py TIMELINE.csv -o PICTURE.svg [--title TEXT] [--device NAME] [--passes N]
           [--from MS] [--to MS]

The timeline is a CSV with the columns `time_ms,event,buffer,layer,bytes`:

  time_ms  when, in milliseconds; any origin
  event    fetch_begin, fetch_end, evict_begin, evict_end or launch
  buffer   which buffer, any text without commas; of a launch, one that it names (a row for each), or
           empty for a launch that is only known to be the layer's
  layer    its layer, a whole number from 0; empty for what belongs to no layer (is left out)
  bytes    size of the buffer; 0 where it is not known

A buffer is resident from its fetch_end to its evict_begin. One that is first launched or evicted
without a fetch was resident before, from the start of the picture. Rows are layers, time runs to the
right; a layer with several buffers shows the share of its bytes in each state by the height of the
colours. `--passes N` draws N whole passes, the last ones before the last pass begins, so that what is
fetched for the pass behind them is seen too. Exit codes: 0 done, 1 the timeline is not one (one line says why), 2 wrong command line.
"""

import argparse
import csv
import math
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

EVENTS = ("fetch_begin", "fetch_end", "evict_begin", "evict_end", "launch")
STATES = ("fetching", "resident", "evicting")
WIDTH, LEFT, RIGHT, TOP, BOTTOM, GAP = 960, 78, 18, 74, 46, 5
PLOT = WIDTH - LEFT - RIGHT

STYLE = """
  svg { --back: #ffffff; --ink: #1f2328; --faint: #59636e; --line: #d1d9e0; --empty: #f3f5f7;
        --fetching: #d4880f; --resident: #2f7fd0; --evicting: #b6529f; --launch: #10243e; }
  @media (prefers-color-scheme: dark) {
    svg { --back: #0d1117; --ink: #e6edf3; --faint: #9198a1; --line: #3d444d; --empty: #1a2029;
          --fetching: #e3a13b; --resident: #4493e0; --evicting: #d07bbd; --launch: #f0f6fc; } }
  text { font: 13px system-ui, 'Segoe UI', Helvetica, Arial, sans-serif; fill: var(--ink); }
  .title { font-size: 17px; font-weight: 600; } .faint { fill: var(--faint); }
  .back { fill: var(--back); } .empty { fill: var(--empty); } .line { stroke: var(--line); }
  .fetching { fill: var(--fetching); } .resident { fill: var(--resident); }
  .evicting { fill: var(--evicting); } .launch { fill: var(--launch); }
"""


class TimelineError(Exception):
    """The input is not a timeline; the text says where and why."""


@dataclass
class Buffer:
    """What happened to one buffer: its size and its spans, in the order of time."""

    bytes: int = 0
    spans: list[tuple[str, float, float]] = field(default_factory=list)


@dataclass
class Layer:
    """One row: its buffers by name, and when its launches were."""

    buffers: dict[str, Buffer] = field(default_factory=lambda: defaultdict(Buffer))
    launches: list[float] = field(default_factory=list)


def read_events(path: Path) -> list[tuple[float, str, str, int, int]]:
    """The events that belong to a layer, by time."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = csv.DictReader(file)
            if rows.fieldnames != ["time_ms", "event", "buffer", "layer", "bytes"]:
                raise TimelineError(f"{path}: the first line must be time_ms,event,buffer,layer,bytes")
            events = []
            for row in rows:
                where = f"{path}:{rows.line_num}"
                if None in row.values() or None in row:
                    raise TimelineError(f"{where}: needs five columns")
                if row["event"] not in EVENTS:
                    raise TimelineError(f"{where}: unknown event '{row['event']}'")
                if row["layer"] == "":
                    continue
                try:
                    time, layer = float(row["time_ms"]), int(row["layer"])
                    size = int(row["bytes"] or 0)
                except ValueError as error:
                    raise TimelineError(f"{where}: not a number ({error})") from error
                if not math.isfinite(time) or layer < 0 or size < 0:
                    raise TimelineError(f"{where}: negative or infinite")
                events.append((time, row["event"], row["buffer"], layer, size))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise TimelineError(f"{path}: cannot be read ({error})") from error
    if not events:
        raise TimelineError(f"{path}: no events that belong to a layer")
    return sorted(events, key=lambda event: event[0])


def steady_window(events, passes: int) -> tuple[float, float]:
    """Begin and end of the last `passes` passes that another one follows.

    A pass begins where a launch of the first layer follows one of the last.
    """
    launches = [(time, layer) for time, event, _, layer, _ in events if event == "launch"]
    numbers = {layer for _, layer in launches}
    first, last = min(numbers, default=0), max(numbers, default=0)
    starts = [launches[0][0]] if launches else []
    starts += [time for (_, before), (time, layer) in zip(launches, launches[1:])
               if before == last and layer == first and first != last]
    if len(starts) <= passes:
        raise TimelineError(f"the timeline has {len(starts)} passes: too few to draw {passes} before the last")
    return starts[-passes - 1], starts[-1]


def build_layers(events, begin: float, end: float) -> dict[int, Layer]:
    """The rows of the picture, by layer. Spans outside `begin` to `end` are cut off."""
    layers: dict[int, Layer] = defaultdict(Layer)
    open_spans: dict[tuple[int, str], tuple[str, float]] = {}

    def close(key, time):
        if key in open_spans:
            state, since = open_spans.pop(key)
            since, until = max(since, begin), min(time, end)
            if until > since:
                layers[key[0]].buffers[key[1]].spans.append((state, since, until))

    for time, event, name, number, size in events:
        layer, key = layers[number], (number, name)
        if event == "launch":
            if begin <= time <= end:
                layer.launches.append(time)
            if name == "":
                continue
        layer.buffers[name].bytes = max(layer.buffers[name].bytes, size)
        if event == "fetch_begin":
            close(key, time)
            open_spans[key] = ("fetching", time)
        elif event == "fetch_end":
            close(key, time)
            open_spans[key] = ("resident", time)
        elif event == "evict_begin":
            open_spans.setdefault(key, ("resident", begin))
            close(key, time)
            open_spans[key] = ("evicting", time)
        elif event == "evict_end":
            close(key, time)
        elif key not in open_spans and not layer.buffers[name].spans:
            open_spans[key] = ("resident", begin)
    for key in list(open_spans):
        close(key, end)
    return layers


def stack(layer: Layer) -> list[tuple[float, float, dict[str, float]]]:
    """The layer's states over time: (from, to, share of its bytes by state), equal ones joined."""
    total = sum(max(buffer.bytes, 1) for buffer in layer.buffers.values())
    times = sorted({t for b in layer.buffers.values() for s in b.spans for t in s[1:]})
    changes = defaultdict(lambda: defaultdict(float))
    for buffer in layer.buffers.values():
        for state, since, until in buffer.spans:
            changes[since][state] += max(buffer.bytes, 1) / total
            changes[until][state] -= max(buffer.bytes, 1) / total
    now, spans = dict.fromkeys(STATES, 0.0), []
    for since, until in zip(times, times[1:]):
        for state, change in changes[since].items():
            now[state] += change
        shares = {state: round(share, 6) for state, share in now.items() if share > 1e-6}
        if spans and spans[-1][1] == since and spans[-1][2] == shares:
            spans[-1] = (spans[-1][0], until, shares)
        elif shares:
            spans.append((since, until, shares))
    return spans


def peak_bytes(layers: dict[int, Layer]) -> int:
    """The most bytes that were on the device at once, in whichever state."""
    changes = [change for layer in layers.values() for buffer in layer.buffers.values()
               for _, since, until in buffer.spans
               for change in ((since, 1, buffer.bytes), (until, 0, -buffer.bytes))]
    now = most = 0
    for _, _, change in sorted(changes):
        now += change
        most = max(most, now)
    return most


def ticks(length: float) -> list[float]:
    """Round times for an axis from 0 to `length`, about eight."""
    rough = length / 8
    power = 10 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    return [i * step for i in range(math.floor(length / step + 1e-9) + 1)]


def draw(layers: dict[int, Layer], begin: float, end: float, title: str, device: str) -> str:
    """The picture as SVG text."""
    row = max(8, min(34, 620 // len(layers)))
    height = TOP + row * len(layers) + BOTTOM
    scale = PLOT / (end - begin)

    def x(time: float) -> float:
        return LEFT + (time - begin) * scale

    total = sum(buffer.bytes for layer in layers.values() for buffer in layer.buffers.values())
    subtitle = f"{device} · {len(layers)} layers"
    if total:
        subtitle += (f", {total / 2**20:.1f} MiB; at most {peak_bytes(layers) / 2**20:.1f} MiB "
                     "of them on the device at once")
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">',
        f"<title>{escape(title)}</title>",
        f"<desc>{escape(subtitle)}</desc>",
        f"<style>{STYLE}</style>",
        f'<rect class="back" width="{WIDTH}" height="{height}"/>',
        f'<text class="title" x="{LEFT}" y="26">{escape(title)}</text>',
        f'<text class="faint" x="{LEFT}" y="46">{escape(subtitle)}</text>',
    ]
    place = LEFT
    for name in (*STATES, "launch"):
        width = 3 if name == "launch" else 12
        out.append(f'<rect class="{name}" x="{place}" y="56" width="{width}" height="11"/>'
                   f'<text class="faint" x="{place + width + 5}" y="66">{name}</text>')
        place += 105
    bottom = TOP + row * len(layers)
    for tick in ticks(end - begin):
        place = f"{x(begin + tick):.2f}"
        out.append(f'<line class="line" x1="{place}" y1="{TOP}" x2="{place}" y2="{bottom + 4}"/>'
                   f'<text class="faint" text-anchor="middle" x="{place}" y="{bottom + 19}">'
                   f"{tick:g}</text>")
    out.append(f'<text class="faint" text-anchor="end" x="{WIDTH - RIGHT}" y="{bottom + 38}">'
               "milliseconds</text>")
    bar = row - min(GAP, row // 3)
    every = max(1, math.ceil(15 / row))  # labels need 15 pixels
    for index, number in enumerate(sorted(layers)):
        layer, y = layers[number], TOP + index * row
        if index % every == 0:
            out.append(f'<text text-anchor="end" x="{LEFT - 10}" y="{y + bar / 2 + 4.5:.1f}">'
                       f"layer {number}</text>")
        out.append(f'<rect class="empty" x="{LEFT}" y="{y}" width="{PLOT}" height="{bar}"/>')
        for since, until, shares in stack(layer):
            base = y + bar
            for state in reversed(STATES):
                if state in shares:
                    tall = shares[state] * bar
                    base -= tall
                    out.append(f'<rect class="{state}" x="{x(since):.2f}" y="{base:.2f}" '
                               f'width="{max((until - since) * scale, 0.4):.2f}" '
                               f'height="{tall:.2f}"/>')
        last = -math.inf
        for time in layer.launches:  # marks closer than they are wide would only grow the file
            if x(time) - last >= 1.5:
                last = x(time)
                out.append(f'<rect class="launch" x="{last - 0.75:.2f}" y="{y + bar * 0.3:.2f}" '
                           f'width="1.5" height="{bar * 0.4:.2f}"/>')
    out.append("</svg>")
    return "\n".join(out) + "\n"


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("timeline", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--title", default="Layers on the device")
    parser.add_argument("--device", default="simulated", help="what it ran on; default: simulated")
    parser.add_argument("--passes", type=int, metavar="N", help="draw N passes; default: everything")
    parser.add_argument("--from", dest="begin", type=float, metavar="MS", help="start of the picture")
    parser.add_argument("--to", dest="end", type=float, metavar="MS", help="end of the picture")
    arguments = parser.parse_args()
    if arguments.passes is not None and arguments.passes < 1:
        parser.error("--passes must be at least 1")
    try:
        events = read_events(arguments.timeline)
        begin, end = events[0][0], events[-1][0]
        if arguments.passes is not None:
            begin, end = steady_window(events, arguments.passes)
        begin = begin if arguments.begin is None else arguments.begin
        end = end if arguments.end is None else arguments.end
        if end <= begin:
            raise TimelineError(f"{arguments.timeline}: nothing to draw from {begin:g} to {end:g} ms")
        layers = build_layers(events, begin, end)
        picture = draw(layers, begin, end, arguments.title, arguments.device)
        arguments.output.write_text(picture, encoding="utf-8")
    except TimelineError as error:
        print(f"residency_svg.py: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"residency_svg.py: cannot write '{arguments.output}': {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
