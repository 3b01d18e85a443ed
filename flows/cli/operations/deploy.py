"""``tabularium deploy``: a product that runs by itself; ``notify``: who hears of its runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer

from tabularium.flows.cli.terminal import (
    AsJson,
    HomePath,
    SameInput,
    SpecPath,
    TerminalReporter,
    one_line_errors,
    out,
    print_json,
    working,
)

if TYPE_CHECKING:
    from tabularium._check import Paying
    from tabularium.flows.operations.deployments.deployment import Wanted
    from tabularium.flows.operations.deployments.foretold import Foretold
    from tabularium.tasks.arrival.inboxes import Inbox
    from tabularium.tasks.runtime.home import Home
    from tabularium.validations.release_spec.model import ReleaseSpec


def deploy(
    spec: SpecPath,
    cron: Annotated[
        str | None, typer.Option(help='Minute, hour, day, month, weekday, such as "0 6 1 * *".')
    ] = None,
    timezone: Annotated[str, typer.Option(help="Time zone of --cron and of periods.")] = "UTC",
    period: Annotated[
        str | None,
        typer.Option(help='Period, made from the schedule: "{scheduled:%Y-Q%q}", "{previous_month:%Y-%m}".'),
    ] = None,
    source: Annotated[str | None, typer.Option(help="Read this file, glob, folder or URL instead.")] = None,
    on_arrival: Annotated[
        str | None,
        typer.Option(
            help="Run when data arrive here: a folder, or s3://bucket/inbox.",
            metavar="INBOX",
        ),
    ] = None,
    periods: Annotated[
        str,
        typer.Option(help="Pattern of accepted periods; default: the spec's and later ones that have begun."),
    ] = "",
    retention: Annotated[float, typer.Option(help="Days after which finished drops are deleted.")] = 30,
    poll: Annotated[float, typer.Option(help="Seconds between two checks of the inbox.")] = 60,
    due: Annotated[
        float | None,
        typer.Option(
            help="Days after a period until its data are due; default: as many as it has, at most 30.",
            metavar="DAYS",
            min=0,
            max=3_650,
        ),
    ] = None,
    limit: Annotated[
        list[str] | None,
        typer.Option(
            help="Limit of the inbox, repeatable: files=10000, size=64GiB or manifest=2MiB of a drop, "
            "drops=200 of a check.",
            metavar="NAME=VALUE",
        ),
    ] = None,
    same_input: SameInput = False,
    warn_below: Annotated[
        str | None,
        typer.Option(help="Warn when less of the account's cap is left; 20% until set."),
    ] = None,
    pool: Annotated[
        str,
        typer.Option(help="Work pool whose workers have home and data; default: tabularium."),
    ] = "",
    queue: Annotated[str | None, typer.Option(help="Work queue of that pool.")] = None,
    tag: Annotated[
        list[str] | None, typer.Option(help="Tag of the deployment and its runs; repeatable.")
    ] = None,
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove the deployment; SPEC may be the product's name.")
    ] = False,
    home: HomePath = None,
    as_json: AsJson = False,
) -> None:
    """Deploy SPEC to Prefect, on a schedule or for arriving data. Repeating it changes only what differs.

    Give schedule, inbox, pool and tags in one command: what you leave out is removed. The server is the
    configured one (PREFECT_API_URL, or a profile), else that of `tabularium up` for this home.
    """
    with one_line_errors():
        from tabularium.tasks.runtime.home import Home

        at = Home.found(home)
        if remove:
            with working("telling Prefect's server"):
                done = _remove(at, spec)
            message = f"{'No longer' if done['removed'] else 'Was not'} deployed: {done['deployment']}"
        else:
            reporter = TerminalReporter(quiet=as_json)
            with working("getting ready"):
                from tabularium.flows.operations.deployments.deployment import (
                    Wanted,
                    checked,
                    description,
                    timing,
                    utc,
                )
                from tabularium.flows.operations.names_in_prefect import WORK_POOL, own_tags
                from tabularium.tasks.arrival.inboxes import DEFAULT, Inbox
                from tabularium.tasks.runtime.progress import note, reporting_to
                from tabularium.tasks.runtime.run import Request

            limits, tags = DEFAULT.changed(limit or []), own_tags(tag or [])
            with reporting_to(reporter):
                when = timing(cron, timezone, period)
            request = Request.of(spec, source, when.period, at.path, same_input=same_input)
            with reporting_to(reporter):
                loaded = checked(request)
                if cron is not None and period is None:
                    note(f"each run is of period {loaded.spec.period}; --period makes it from the schedule")
            product = loaded.spec.product
            parameters = {
                "spec": request.spec,
                "source": request.source,
                "period": period,
                "home": request.home,
                "timezone": timezone,
                "cron": cron,
                "same_input": same_input,
            }
            about = (product, description(loaded), parameters, cron, timezone)
            wanted = Wanted(*about, pool or WORK_POOL, queue, tags)
            inbox = None
            if on_arrival is not None:
                inbox = Inbox(
                    product,
                    on_arrival,
                    request.spec,
                    periods,
                    retention,
                    poll,
                    timezone=timezone,
                    due=due,
                    limits=limits,
                )
            with working("telling Prefect's server"):
                done = _make(at, wanted, inbox, loaded.spec.dataset, warn_below)
            account, ahead = _foretold(loaded.spec, at, cron, timezone, period)
            done |= {
                "next": None if when.following is None else utc(when.following),
                "period": loaded.spec.period,
                "account": None if account is None else account.as_json(),
                "forecast": None if ahead is None else ahead.as_json(),
                "notes": reporter.notes,
            }
            lines = [f"Deployed: {done['url']}"]
            if when.following is not None:
                lines.append(f"Next run: {when.following:%Y-%m-%d %H:%M %Z}, period {loaded.spec.period}")
            if inbox is not None:
                lines.append(f"Inbox:    {done['inbox']}")
            lines += [*done["no_longer"], *([] if account is None else [account.words])]
            message = "\n".join([*lines, *([] if ahead is None else ahead.sentences())])
        if as_json:
            print_json(done)
        else:
            out.print(message, soft_wrap=True, markup=False, highlight=False)


def _foretold(
    spec: ReleaseSpec, home: Home, cron: str | None, timezone: str, period: str | None
) -> tuple[Paying | None, Foretold | None]:
    """Return what the account can pay, and what becomes of a schedule that makes periods."""
    from tabularium._check import paying, schedule_ahead
    from tabularium.flows.operations.periods import is_template

    account = paying(spec, home.path)
    if cron is None or period is None or not is_template(period):
        return account, None
    return account, schedule_ahead(spec, account, (cron, timezone, period))


def _make(
    home: Home, wanted: Wanted, inbox: Inbox | None, account: str, warn_below: str | None
) -> dict[str, Any]:
    """Make all that belongs to a deployment; return its description for programs."""
    from prefect.client.orchestration import get_client

    from tabularium.flows.operations.deployments.deployment import Triggers, triggers_of
    from tabularium.flows.operations.deployments.deployment import deploy as make
    from tabularium.flows.operations.deployments.prepare import ensure
    from tabularium.flows.operations.names_in_prefect import FLOW
    from tabularium.flows.operations.prefect_api import connected
    from tabularium.flows.operations.reporting.announcements import set_threshold
    from tabularium.tasks.arrival import inboxes

    with connected(home) as url, get_client(sync_client=True) as client:
        before = triggers_of(client, home, wanted.product)
        if warn_below is not None:
            set_threshold(home, account, warn_below)
        if inbox is None:
            inboxes.remove(home, wanted.product)
        else:
            inbox = inboxes.checked(home, inbox)
        made = make(client, wanted)
        ensure(home)
        if inbox is not None:  # watched only now: a drop that is seen before has no deployment to run
            inboxes.add(home, inbox)
    schedule = None if wanted.cron is None else f"{wanted.cron}, {wanted.timezone}"
    return {
        "deployment": f"{FLOW}/{wanted.product}",
        "id": str(made),
        "url": f"{str(url).removesuffix('/api')}/deployments/deployment/{made}",
        "work_pool": wanted.pool,
        "work_queue": wanted.queue,
        "cron": wanted.cron,
        "timezone": wanted.timezone,
        "inbox": None if inbox is None else inbox.address,
        "no_longer": before.lost(Triggers(schedule, None if inbox is None else inbox.address, wanted.pool)),
    }


def _remove(home: Home, spec: Path) -> dict[str, Any]:
    from prefect.client.orchestration import get_client

    from tabularium.flows.operations.deployments.deployment import remove
    from tabularium.flows.operations.names_in_prefect import FLOW
    from tabularium.flows.operations.prefect_api import connected
    from tabularium.tasks.arrival import inboxes
    from tabularium.validations.release_spec.load import load_spec

    # For a spec that is gone, the product's name is enough.
    product = load_spec(spec).spec.product if spec.exists() or spec.suffix else str(spec)
    with connected(home), get_client(sync_client=True) as client:
        removed = remove(client, product)
        watched = inboxes.remove(home, product)
    return {"deployment": f"{FLOW}/{product}", "removed": removed or watched}


def notify(
    file: Annotated[Path, typer.Argument(help="Automations, such as deploy/automations.yaml.")],
    to: Annotated[
        str | None,
        typer.Option(
            envvar="TABULARIUM_NOTIFY",
            show_envvar=True,
            help="https://… or mailtos://…, needed the first time; with a password in it, set "
            "TABULARIUM_NOTIFY instead.",
        ),
    ] = None,
    home: HomePath = None,
    as_json: AsJson = False,
) -> None:
    """Set up Prefect's notifications from FILE. Repeating it changes only what differs."""
    with one_line_errors():
        from prefect.client.orchestration import get_client

        from tabularium.flows.operations.deployments.notifications import load_automations
        from tabularium.flows.operations.prefect_api import connected
        from tabularium.tasks.runtime.home import Home

        with connected(Home.found(home)), get_client(sync_client=True) as client:
            names = load_automations(client, file, to or "")
        if as_json:
            print_json({"automations": names})
        else:
            for name in names:
                out.print(name, soft_wrap=True, markup=False, highlight=False)
            host = urlsplit(to).hostname if to else None
            message = (
                f"Messages go to {host or 'the address given'}." if to else "Messages go where they went."
            )
            out.print(message, soft_wrap=True, markup=False, highlight=False)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(
        epilog='Example:  tabularium deploy census.yaml --cron "0 6 1 * *" --timezone Europe/Berlin '
        '--period "{previous_month:%Y-%m}"'
    )(deploy)
    app.command(
        epilog="Example:  tabularium notify deploy/automations.yaml --to https://hooks.example.org/release"
    )(notify)
