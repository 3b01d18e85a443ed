"""What the schedules of an account's products will cost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tabularium._paying import paying
from tabularium.mechanisms.errors import TabulariumError

if TYPE_CHECKING:
    from tabularium.flows.operations.deployments.foretold import Foretold
    from tabularium.tasks.runtime.home import Home


def ahead(home: Home, account: str) -> Iterator[tuple[str, Foretold]]:
    """Go through the products of an account that are scheduled here; none where no Prefect API answers."""
    from tabularium.flows.operations.deployments.foretold import foretold, schedules_of
    from tabularium.validations.spec.load import load_spec

    try:
        schedules = schedules_of(home)
    except TabulariumError:
        return
    for product, spec, schedule in schedules:
        with suppress(TabulariumError, OSError):  # a spec that is not here, or not in order any more
            loaded = load_spec(Path(spec)).spec
            if loaded.dataset != account:
                continue
            pays = paying(loaded, home.path)
            if pays is not None and pays.terms is not None:
                yield (
                    product,
                    foretold(
                        *(loaded, schedule),
                        charged=pays.charged,
                        pays_for=pays.periods or 0,
                        terms=pays.terms,
                        now=datetime.now(UTC),
                    ),
                )
