"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

SpecPath = Annotated[Path, typer.Argument(help="The release spec (YAML).", metavar="SPEC")]
HomePath = Annotated[
    Path | None,
    typer.Option("--home", help="Home of the installation; default: TABULARIUM_HOME, else ~/.tabularium."),
]
Revises = Annotated[
    str | None,
    typer.Option(help="Publish this product and period again, for this reason; needs an officer's approval."),
]
MeasurementsOf = Annotated[
    str | None,
    typer.Option(
        "--measurements-of",
        metavar="RELEASE_ID",
        help="Make this revision from the measurements of that earlier release: without data, and free.",
    ),
]
SameInput = Annotated[
    bool,
    typer.Option("--same-input", help="Allow an input that was already released for another period."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
