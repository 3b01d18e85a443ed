"""What is asked of cells that come in parts is what numpy finds in all of them together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tabularium.mechanisms.errors import PublicationError
from tabularium.tasks.report.released_cells import ask

SHARES = (0.05, 0.5, 0.95)


@given(
    st.lists(st.floats(0) | st.sampled_from([0.0, -0.0, 1.0, 2.0, 2.0**60]), max_size=40), st.integers(1, 4)
)
def test_quantiles_are_those_of_numpy_over_what_is_finite(numbers: list[float], parts: int) -> None:
    some = [{"x": part} for part in np.array_split(np.array(numbers), parts)]
    ((number, found),) = ask(f"select count(x), quantile_disc(x, {[*SHARES]}) from cells", some)
    finite = np.array([each for each in numbers if np.isfinite(each)])
    assert number == len(finite)
    assert found == (np.quantile(finite, SHARES, method="inverted_cdf").tolist() if number else None)


def test_a_part_that_cannot_be_read_is_told_as_it_was_raised() -> None:
    def parts() -> Iterator[dict[str, NDArray[np.float64]]]:
        yield {"x": np.zeros(3)}
        raise PublicationError("the file is damaged", where="here", hint="restore it")

    with pytest.raises(PublicationError, match="the file is damaged"):
        ask("select count(*) from cells", parts())


def test_memory_that_does_not_suffice_is_named_and_nothing_is_left_in_the_folder_of_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = duckdb.connect
    limits = {"memory_limit": "16MB", "max_temp_directory_size": "1MB"}
    monkeypatch.setattr("duckdb.connect", lambda config: connect(config={**config, **limits}))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PublicationError, match="not enough memory to summarise the cells"):
        ask("select quantile_disc(x, 0.5) from cells", [{"x": np.arange(4_000_000.0)}])
    assert not list(tmp_path.iterdir())
