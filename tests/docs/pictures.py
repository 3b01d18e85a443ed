"""Make the pictures of the documentation from what `make demo` left, so that they stay true.

    python -m tests.docs.pictures demo

writes the report, the site, Prefect's page of the run, and the chart of *Read a release* to ``docs/pictures``.
The desk, commands in a terminal, a plan and an account are shown on homes that are made for it; the diagrams are
those of :mod:`tests.docs.diagrams`. ``python -m tests.docs.pictures`` makes only what needs no demo and no server.
"""

from __future__ import annotations

import argparse
import base64
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import tabularium as tb
from tabularium.flows.operations.deployments.deployment import Wanted, deploy
from tabularium.flows.operations.names_in_prefect import FLOW
from tabularium.flows.operations.prefect_api import credentials
from tabularium.lab.sample import write_sample
from tabularium.ledger import AwaitingReview, Ledger
from tabularium.ledger.keys import make_key, public_hex
from tabularium.tasks.runtime.home import Home
from tests.docs.diagrams import DIAGRAMS
from tests.docs.pages import DOCS, ROOT, blocks
from tests.docs.terminals import picture, printed
from tests.flows.desk.desk_process import Window, started, windows
from tests.flows.operations.installations import running
from tests.flows.operations.products import state, until
from tests.flows.release.scene import publish
from tests.ledger.scene import census, finish, reserve
from tests.pages import browser, opened

PICTURES = DOCS / "pictures"
WIDTH = 900
_KEPT = "prefect-password"


def of_the_report(window: Any, to: Path) -> None:
    """Show how the report introduces a table."""
    place = window.locator(".table-section").first.bounding_box()
    clip = {"x": 0, "y": place["y"] - 12, "width": WIDTH, "height": place["height"] + 24}
    window.screenshot(path=to / "report.png", clip=clip, full_page=True)


def of_the_site(window: Any, to: Path) -> None:
    """Show the page of a period down to its first picture."""
    end = window.locator("figure.cells").first.bounding_box()
    clip = {"x": 0, "y": 0, "width": WIDTH, "height": end["y"] + end["height"]}
    window.screenshot(path=to / "site.png", clip=clip, full_page=True)


def of_prefect(up: Any, running_browser: Any, to: Path) -> None:
    """Show Prefect's page of the newest run that has ended well."""
    with up.client() as client:
        deployed = {
            each.id for each in client.read_deployments() if each.entrypoint.endswith("release.release")
        }
        runs = [each for each in client.read_flow_runs() if each.deployment_id in deployed]
        run = max((each for each in runs if each.state.is_completed()), key=lambda each: each.end_time)
    context = running_browser.new_context(viewport={"width": 1100, "height": 760})
    password = base64.b64encode(credentials(up.home).encode()).decode()
    context.add_init_script(f"localStorage.setItem({_KEPT!r}, {password!r})")
    window = context.new_page()
    window.goto(f"{up.url.removesuffix('/api')}/runs/flow-run/{run.id}")
    window.wait_for_selector(f"text={FLOW}")
    window.wait_for_timeout(4000)  # the graph of its tasks is drawn after the page
    # Without the logs, which name the machine.
    window.screenshot(path=to / "prefect.png", clip={"x": 0, "y": 0, "width": 1100, "height": 500})
    context.close()


def of_a_release(release: tb.Release, to: Path) -> None:
    """Draw what *Read a release* draws."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    nation = release["age_by_sex"].to_pandas(level="nation")
    women = nation[nation["sex"] == "F"]
    plt.figure(figsize=(6.4, 3.6))
    plt.bar(women["age"].astype(str), women["count"], yerr=women["margin"], capsize=2)
    plt.xticks(rotation=90)
    plt.savefig(to / "women.svg", bbox_inches="tight", metadata={"Date": None})


def of_a_plan(to: Path) -> None:
    """Draw the plan of *Plan a budget*."""
    spec = next(block.text for block in blocks(DOCS / "how-to" / "plan-a-budget.md") if block.kind == "yaml")
    lists = blocks(DOCS / "reference" / "spec" / "levels.md")
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "persons.yaml").write_text(spec)
        (folder / "areas.csv").write_text(
            next(each.text for each in lists if 'title="areas.csv"' in each.mark)
        )
        tb.plan(folder / "persons.yaml").draw(to / "plan.svg")


def of_the_desk(running_browser: Any, to: Path) -> None:
    """Show what waits, a decision and a draft, down to where each has said what it is about."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["TABULARIUM_WITNESS"] = str(folder / "witness")
        spec, home, key = _waiting_for_an_officer(folder)
        wanted = Wanted("people", "for a picture", {"spec": str(spec), "home": str(home.path)})
        with running(home.path) as up, up.client() as client:
            asked = {"period": "2027", "same_input": True}
            run = client.create_flow_run_from_deployment(deploy(client, wanted), parameters=asked).id
            until("it waits", lambda: state(client, run) == "Suspended", 120)
            with (
                started(home.path, folder / "desk", "--key", str(key)) as desk,
                windows(running_browser, width=WIDTH) as context,
            ):
                window = Window(context, desk).enter()
                _down_to(window, "table", to / "desk-waiting.png")
                for what, end in (
                    ("Approve a spec", "div.scroll"),
                    ("Review a draft", "div.scroll >> nth=1"),
                ):
                    window.go("/")
                    window.press(what)
                    _down_to(window, end, to / f"desk-{'draft' if 'draft' in what else 'decision'}.png")
        del os.environ["TABULARIUM_WITNESS"]


