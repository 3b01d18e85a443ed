"""Verification of a release."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabularium._shown import Shown
from tabularium.mechanisms.errors import InputError
from tabularium.validations.redaction import bare_errors

if TYPE_CHECKING:
    from pandas import DataFrame

    from tabularium.tasks.verify.subject import Finding, Subject


class NotARelease(InputError):
    """There is no certificate that could be read."""

    exit_code = 2


class Verdict(Shown):
    """What each check came to: true if none failed.

    Attributes
    ----------
    by_release
        Each release that was verified, and what its checks came to.
    series
        What came of holding the releases against one another.
    """

    def __init__(self, by_release: Sequence[tuple[Subject, list[Finding]]], series: list[Finding]) -> None:
        self.by_release, self.series = tuple(by_release), tuple(series)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All of them: ``group``, ``what``, ``outcome`` (checked, unchecked, failed) and ``said``."""
        return (*(finding for _, findings in self.by_release for finding in findings), *self.series)

    def __bool__(self) -> bool:
        return not self.failed

    @property
    def failed(self) -> tuple[Finding, ...]:
        """What is not as the release says."""
        return tuple(finding for finding in self.findings if finding.outcome == "failed")

    @property
    def unchecked(self) -> tuple[Finding, ...]:
        """What could not be checked, and what it needs: an export of the ledger, the agency's key."""
        return tuple(finding for finding in self.findings if finding.outcome == "unchecked")

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON has it, with what nobody can verify."""
        from tabularium.tasks.verify.verify_release import NOBODY_CAN

        return {
            "failed": not self,
            "releases": [
                {
                    "folder": str(subject.folder),
                    "release_id": subject.certificate.release_id,
                    "certificate": subject.digest,
                    "findings": [finding.as_dict() for finding in findings],
                }
                for subject, findings in self.by_release
            ],
            "series": [finding.as_dict() for finding in self.series],
            "nobody_can_verify": list(NOBODY_CAN),
        }

    def to_pandas(self) -> DataFrame:
        """Return a row for each check: ``group``, ``what``, ``outcome``, ``said``."""
        import pandas as pd

        return pd.DataFrame([finding.as_dict() for finding in self.findings])

    @property
    def summary(self) -> str:
        """How many checks came to what."""
        checked = len(self.findings) - len(self.failed) - len(self.unchecked)
        return f"{checked} checked, {len(self.unchecked)} could not be checked, {len(self.failed)} failed"

    def _headline(self) -> str:
        return self.summary

    def _rows(self) -> DataFrame:
        frame = self.to_pandas()
        return frame[frame["outcome"] != "checked"]


@bare_errors
def verify(
    folder: str | os.PathLike[str],
    *,
    key: str | os.PathLike[str] | None = None,
    export: str | os.PathLike[str] | None = None,
    since: Sequence[str | os.PathLike[str]] = (),
) -> Verdict:
    """Check a release: files, signature, certificate, budget, and the tables made again. Needs no home.

    Parameters
    ----------
    key
        The agency's public key for releases, which did not come with the release.
    export
        An exported ledger, which did not come with the release.
    since
        Folders of earlier releases, the oldest first, against which it is held.

    Raises
    ------
    NotARelease
        There is no certificate that can be read.
    """
    from tabularium.tasks.verify.subject import NotARelease as Unrecognised
    from tabularium.tasks.verify.subject import Subject
    from tabularium.tasks.verify.verify_release import verify_release, verify_series

    given, books = (None if path is None else Path(path) for path in (key, export))
    subjects = [Subject(Path(release), given, books) for release in (*since, folder)]
    try:
        findings = [(subject, list(verify_release(subject))) for subject in subjects]
        return Verdict(findings, verify_series(subjects, books) if since else [])
    except Unrecognised as error:
        raise NotARelease(str(error)) from None
