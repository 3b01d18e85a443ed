"""Diagrams of the documentation, drawn as SVG that is readable in light and in dark.

``python -m tests.docs.diagrams`` writes them to ``docs/pictures``.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from pathlib import Path

from tabularium.ledger.records import FINAL, TRANSITIONS, state_after

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"

_STYLE = """
text { font: 15px system-ui, "Segoe UI", Roboto, sans-serif; fill: #1c2733; text-anchor: middle }
.name { font-weight: 600 } .small { font-size: 13px; fill: #4a5a6a } .left, .aside { text-anchor: start }
.paper { fill: #ffffff } .box { fill: #eef3f8; stroke: #5b7894; stroke-width: 1.5 }
.final { fill: #e4f2e7; stroke: #4c8a5b } .cost { fill: #fdf1dc; stroke: #b98a2e }
.zone { fill: none; stroke: #8b9bab; stroke-dasharray: 6 5 }
.line { fill: none; stroke: #5b7894; stroke-width: 1.8; marker-end: url(#head) }
.bar { fill: #7aa5cf } .mark { stroke: #1c2733; stroke-width: 2.5; fill: none } .tip { fill: #5b7894 }
@media (prefers-color-scheme: dark) {
 text { fill: #e6edf3 } .small { fill: #a9b7c4 } .paper { fill: #14191f }
 .box { fill: #20303f; stroke: #7e9dba } .final { fill: #1d3525; stroke: #66ab78 }
 .cost { fill: #3b3019; stroke: #d0a24a } .zone { stroke: #66778a } .line { stroke: #7e9dba }
 .bar { fill: #4d7fb0 } .mark { stroke: #e6edf3 } .tip { fill: #7e9dba }
}"""


class Drawing:
    """A drawing that grows by boxes, arrows and words."""

    def __init__(self, width: int, height: int, about: str) -> None:
        self._parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
            f"<title>{escape(about)}</title>",
            f"<style>{_STYLE}</style>",
            '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7"'
            ' orient="auto-start-reverse"><path class="tip" d="M0 0 10 5 0 10z"/></marker></defs>',
            f'<rect class="paper" width="{width}" height="{height}" rx="10"/>',
        ]

    def words(self, x: float, y: float, *lines: str, kind: str = "") -> None:
        """Write lines around a point, the first one as a name unless a kind is given."""
        top = y - 9.5 * (len(lines) - 1) + 5
        for number, line in enumerate(lines):
            look = kind or ("name" if number == 0 else "small")
            self._parts.append(
                f'<text class="{look}" x="{x:g}" y="{top + 19 * number:g}">{escape(line)}</text>'
            )

    def box(self, x: float, y: float, width: float, height: float, *lines: str, kind: str = "") -> None:
        """Draw a box around its middle."""
        self._parts.append(
            f'<rect class="{f"box {kind}".strip()}" x="{x - width / 2:g}" y="{y - height / 2:g}"'
            f' width="{width:g}" height="{height:g}" rx="8"/>'
        )
        self.words(x, y, *lines)

    def zone(self, left: float, top: float, width: float, height: float, name: str) -> None:
        """Draw a dashed border with its name on top."""
        self._parts.append(
            f'<rect class="zone" x="{left:g}" y="{top:g}" width="{width:g}" height="{height:g}" rx="12"/>'
        )
        self._parts.append(
            f'<text class="small left" x="{left + 14:g}" y="{top + 20:g}">{escape(name)}</text>'
        )

    def arrow(self, *points: tuple[float, float], curve: bool = False) -> None:
        """Draw an arrow through points; a curve has the second as its handle."""
        (x, y), *rest = points
        to = " ".join(f"{a:g} {b:g}" for a, b in rest)
        self._parts.append(f'<path class="line" d="M{x:g} {y:g}{"Q" if curve else "L"}{to}"/>')

    def add(self, part: str) -> None:
        """Add a part as it stands."""
        self._parts.append(part)

    def text(self) -> str:
        """Return the whole drawing."""
        return "\n".join([*self._parts, "</svg>", ""])


def who_decides() -> str:
    """Return the way of the data, and who decides at which step."""
    made = Drawing(
        960, 400, "The way of the data from microdata to a published folder, and who decides where"
    )
    made.zone(20, 20, 430, 190, "home of the installation: closed to other users (operator)")
    xs, y = (110, 355, 565, 735, 890), 130
    made.box(xs[0], y, 140, 90, "microdata", "checked against", "the spec")
    made.box(xs[1], y, 130, 90, "true counts", "in the workspace", "of the run")
    made.box(xs[2], y, 140, 90, "measurements", "counts with noise:", "all that costs", kind="cost")
    made.box(xs[3], y, 120, 90, "tables", "add up, whole,", "not negative")
    made.box(xs[4], y, 110, 90, "release", "folder that", "anyone verifies", kind="final")
    for left, right in ((180, 290), (420, 495), (635, 675), (795, 835)):
        made.arrow((left, y), (right, y))
    made.box(xs[2], 300, 220, 74, "ledger", "account, cap, charges,", "decisions", kind="cost")
    made.arrow((xs[2], 263), (xs[2], 175))
    made.words(xs[2] + 8, 228, "paid before noise is drawn", kind="small aside")
    made.box(110, 300, 150, 74, "engineer", "source, schedule", "and the run")
    made.arrow((110, 263), (110, 175))
    made.box(300, 300, 170, 74, "methodologist", "tables, mechanisms,", "wanted accuracy")
    made.arrow((330, 263), (330, 175))
    made.box(825, 300, 190, 74, "disclosure officer", "unit, ε, caps;", "approves and signs")
    made.arrow((730, 300), (675, 300))
    made.arrow((860, 263), (860, 175))
    made.words(
        480,
        372,
        "Everything right of the measurements uses only them: no data, no further cost.",
        kind="small",
    )
    return made.text()


# Where each state of a charge is drawn, and what it means.
_STATES = {
    "reserved": (130, 130, "budget set aside"),
    "drawing": (370, 130, "spent from here on"),
    "measured": (610, 130, "noise is stored"),
    "published": (850, 130, "folder is public"),
    "voided": (130, 290, "given back"),
    "abandoned": (490, 290, "stays spent"),
    "withheld": (760, 290, "stays spent"),
}


def states_of_a_charge() -> str:
    """Return the states of a charge, and every step that the ledger takes from one to another."""
    made = Drawing(960, 350, "The states of a charge and the steps between them")
    for step, before in TRANSITIONS.items():
        (x2, y2, _), after = _STATES[state_after(step)], state_after(step)
        for state in before:
            if state is None:
                made.arrow((x2, 40), (x2, y2 - 34))
                made.words(
                    x2 + 8,
                    28,
                    {"remade": "remade: from stored measurements"}.get(step, "a run"),
                    kind="small",
                )
            elif state == after:
                made.arrow((x2 - 40, y2 - 33), (x2, y2 - 105), (x2 + 40, y2 - 33), curve=True)
                made.words(x2, y2 - 86, "next attempt", kind="small")
            else:
                x1, y1, _ = _STATES[state]
                flat = y1 == y2
                made.arrow(
                    (x1 + (82 if flat else 0), y1 + (0 if flat else 32)),
                    (x2 - (82 if flat else 0), y2 - (0 if flat else 34)),
                )
    for state, (x, y, meaning) in _STATES.items():
        spent = state not in ("reserved", "voided")
        kind = "final" if state == "published" else "cost" if spent else ""
        made.box(x, y, 160, 62, state, meaning, kind=kind)
    made.words(480, 338, f"No step leads out of {', '.join(sorted(FINAL))}.", kind="small")
    return made.text()


def margin(count: int = 40, half: int = 5, confidence: str = "90 %") -> str:
    """Return a bar with its margin of error."""
    made = Drawing(960, 260, f"A published count of {count} with a margin of {half}")
    low, scale, base = count - 3 * half, 12.0, 210
    left = 330

    def at(value: float) -> float:
        return left + (value - low) * scale * 60 / (12 * half)

    made.add(f'<rect class="bar" x="{left - 160}" y="90" width="{at(count) - left + 160:g}" height="60"/>')
    for end in (count - half, count + half):
        made.add(f'<path class="mark" d="M{at(end):g} 105V135"/>')
        made.words(at(end), 168, str(end), kind="small")
    made.add(f'<path class="mark" d="M{at(count - half):g} 120H{at(count + half):g}"/>')
    made.words(at(count), 70, f"published: {count}, margin {half}")
    made.words(
        at(count),
        base,
        f"The true count is between {count - half} and {count + half}",
        f"in {confidence} of cells like this one.",
        kind="small",
    )
    made.words(
        at(count + half) + 190,
        120,
        "It covers the noise and the steps after it,",
        "not errors of the survey itself.",
        kind="small",
    )
    return made.text()


def keepers() -> str:
    """Return which places hold what is needed to recognise an old ledger and to restore a lost one."""
    made = Drawing(960, 420, "Who holds the ledger, the witness, the backup, the export and the heads")
    made.zone(20, 20, 300, 380, "the installation (operator)")
    made.box(170, 100, 240, 84, "ledger", "every charge and decision,", "in a chain", kind="cost")
    made.box(170, 215, 240, 84, "home", "measurements, inputs,", "agency secret")
    made.box(
        170, 340, 240, 84, "publication folder", "releases and head files:", "each names a head", kind="final"
    )
    made.zone(640, 20, 300, 272, "other disks and people")
    made.box(790, 90, 240, 70, "witness", "the last head, 86 bytes an entry")
    made.box(790, 170, 240, 70, "backup", "all of it, sealed with age")
    made.box(790, 250, 240, 60, "export of the ledger", "anyone can verify it")
    made.box(
        790,
        352,
        270,
        80,
        "reader, reviewer",
        "a certificate, which names",
        "a head of the ledger",
        kind="final",
    )
    made.arrow((290, 90), (670, 90))
    made.words(480, 78, "each entry", kind="small")
    made.arrow((290, 112), (400, 112), (400, 250), (670, 250))
    made.words(520, 238, "each new head, or on demand", kind="small")
    made.arrow((290, 184), (670, 184))
    made.words(530, 172, "every night, with the ledger", kind="small")
    made.arrow((290, 345), (655, 345))
    made.words(470, 333, "publish", kind="small")
    return made.text()


DIAGRAMS: dict[str, Callable[[], str]] = {
    "who-decides.svg": who_decides,
    "charge.svg": states_of_a_charge,
    "margin.svg": margin,
    "keepers.svg": keepers,
}


if __name__ == "__main__":
    for name, draw in DIAGRAMS.items():
        (PICTURES / name).write_text(draw(), encoding="utf-8")
