"""Shared settings of the tests: nothing is read from or written to the user's own home.

Every promise is held by a test of ``make test``. What ``make audit`` adds is search, and more of the same:

===============================================  =====================================  =========================
what                                             ``make test``                          ``make audit``
===============================================  =====================================  =========================
suites of rules, in processes of the tests       in a few lines; by the library in its  by Great Expectations
                                                 own tests, two commands, leak runs
replay audits of registered mechanisms           each set of parameters, each           each with each
                                                 definition
their search, after the first set of parameters  3 examples, every 40th edge pair       12, every 8th
sound twins                                      3 examples, every 15th edge pair       40, every one
worst pairs                                      the first definition                   every one
what the outputs show                            mechanisms that must show something    all
kills of a release                               every 32nd durable event               every one
kills of the ledger                              every 13th (PostgreSQL: 29th)          every one
wrong certificates                               a change of each name, 80 of 250       of each field, all
random kills, races, damages                     15, 100, 5                             300, 1 000, 100
simulated releases for margins                   3 to 60                                60 to 1 000
examples of Hypothesis                           2 to 150, always the same              50 to 1 000, others
runs that are killed, cancelled, resumed         decisions found, a folder waited for    all, on both databases
a bad day                                        2 products, 2 drops, no faults         21, 120, with faults
Spark                                            one release on a cluster               every test of the engine
===============================================  =====================================  =========================
"""

from __future__ import annotations

import gc
import os
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.plain_suites import judge_here, judge_plainly_in_children
from tests.sizes import full

pytest_plugins = ["tests.ledger.fixtures", "tests.tasks.arrival.stores"]

# Before anything imports Prefect: its home is fixed at import.
_scratch = Path(tempfile.mkdtemp(prefix="tabularium-tests-"))
os.environ["HOME"] = str(_scratch)
os.environ["PREFECT_HOME"] = str(_scratch / "prefect")
os.environ["PREFECT_SERVER_ANALYTICS_ENABLED"] = "false"
os.environ["PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS"] = "180"
os.environ["DO_NOT_TRACK"] = "1"
for name in (
    *("TABULARIUM_HOME", "TABULARIUM_LEDGER", "TABULARIUM_WITNESS", "TABULARIUM_KEY_PASSPHRASE"),
    "TABULARIUM_WORKSPACES",
    *("TABULARIUM_RELEASE_KEY", "TABULARIUM_RELEASE_KEY_COMMAND", "TABULARIUM_RELEASE_KEY_PASSPHRASE"),
    *("TABULARIUM_SECRET_COMMAND", "TABULARIUM_BACKUP_PASSPHRASE"),
    "PREFECT_API_URL",
    *("COLUMNS", "LINES"),  # a console that is made while they are set keeps its width for ever
):
    os.environ.pop(name, None)

# The tests start a hundred processes: they compile our modules once, not each for itself.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


# At the usual size Hypothesis tries the same examples in every run, so that none fails by chance; at full size others.
settings.register_profile(
    "tabularium",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],  # a busy machine is no fault
    **({} if full() else {"derandomize": True, "database": None}),
)
settings.load_profile("tabularium")


judge_here(plainly=not full())


def pytest_configure(config: pytest.Config) -> None:
    """Settle how suites are judged where tests run: in the workers of xdist, and not in what starts them."""
    starts_workers = getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput")
    if not full() and not starts_workers:
        judge_plainly_in_children()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Let no collection of garbage go through the ten thousand tests, and all that they import, again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before xdist looks for groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep together what shares a fixture of a module, made once then; skip what only the full size is for."""
    for item in items:
        if isinstance(item, pytest.Function) and _shares(item) and not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
    if full():
        return
    skipped = pytest.mark.skip(reason="at full size only: make audit")
    for item in items:
        if item.get_closest_marker("audit"):
            item.add_marker(skipped)


def _shares(item: pytest.Function) -> bool:
    found = (item._fixtureinfo.name2fixturedefs.get(name, ()) for name in item.fixturenames)
    return any(each.scope == "module" for defs in found for each in defs)


@pytest.hookimpl(tryfirst=True)  # while the servers of the fixtures are still there
def pytest_runtest_teardown() -> None:
    """Wait until Prefect has sent this test's events, and end the thread that sends them.

    It would go on for ever, trying to reach a server that is gone, and log each time: into the middle of an audit,
    say, which hears all that is logged in this process and takes it for the mechanism's words.
    """
    if prefect := sys.modules.get("prefect.events.worker"):
        prefect.EventsWorker.drain_all()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    import shutil

    shutil.rmtree(_scratch, ignore_errors=True)
