"""Drops become published releases with nobody typing; nothing else does."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from tabularium.flows.arrival import announce
from tabularium.flows.cli.operations.deploy import _make
from tabularium.flows.operations.deployments.deployment import Wanted, deploy
from tabularium.flows.operations.deployments.deployment import remove as remove_deployment
from tabularium.flows.operations.prefect_api import OwnServer, settings_of
from tabularium.mechanisms.errors import InputError
from tabularium.tasks.arrival import drop_outcomes
from tabularium.tasks.arrival.claims import Claims, Drop
from tabularium.tasks.arrival.inboxes import Inbox, add, inbox_of, remove
from tabularium.tasks.arrival.look import look
from tests.flows.operations.installations import Up
from tests.flows.operations.products import Product, deployed, runs_of, until
from tests.sizes import runs
from tests.tasks.arrival.drops import TEXT, damage, drops_of, write_drop, write_inbox

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("operations")]


def drops(product: Product) -> list[Drop]:
    with Claims.at(product.up.home) as claims:
        return claims.of_product(product.name)


def states(product: Product) -> dict[str, str]:
    return {drop.place: drop.state for drop in drops(product)}


def data(number: int) -> dict[str, bytes]:
    """Different data for each period: the same twice would be refused."""
    return {"people.csv": TEXT + b"A1,1,1\n" * number}


@contextmanager
def arriving(up: Up, folder: Path, name: str) -> Iterator[tuple[Any, Product, Path]]:
    """Deploy a product whose data arrive; yields a client, the product and its inbox."""
    box = folder / "inbox"
    box.mkdir()
    with up.client() as client:
        product = deployed(up, client, folder / "spec", name)
        (product.spec.parent / "people.csv").unlink()
        up.call("deploy", str(product.spec), "--on-arrival", str(box), "--periods", "202[6-9]")
        inbox = inbox_of(up.home, name)
        assert inbox is not None
        add(up.home, Inbox(**{**vars(inbox), "patience": 1.0}))
        try:
            yield client, product, box
        finally:
            remove(up.home, name)


def put(box: Path, product: Product, year: int) -> float:
    """Write a whole drop aside and rename it into the inbox; return when."""
    aside = write_drop(box.parent, f"of-{year}", data(year - 2025), product=product.name, period=str(year))
    aside.rename(box / aside.name)
    return time.time()


def until_published(client: Any, product: Product, names: set[str]) -> None:
    want = {f"done/{name}" for name in names}
    until(
        "the drops are published and put away",
        lambda: {place for place, state in states(product).items() if state == "published"} == want,
        180,
        lambda: (states(product), [run.state for run in runs_of(client, product.deployment)]),
    )


def scheduled_after(client: Any, product: Product, dropped: dict[str, float]) -> float:
    """The longest time from a complete drop to its scheduled run."""
    created = {
        run.parameters["period"]: run.created.timestamp() for run in runs_of(client, product.deployment)
    }
    return max(created[period] - when for period, when in dropped.items())


def test_a_drop_is_published_and_the_same_again_and_damaged_ones_are_not(
    installation: Up, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with arriving(installation, tmp_path, "arriving") as (client, product, box):
        dropped = {"2026": put(box, product, 2026)}
        chance, number = random.Random(1), runs(3, 20)
        for each in range(number):
            aside = write_drop(tmp_path, f"damaged{each}", product=product.name, period="2029")
            damage(aside, chance)
            aside.rename(box / aside.name)
        until_published(client, product, {"of-2026"})
        took = scheduled_after(client, product, dropped)
        with capsys.disabled():
            print(f"\nfrom a complete drop to its scheduled run: {took:.1f} s")
        assert took < 60  # less than 10 where nothing else runs; the line above says what it was
        until("the others lie in quarantine", lambda: len(drops(product)) == 1 + number, 30)
        shutil.copytree(box / "done" / "of-2026", box / "of-2026")
        until("the same again is quarantined", lambda: "quarantine/of-2026" in states(product), 30)
        line = (box / "quarantine" / "of-2026.why.txt").read_text()
        assert line.startswith("period already published")

        def told() -> bool:  # it says so once the drop lies where it belongs
            log = product.up.log("watcher")
            return all(f"inbox of arriving: drop {each.id} {each.state}" in log for each in drops(product))

        until("the watcher tells of every drop", told, 30)
        assert sorted(states(product).values()) == ["published"] + ["quarantined"] * (number + 1)
        assert (
            len(runs_of(client, product.deployment))
            == len(product.charges())
            == len(product.published())
            == 1
        )


@pytest.mark.audit
def test_two_drops_at_once_and_one_that_grows(
    installation: Up, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with arriving(installation, tmp_path, "at-once") as (client, product, box):
        content = data(3)["people.csv"]
        growing = write_drop(box, "growing", {"people.csv": content}, product=product.name, period="2028")
        (growing / "people.csv").write_bytes(b"")  # which is not what its manifest says, yet
        with (growing / "people.csv").open("ab") as file:
            for start in range(0, len(content), 1000):
                assert "growing" not in states(product)
                time.sleep(0.5)
                file.write(content[start : start + 1000])
                file.flush()
        grown = time.time()
        dropped = {str(year): put(box, product, year) for year in (2026, 2027)} | {"2028": grown}
        until_published(client, product, {"of-2026", "of-2027", "growing"})
        took = scheduled_after(client, product, dropped)
        with capsys.disabled():
            print(f"\nfrom a complete drop to its scheduled run, of three at once: {took:.1f} s")
        assert took < 180  # less than 10 where nothing else runs
        assert sorted(charge.period for charge in product.charges()) == ["2026", "2027", "2028"]
        assert len(runs_of(client, product.deployment)) == len(product.published()) == 3


@contextmanager
def without_workers(server: OwnServer) -> Iterator[Any]:
    """Yield a client of a server that nobody takes runs from."""
    from prefect.client.orchestration import get_client

    with settings_of(server.url, server.sign_in), get_client(sync_client=True) as client:
        yield client


def test_a_drop_has_one_run_however_often_it_is_announced(prefect_server: OwnServer, tmp_path: Path) -> None:
    from prefect.states import Cancelled, Crashed, Suspended

    home, inbox = write_inbox(tmp_path, periods="20[0-9]{2}")
    with without_workers(prefect_server) as client:
        deployment = deploy(client, Wanted(inbox.product, "a test", {"spec": inbox.spec}))

        def announced(times: int = 3) -> list[str]:
            """The drops that have runs, in the order in which these were made."""
            for _ in range(times):
                look(home, inbox)
                announce(home, inbox)
            made = sorted(runs_of(client, deployment), key=lambda run: run.created)
            return [run.parameters["period"] for run in made]

        for year in range(2020, 2024):
            write_drop(inbox, f"of-{year}", period=str(year))
            look(home, inbox)
        assert announced() == ["2020"]  # one after another, in the order in which they came
        assert {drop.period for drop in drops_of(home) if drop.announced_at} == {
            str(year) for year in range(2020, 2024)
        }
        (first,) = runs_of(client, deployment)
        client.set_flow_run_state(first.id, Crashed(), force=True)
        assert announced() == ["2020"], "it is started again by and by"
        client.set_flow_run_state(first.id, Suspended(timeout_seconds=600), force=True)
        assert announced() == ["2020", "2021"], "who waits for a person lets others by"
        second = next(run for run in runs_of(client, deployment) if run.id != first.id)
        by_period = {drop.period: drop for drop in drops_of(home)}
        drop_outcomes.started(home, f"drop:{by_period['2021'].id}")
        for run in (first, second):
            client.set_flow_run_state(run.id, Cancelled(), force=True)
        assert announced() == ["2020", "2021", "2022"]
        ended = {drop.period: drop.state for drop in drops_of(home)}
        assert ended == {"2020": "failed", "2021": "failed", "2022": "arrived", "2023": "arrived"}
        shutil.rmtree(Path(inbox.address) / "of-2020")  # and a corrected one has its period
        write_drop(inbox, "corrected", period="2020")
        look(home, inbox)
        assert [drop.state for drop in drops_of(home) if drop.period == "2020"] == ["gone", "arrived"]


def test_data_of_a_product_that_is_not_deployed_are_told_of_in_a_line(
    prefect_server: OwnServer, tmp_path: Path
) -> None:
    home, inbox = write_inbox(tmp_path)
    write_drop(inbox)
    look(home, inbox)
    with without_workers(prefect_server) as client:
        remove_deployment(client, inbox.product)
        with pytest.raises(InputError, match="product small: data arrived for this product, which is not"):
            announce(home, inbox)


def test_an_inbox_is_watched_only_once_its_drops_start_something(installation: Up, tmp_path: Path) -> None:
    inbox = Inbox("never-made", str(tmp_path), str(tmp_path / "never-made.yaml"))
    wanted = Wanted(inbox.product, "a test", {}, cron="at noon")
    with pytest.raises(ValueError, match="cron"):
        _make(installation.home, wanted, inbox, "people", None)
    assert inbox_of(installation.home, inbox.product) is None


def test_a_drop_is_told_of_once_the_server_answers_again(installation: Up, tmp_path: Path) -> None:
    home, inbox = write_inbox(tmp_path)
    write_drop(inbox, product="another")
    look(home, inbox)
    with installation.client() as client:
        away = temporary_settings({PREFECT_API_URL: "http://127.0.0.1:1/api"})
        with away, pytest.raises(httpx.ConnectError):
            announce(home, inbox)
        assert announce(home, inbox) == 1
        assert announce(home, inbox) == 0
        (drop,) = drops_of(home)
        quarantined = {"event": {"name": ["tabularium.drop.quarantined"]}}

        def heard() -> bool:
            page = client.request("POST", "/events/filter", json={"filter": quarantined}).json()
            return [each["payload"]["drop"] for each in page["events"]].count(drop.id) == 1

        until("the server has heard of it", heard, 15)
