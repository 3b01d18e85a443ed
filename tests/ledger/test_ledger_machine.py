"""Random lives of charges against a model that keeps only what the rules say."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tabularium.ledger import (
    BadValue,
    BudgetExhausted,
    Conflict,
    LedgerError,
    NotApproved,
    StaleFence,
    UnknownRelease,
    WrongState,
)
from tabularium.ledger.keys import public_hex
from tests.ledger.scene import census, open_books

RELEASES = st.sampled_from(["r1", "r2", "r3", "r4", "r5", "r6"])
REVIEWED = st.sampled_from(["r1", "r2"])
DIGESTS = st.sampled_from(["d1", "d2"])
CAP, PERIOD_CAP, PRODUCT_CAP = Fraction(1), Fraction(3, 5), Fraction(4, 5)


@dataclass
class Known:
    content: tuple[Fraction, str, str]
    state: str = "reserved"
    fence: int = 0
    allowed: int = 3
    measurement: str | None = None
    publication: str | None = None
    draft: str | None = None
    accepted: bool = False
    withdrawn: bool = False


class Lives(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tabularium-lives-"))
        self.books = open_books(self.folder)
        census(self.books, cap=CAP, cap_per_period=PERIOD_CAP, cap_per_product=PRODUCT_CAP)
        self.known: dict[str, Known] = {}
        self.officer = Ed25519PrivateKey.generate()
        self.books.enrol_key(public_hex(self.officer), officer="A. Ro", by=self.officer)
        self.entries = 2

    def used(self, place: int | None = None, name: str = "") -> Fraction:
        return sum(
            (
                known.content[0]
                for known in self.known.values()
                if known.state != "voided" and (place is None or known.content[place] == name)
            ),
            Fraction(0),
        )

    def attempt(self, expected: type[LedgerError] | None, step: object) -> None:
        try:
            step()  # type: ignore[operator]
        except LedgerError as error:
            assert type(error) is expected, (type(error), expected)
        else:
            assert expected is None, expected

    @rule(
        release=RELEASES,
        amount=st.sampled_from([Fraction(1, 10), Fraction(1, 3), Fraction(1, 2)]),
        product=st.sampled_from(["p", "q"]),
        period=st.sampled_from(["2026", "2027"]),
    )
    def reserve(self, release: str, amount: Fraction, product: str, period: str) -> None:
        content, known = (amount, product, period), self.known.get(release)
        expected: type[LedgerError] | None = None
        if known is not None:
            expected = None if known.content == content else Conflict
        elif any(
            known.measurement is not None and known.state != "published" and known.content[1:] == content[1:]
            for name, known in self.known.items()
            if name in ("r1", "r2")
        ):
            expected = NotApproved  # another spec of the product and period is in review, or was withheld
        elif (
            self.used() + amount > CAP
            or self.used(1, product) + amount > PRODUCT_CAP
            or self.used(2, period) + amount > PERIOD_CAP
        ):
            expected = BudgetExhausted
        self.attempt(
            expected,
            lambda: self.books.reserve(
                "census",
                **{"release_id": release, "amount": amount, "product": product, "period": period},
                spec_digest=release,
                review=release in ("r1", "r2"),
            ),
        )
        if known is None and expected is None:
            self.known[release] = Known(content)
            self.entries += 1

    @rule(release=RELEASES)
    def drawing(self, release: str) -> None:
        known = self.known.get(release)
        expected: type[LedgerError] | None = None
        if known is None:
            expected = UnknownRelease
        elif known.state not in ("reserved", "drawing"):
            expected = WrongState
        elif known.fence == known.allowed:
            expected = NotApproved
        self.attempt(expected, lambda: self.books.drawing(release))
        if known is not None and expected is None:
            known.state, known.fence = "drawing", known.fence + 1
            self.entries += 1

    @rule(release=RELEASES)
    def allow_attempts(self, release: str) -> None:
        known = self.known.get(release)
        drawn = known is not None and known.state == "drawing"
        step = self.books.allow_attempts
        expected = UnknownRelease if known is None else None if drawn else WrongState
        self.attempt(expected, lambda: step(release, reason="a reason", by=self.officer))
        if known is not None and drawn and known.fence == known.allowed:
            known.allowed += 3
            self.entries += 1

    @rule(release=RELEASES, behind=st.integers(-1, 1), digest=DIGESTS, publish=st.booleans())
    def record(self, release: str, behind: int, digest: str, publish: bool) -> None:
        known = self.known.get(release)
        fence = (known.fence if known else 1) - behind
        if fence < 1:
            return
        step = self.books.published if publish else self.books.measured
        expected: type[LedgerError] | None = None
        moves = False
        if known is None:
            expected = UnknownRelease
        elif fence != known.fence:
            expected = StaleFence if fence < known.fence else Conflict
        elif publish:
            repeats = known.state == "published" and known.publication == digest
            unbound = known.draft is None and release not in ("r1", "r2")
            moves = known.state == "measured" and (unbound or known.accepted)
            expected = None if repeats or moves else WrongState
            if known.state == "measured" and known.accepted and known.draft != digest:
                moves, expected = False, Conflict
        else:
            repeats = known.state in ("measured", "published") and known.measurement == digest
            moves = known.state == "drawing"
            expected = None if repeats or moves else WrongState
        self.attempt(expected, lambda: step(release, fence, digest=digest))
        if known is not None and moves:
            self.entries += 1
            if publish:
                known.state, known.publication = "published", digest
            else:
                known.state, known.measurement = "measured", digest

    @rule(release=RELEASES, digest=DIGESTS)
    def lay_out(self, release: str, digest: str) -> None:
        known = self.known.get(release)
        expected: type[LedgerError] | None = None
        if known is None:
            expected = UnknownRelease
        elif known.fence == 0:
            expected = BadValue  # no fence was ever given
        elif known.draft is not None:
            expected = None if known.draft == digest else Conflict
        elif known.state != "measured":
            expected = WrongState
        fence = known.fence if known else 1
        step = self.books.submit_draft
        self.attempt(expected, lambda: step(release, fence, digest=digest, criteria=("wrong",)))
        if known is not None and expected is None and known.draft is None:
            known.draft = digest
            self.entries += 1

    @rule(release=REVIEWED, digest=DIGESTS)
    def come_to_a_draft(self, release: str, digest: str) -> None:
        """What single steps seldom come to: whatever of it is refused is refused as it would be alone."""
        self.reserve(release, Fraction(1, 10), "p", "2026")
        self.drawing(release)
        self.record(release, 0, digest, False)
        self.lay_out(release, digest)

    @rule(release=REVIEWED, digest=DIGESTS, consulted=st.booleans())
    def accept(self, release: str, digest: str, consulted: bool) -> None:
        known = self.known.get(release)
        expected = self.undecidable(known, digest)
        if known is not None and expected is None and known.state == "withheld":
            expected = WrongState
        step = self.books.accept
        call = {"draft": digest, "by": self.officer, "consulted_confidential": consulted}
        self.attempt(expected, lambda: step(release, **call))
        if known is not None and expected is None and not known.accepted:
            known.accepted = True
            self.entries += 1

    @rule(release=REVIEWED, digest=DIGESTS)
    def withhold(self, release: str, digest: str) -> None:
        known = self.known.get(release)
        expected = self.undecidable(known, digest)
        if known is not None and expected is None and known.accepted:
            expected = WrongState
        step = self.books.withhold
        self.attempt(expected, lambda: step(release, draft=digest, criterion="wrong", by=self.officer))
        if known is not None and expected is None and known.state != "withheld":
            known.state = "withheld"
            self.entries += 1

    @rule(release=RELEASES)
    def withdraw(self, release: str) -> None:
        known = self.known.get(release)
        published = known is not None and known.state == "published"
        expected = UnknownRelease if known is None else None if published else WrongState
        self.attempt(expected, lambda: self.books.withdraw(release, reason="a reason", by=self.officer))
        if known is not None and published and not known.withdrawn:
            known.withdrawn = True
            self.entries += 1

    def undecidable(self, known: Known | None, digest: str) -> type[LedgerError] | None:
        if known is None:
            return UnknownRelease
        if known.draft is None:
            return WrongState
        return None if known.draft == digest else Conflict

    @rule(release=RELEASES, void=st.booleans(), sign=st.booleans())
    def end(self, release: str, void: bool, sign: bool) -> None:
        known = self.known.get(release)
        end, froms = ("voided", ["reserved"]) if void else ("abandoned", ["drawing", "measured"])
        expected: type[LedgerError] | None = None
        if known is None:
            expected = UnknownRelease
        elif known.state not in [end, *froms] or known.draft is not None:
            expected = WrongState
        elif known.state == "measured" and release in ("r1", "r2") and not sign:
            expected = NotApproved
        signer = {"by": self.officer} if void or sign else {}
        step = self.books.void if void else self.books.abandon
        self.attempt(expected, lambda: step(release, "a reason", **signer))
        if known is not None and expected is None and known.state in froms:
            known.state = end
            self.entries += 1

    @rule()
    def retire(self) -> None:
        """An account that was ever charged is not retired, whatever became of its charges."""
        if self.known:
            self.attempt(
                Conflict, lambda: self.books.retire_account("census", reason="a reason", by=self.officer)
            )

    @invariant()
    def the_books_agree(self) -> None:
        if not hasattr(self, "books"):
            return
        account = self.books.account("census")
        assert account.left == CAP - self.used()
        reserved = [k.content[0] for k in self.known.values() if k.state == "reserved"]
        assert account.reserved == sum(reserved, Fraction(0))
        assert self.books.head().seq == self.entries
        for release, known in self.known.items():
            charge = self.books.charge(release)
            assert charge is not None
            draft = self.books.draft(release)
            assert (draft and draft.digest, bool(draft and draft.accepted)) == (known.draft, known.accepted)
            assert (charge.state, charge.fence, charge.measurement_digest, charge.publication_digest) == (
                known.state,
                known.fence,
                known.measurement,
                known.publication,
            )

    def teardown(self) -> None:
        if hasattr(self, "books"):
            found = self.books.verify()
            assert (found.entries, found.charges) == (self.entries, len(self.known))
            self.books.close()
            shutil.rmtree(self.folder)


Lives.TestCase.settings = settings(
    max_examples=15, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestLives = Lives.TestCase
