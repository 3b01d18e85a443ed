"""Drawing once: the order of its steps, and what a crash leaves at each.

1. ``reserved`` is in the ledger. 2. ``drawing`` with a new fence is committed before the first random bit.
3. Part by part (a table at a level), noise is drawn and goes to the durable store. 4. When all parts are
there, one file names them, and ``measured`` with its digest is committed. Wherever this is cut off, calling
it again finishes it: every stored part is adopted, whichever attempt drew it, and only what is missing is
drawn, under a new fence.

At most one draw of a part is ever seen. What is published is what stands under the part's name, and the
system gives that name to the first whole file that asks for it and to no other. An attempt that was
suspended, wakes up late and finds the name taken drops its own draw unseen and takes the stored one; if it is
first, the attempt that overtook it does. So the parts of one release may stem from several attempts: they are
independent draws from channels of their own, and they are all of the same counts, since the input was bound
to the release before anything was drawn.

What a crash can still choose is whether a draw is *stored*. It happens between the noise and the name, and a
part that did not get so far is drawn again. Nobody has seen the lost draw; but if crashes hung on the noise,
what is stored would be chosen among draws. So after three attempts an officer must allow more
(:meth:`tabularium.ledger.officers.Officers.allow_attempts`), and their number is published.

What was *seen to fail* is another matter: a mechanism that raises after drawing began ends the release,
because to retry until nothing is raised would be to choose among draws. Parts that are stored stay unseen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from numpy.typing import NDArray

from tabularium.ledger.ledger import Ledger
from tabularium.ledger.measurement import release_lock
from tabularium.ledger.measurement.store import MeasurementStore, Payload, Stored
from tabularium.ledger.records import Charge, Head
from tabularium.ledger.refusals import (
    LedgerError,
    MeasurementDamaged,
    MeasurementExists,
    MechanismFailed,
    StaleFence,
    StorageFailed,
    WrongState,
    unknown_release,
)
from tabularium.mechanisms.accounting import TabulariumError

Draw = Callable[[], tuple[Mapping[str, Any], Mapping[str, NDArray[Any]]]]


def measure_once(
    ledger: Ledger,
    store: MeasurementStore,
    release_id: str,
    draws: Mapping[str, Draw] | None,
    *,
    priors: Mapping[str, str] | None = None,
    prepare: Callable[[str], object] = lambda _name: None,
    announce: Callable[[], None] = lambda: None,
    asked_to_stop: Callable[[], bool] = lambda: False,
) -> Stored:
    """Return the release's one set of measurements, drawing what of it is not stored yet.

    Call it with :func:`tabularium.ledger.measurement.release_lock.hold` held.

    Parameters
    ----------
    draws
        For every part of the release its name, and what draws its noise, with a key of its own and a share of
        the budget of its own, and returns ``(meta, arrays)``. Each is called at most once, and only after
        ``drawing`` is committed. Whatever can fail without noise belongs before this call. ``None`` where
        there is nothing to draw from: measurements are found, or the call is refused.
    priors
        The releases that its tables are drawn towards, for
        :meth:`tabularium.ledger.charges.Charges.drawing`.
    prepare
        Called with the name of a part right before it is drawn, to read its counts. What it raises leaves the
        charge in ``drawing``, as after a loss of power: nothing of that part was drawn.
    announce
        Called once ``drawing`` is committed, before the first random bit: it leaves word outside the home
        that something is drawn. What it raises leaves the charge in ``drawing``.
    asked_to_stop
        Whether somebody outside has asked this process to stop. What a draw raises then is no choice among
        draws, since nobody has seen this one: the charge stays in ``drawing``, as after a loss of power, and
        the next attempt draws again under another fence.

    Raises
    ------
    MeasurementDamaged
        If the ledger holds a digest whose file is missing or differs, or a part that was stored cannot be
        read. Nothing is ever drawn then.
    StaleFence
        If another attempt has taken over; what this one drew is dropped.
    WrongState
        If the release was voided or abandoned, or is not held.
    NotApproved
        If all attempts that are allowed were made.
    PriorUnavailable
        If nothing is drawn yet, and one of ``priors`` was withdrawn.
    MechanismFailed
        If a draw raised something that is not a ``TabulariumError``, or returned what cannot be stored;
        the charge is abandoned and the text of that error withheld.
    """
    release_lock.require(ledger, release_id)
    charge = ledger.charge(release_id)
    if charge is None:
        raise unknown_release(release_id)
    if charge.state in ("measured", "published"):
        return _recorded(store, charge)
    if charge.state == "drawing":
        adopted = _adopted(ledger, store, charge)
        if adopted is not None:
            return adopted
    elif charge.state != "reserved":
        raise WrongState(
            f"was {charge.state}", where=f"release {release_id}", hint="change the spec to make a new release"
        )
    if draws is None:
        raise WrongState(
            "has no complete measurement, and there are no counts to draw from",
            where=f"release {release_id}",
            hint="run the whole flow",
        )
    attempt = _Attempt(ledger, store, charge, priors, prepare, asked_to_stop)
    announce()
    return attempt.complete({name: attempt.part(name, draw) for name, draw in draws.items()})


def _recorded(store: MeasurementStore, charge: Charge) -> Stored:
    stored = store.read(charge.release_id, charge.fence, digest=charge.measurement_digest)
    store.destroy_older_fences(charge.release_id, charge.fence)
    return stored


def _adopted(ledger: Ledger, store: MeasurementStore, charge: Charge) -> Stored | None:
    """Record a whole measurement that the attempt before left behind, if there is one."""
    try:
        stored = store.read(charge.release_id, charge.fence)
    except MeasurementDamaged:
        return None  # never recorded, so never seen by anyone; its parts are looked at one by one
    _require_held(ledger, charge.release_id, stored.head, since=charge.seq)
    store.fsync_release(charge.release_id)
    ledger.measured(charge.release_id, charge.fence, digest=stored.digest)
    store.destroy_older_fences(charge.release_id, charge.fence)
    return stored


def _require_held(ledger: Ledger, release_id: str, head: Head, *, since: int = 0) -> None:
    """Refuse a file that knows of an entry which this ledger lacks."""
    if head.seq < since or not ledger.holds(head):
        raise MeasurementDamaged(
            "the measurement file names another head than this ledger had, so the ledger is an old copy",
            where=f"release {release_id}",
            hint="restore the newest backup of the ledger",
        )


class _Attempt:
    """One attempt to complete the measurement of a release, under a fence of its own."""

    def __init__(
        self,
        ledger: Ledger,
        store: MeasurementStore,
        charge: Charge,
        priors: Mapping[str, str] | None,
        prepare: Callable[[str], object],
        asked_to_stop: Callable[[], bool],
    ) -> None:
        self._ledger, self._store = ledger, store
        self._prepare, self._asked_to_stop = prepare, asked_to_stop
        self._release = charge.release_id
        self._fence = ledger.drawing(charge.release_id, expected=charge.fence, priors=priors)
        store.destroy_older_fences(self._release, self._fence)

    def part(self, name: str, draw: Draw) -> str:
        """Return the digest of one part: of the stored one, or else of a new draw."""
        if self._store.has_part(self._release, name):
            return self._stored_part(name)
        self._prepare(name)
        payload = self._drawn(draw)
        self._require_current()
        try:
            return self._store.write_part(self._release, self._fence, self._ledger.head(), name, payload)
        except MeasurementExists:  # an attempt that was suspended woke up and was first
            return self._stored_part(name)

    def complete(self, parts: Mapping[str, str]) -> Stored:
        """Name the parts in one file and record it, unless another attempt has taken over meanwhile."""
        self._require_current()
        digest = self._store.write(self._release, self._fence, self._ledger.head(), parts)
        try:
            self._ledger.measured(self._release, self._fence, digest=digest)  # compares the fence once more
        except (StaleFence, WrongState):
            self._store.remove(self._release, self._fence)
            raise
        return self._store.read(self._release, self._fence, digest=digest)

    def _stored_part(self, name: str) -> str:
        """Adopt a part that stands in the store; its writer may have died before its name was durable."""
        part = self._store.read_part(self._release, name)
        _require_held(self._ledger, self._release, part.head)
        try:
            self._store.fsync_release(self._release)
        except OSError:
            raise StorageFailed(
                "a part of the measurement could not be made durable",
                where=f"release {self._release}",
                hint="check the disk, then run again",
            ) from None
        return part.digest

    def _drawn(self, draw: Draw) -> Payload:
        """Draw; whatever is raised from here on ends the release, unless it was asked for from outside."""
        failure: BaseException
        try:
            meta, arrays = draw()
            return Payload.of(meta, arrays)
        except BaseException as error:
            failure = _sanitised(error, self._release)
        if self._asked_to_stop():
            if isinstance(failure, (KeyboardInterrupt, SystemExit)):
                raise failure
            raise LedgerError(  # a library made something else of the stop
                "the run was stopped while it drew; what was drawn is lost and nobody has seen it",
                where=f"release {self._release}",
                hint="run again: it draws what is missing, for the same charge",
            ) from None
        with suppress(LedgerError):  # if this fails the charge stays in drawing, which is spent as well
            self._ledger.abandon(
                self._release, f"the draw raised {type(failure).__name__}", fence=self._fence
            )
        raise failure

    def _require_current(self) -> None:
        """Refuse to write anything unless this attempt's fence is the one that is drawing."""
        charge = self._ledger.charge(self._release)
        if charge is None or (charge.state, charge.fence) != ("drawing", self._fence):
            raise StaleFence(
                "another attempt has taken over, or an officer has abandoned it; nothing was written",
                where=f"release {self._release}",
                hint="leave it to that attempt, or run again",
            )


def _sanitised(error: BaseException, release_id: str) -> BaseException:
    """Return an exception that holds no text, cause, note or frame of code that is not ours."""
    if isinstance(error, TabulariumError):
        error.__cause__ = error.__context__ = None
        error.__dict__.pop("__notes__", None)
        return error.with_traceback(None)
    if isinstance(error, (KeyboardInterrupt, SystemExit)):
        return type(error)(*([1] if isinstance(error, SystemExit) else []))
    return MechanismFailed(
        f"the mechanism raised {type(error).__name__} after drawing began; the charge is abandoned and spent",
        where=f"release {release_id}",
        hint="change the mechanism or its parameters, which makes a new release",
    )
