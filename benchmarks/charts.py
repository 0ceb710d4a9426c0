"""Charts of what `make bench` found, as SVG that follows the reader's light or dark.

python -m benchmarks.charts      draws docs/benchmarks/*.svg from the JSON beside them
"""

import json
import math
from pathlib import Path
from xml.sax.saxutils import escape

FOLDER = Path(__file__).parent.parent / "docs" / "benchmarks"
WIDTH = 760
LABEL = 210
ROW = 26
STYLE = """<style>
text { font: 13px system-ui, sans-serif; fill: #1f2328 }
.quiet { fill: #59636e } .bar { fill: #9aa4b2 } .ours { fill: #0a7d5a }
.range { stroke: #1f2328 } .axis { stroke: #d0d7de } polyline { fill: none }
.line1 { stroke: #0a7d5a } .line2 { stroke: #b35900 } .dot1 { fill: #0a7d5a } .dot2 { fill: #b35900 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .quiet { fill: #9198a1 } .bar { fill: #6e7681 } .ours { fill: #2fbf8f }
.range { stroke: #e6edf3 } .axis { stroke: #3d444d }
.line1 { stroke: #2fbf8f } .line2 { stroke: #f0883e } .dot1 { fill: #2fbf8f } .dot2 { fill: #f0883e }
}
</style>"""


def bars(title: str, rates: dict[str, dict[str, float]]) -> str:
    """A bar per system, the longest first; the thin line is the range over all rounds."""
    ordered = sorted(rates.items(), key=lambda item: -item[1]["median"])
    room = WIDTH - LABEL - 90
    most = max(rate["highest"] for rate in rates.values())
    parts = []
    for number, (name, rate) in enumerate(ordered):
        top = 40 + number * ROW
        ours = "ours" if name.startswith("holdfast") else "bar"
        box = f'x="{LABEL}" y="{top + 2}" height="{ROW - 9}"'
        ends = [LABEL + room * rate[end] / most for end in ("lowest", "median", "highest")]
        parts += [
            _text(LABEL - 8, top + 14, name, "end"),
            f'<rect class="{ours}" {box} width="{ends[1] - LABEL:.1f}"/>',
            f'<line class="range" x1="{ends[0]:.1f}" x2="{ends[2]:.1f}" y1="{top + 10}" y2="{top + 10}"/>',
            _text(ends[2] + 6, top + 14, f"{rate['median']:,.0f}/s"),
        ]
    return _picture(title, 50 + len(ordered) * ROW, parts)


def lines(title: str, series: dict[str, dict[float, float]], across: str, up: str) -> str:
    """A line per series over two logarithmic axes."""
    xs = [x for points in series.values() for x in points]
    ys = [y for points in series.values() for y in points.values()]
    low = 10 ** math.floor(math.log10(min(ys)))
    high = 10 ** math.ceil(math.log10(max(ys)))

    def place(x: float, y: float) -> tuple[float, float]:
        right = math.log(x / min(xs)) / math.log(max(xs) / min(xs))
        above = math.log(y / low) / math.log(high / low)
        return 70 + right * (WIDTH - 190), 280 - above * 220

    parts = []
    step = low
    while step <= high:
        _, y = place(min(xs), step)
        parts.append(f'<line class="axis" x1="70" x2="{WIDTH - 120}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(_text(62, y + 4, f"{step:g}", "end", "quiet"))
        step *= 10
    parts += [_text(place(x, low)[0], 298, f"{x:,.0f}", "middle", "quiet") for x in sorted(set(xs))]
    parts += [
        _text(70, 46, up, "start", "quiet"),
        _text(WIDTH - 120, 316, across, "end", "quiet"),
    ]
    for number, (name, points) in enumerate(series.items(), 1):
        placed = [place(x, y) for x, y in sorted(points.items())]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
        parts.append(f'<polyline class="line{number}" stroke-width="2" points="{path}"/>')
        parts += [f'<circle class="dot{number}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in placed]
        parts.append(_text(placed[-1][0] + 8, placed[-1][1] + 4, name))
    return _picture(title, 325, parts)


def _text(x: float, y: float, said: str, anchor: str = "start", kind: str = "") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text{named} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(said)}</text>'


def _picture(title: str, height: int, parts: list[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">'
    return "\n".join(
        [head, STYLE, f"<title>{escape(title)}</title>", _text(8, 22, title), *parts, "</svg>\n"]
    )


def main() -> None:
    suite = json.loads((FOLDER / "suite.json").read_text())
    (FOLDER / "drain.svg").write_text(bars("No-op tasks run per second", suite["rates"]))
    steady = json.loads((FOLDER / "shapes.json").read_text())["steady"]
    series = {
        f"{work} of work": {float(load): found["p99"] for load, found in loads.items()}
        for work, loads in steady.items()
    }
    title = "From enqueue to start, 99 of 100 tasks, by offered load"
    (FOLDER / "latency.svg").write_text(lines(title, series, "tasks offered per second", "ms"))


if __name__ == "__main__":
    main()