def of_terminals(to: Path) -> None:
    """Show `check` and `run` of the spec in README, on invented people."""
    spec = next(block.text for block in blocks(ROOT / "README.md") if block.text.startswith("product:"))
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_sample("census", 50_000, folder / "people.parquet", meshblocks=200)
        (folder / "persons.yaml").write_text(spec)
        for command in ("tabularium check persons.yaml", "tabularium run persons.yaml"):
            word = command.split()[1]
            if word == "run":
                printed("tabularium ledger open census --cap 4 --unit record", folder)
            shown = picture([(command, printed(command, folder))], command)
            (to / f"{word}.svg").write_text(shown, encoding="utf-8")


def of_an_account(to: Path) -> None:
    """Draw three years of an account whose cap was raised once, as `tabularium ledger plot` does."""
    now = [datetime(2024, 1, 10, tzinfo=UTC)]
    with TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["TABULARIUM_WITNESS"] = str(folder / "witness")
        with Ledger.connect(Home.at(folder / "home").ledger_url, clock=lambda: now[0]) as books:
            census(books, cap=Fraction(3, 2))
            for number in range(12):
                amount = Fraction(1, 4) if number % 4 == 3 else Fraction(1, 10)
                reserve(books, f"r{number}", product=f"p{number % 4}", period=f"{number}", amount=amount)
                now[0] += timedelta(days=9)
                finish(books, f"r{number}")
                now[0] += timedelta(days=82)
                if number == 7:
                    books.change_account("census", reason="a third year", cap=Fraction(2))
        printed("tabularium ledger plot census account.svg", folder)
        _without_date(folder / "account.svg", to / "account.svg")
        del os.environ["TABULARIUM_WITNESS"]


def _without_date(made: Path, to: Path) -> None:
    """Keep a picture of Matplotlib's without the time at which it was made."""
    text = re.sub(r"<dc:date>.*?</dc:date>", "", made.read_text(encoding="utf-8"))
    to.write_text(re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE), encoding="utf-8")


def of_what_is_drawn(to: Path) -> None:
    """Write the diagrams."""
    for name, draw in DIAGRAMS.items():
        (to / name).write_text(draw(), encoding="utf-8")


def _down_to(window: Window, end: str, file: Path) -> None:
    below = window.page.locator(end).first.bounding_box()
    clip = {"x": 0, "y": 0, "width": WIDTH, "height": below["y"] + below["height"] + 20}
    window.page.screenshot(path=file, clip=clip, full_page=True)


def _waiting_for_an_officer(folder: Path) -> tuple[Path, Home, Path]:
    """Publish people for 2025, lay out a draft for 2026, and have every other release approved first."""
    home, spec, key = Home.at(folder / "home"), folder / "people.yaml", folder / "officer.pem"
    by = make_key(key)
    with Ledger.connect(home.ledger_url) as books:
        books.enrol_key(public_hex(by), officer="A. Sato", by=by)
        terms = {"unit": "record", "relation": "add-remove", "definition": "pure"}
        books.open_account("people", **terms, cap=10, by=by)
    for period, rows in (("2025", 20_000), ("2026", 21_000)):
        write_sample("census", rows, folder / "people.parquet", meshblocks=200, overwrite=True)
        if period == "2026":
            targets = "targets:\n  - {table: age_by_sex, level: nation, margin: 60}\n"
            text = spec.read_text().replace("publication:", "publication:\n  review: officer", 1)
            spec.write_text(text + targets)
        with suppress(AwaitingReview):
            publish(spec, home, period=period)
    with Ledger.connect(home.ledger_url) as books:
        books.change_account("people", reason="as agreed", needs_approval=True, by=by)
    return spec, home, key


@contextmanager
def _site_of(releases: Path) -> Iterator[Path]:
    with TemporaryDirectory() as folder:
        tb.site(releases, out=Path(folder) / "site")
        yield next((Path(folder) / "site" / "products").glob("*/*.html"))


def _of_a_demo(demo: Path) -> None:
    release = tb.open(next((demo / "releases").glob("*/*/current")))
    of_a_release(release, PICTURES)
    of_a_plan(PICTURES)
    with browser() as chromium:
        with opened(chromium, release.folder / "report.html", width=WIDTH) as window:
            of_the_report(window, PICTURES)
        with _site_of(demo / "releases") as page, opened(chromium, page, width=WIDTH) as window:
            of_the_site(window, PICTURES)
        with running(demo / "home") as up:
            of_prefect(up, chromium, PICTURES)
        of_the_desk(chromium, PICTURES)


def main() -> None:
    """Make them all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("demo", type=Path, nargs="?", help="the folder that `make demo` made")
    PICTURES.mkdir(exist_ok=True)
    for make in (of_what_is_drawn, of_terminals, of_a_plan, of_an_account):
        make(PICTURES)
    if demo := parser.parse_args().demo:
        _of_a_demo(demo.resolve())
    for path in sorted(PICTURES.iterdir()):
        print(f"{path.stat().st_size:>9,} {path.name}")


if __name__ == "__main__":
    main()
