"""Drawing once: the release stage, crash by crash.

1. ``reserved`` is in the ledger. 2. ``drawing`` with a new fence is committed before the first random bit.
3. Noise is drawn, and the measurements go to the durable store. 4. ``measured`` with the file's digest is
committed. Wherever this is cut off, calling it again finishes it: a whole measurement file is adopted,
never drawn again; without one, nobody can have seen what the dead attempt drew, and a new attempt draws
under a new fence. What was *seen to fail* is another matter: a mechanism that raises after drawing began
ends the release, because to retry until nothing is raised would be to choose among draws.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from numpy.typing import NDArray

from ledger.ledger import Ledger
from ledger.measurement import release_lock
from ledger.measurement.store import MeasurementStore, Payload, Stored
from ledger.records import Charge
from ledger.refusals import (
    DrawFailed,
    LedgerError,
    MeasurementDamaged,
    StaleFence,
    UnknownRelease,
    WrongState,
)
from mechanisms.accounting import TabulariumError

Draw = Callable[[], tuple[Mapping[str, Any], Mapping[str, NDArray[Any]]]]


def _nobody() -> bool:
    return False


def measure_once(
    ledger: Ledger,
    store: MeasurementStore,
    release_id: str,
    draw: Draw | None,
    *,
    asked_to_stop: Callable[[], bool] = _nobody,
) -> Stored:
    """Return the release's one set of measurements, drawing them if that was never finished.

    Call it with :func:`ledger.measurement.release_lock.hold` held.

    Parameters
    ----------
    draw
        Draws noise with a key of its own and returns ``(meta, arrays)``. It is called at most once, and
        only after ``drawing`` is committed. Whatever can fail without noise belongs before this call.
        ``None`` where there is nothing to draw from: measurements are found, or the call is refused.
    asked_to_stop
        Whether somebody outside has asked this process to stop. What ``draw`` raises then is no choice among
        draws, since nobody has seen this one: the charge stays in ``drawing``, as after a loss of power, and
        the next attempt draws anew under another fence.

    Raises
    ------
    MeasurementDamaged
        If the ledger holds a digest whose file is missing or differs. Nothing is ever drawn then.
    StaleFence
        If another attempt has taken over; this one's file is removed.
    WrongState
        If the release was voided or abandoned, or is not held.
    DrawFailed
        If ``draw`` raised something that is not a ``TabulariumError``, or returned what cannot be stored;
        the charge is abandoned and the text of that error withheld.
    """
    release_lock.require(ledger, release_id)
    charge = ledger.charge(release_id)
    if charge is None:
        raise UnknownRelease(
            "was never reserved", where=f"release {release_id}", mend="see: tabularium ledger show"
        )
    if charge.state in ("measured", "published"):
        return _recorded(store, charge)
    if charge.state == "drawing":
        adopted = _adopted(ledger, store, charge)
        if adopted is not None:
            return adopted
    elif charge.state != "reserved":
        raise WrongState(
            f"was {charge.state}", where=f"release {release_id}", mend="change the spec to make a new release"
        )
    if draw is None:
        raise WrongState(
            "has no complete measurement, and there are no counts to draw from",
            where=f"release {release_id}",
            mend="run the whole flow",
        )
    fence = ledger.drawing(release_id, expected=charge.fence)
    store.destroy_older_fences(release_id, fence)
    payload = _drawn(ledger, release_id, fence, draw, asked_to_stop)
    return _kept(ledger, store, release_id, fence, payload)


def _recorded(store: MeasurementStore, charge: Charge) -> Stored:
    """Read the file whose digest the ledger holds; what a late writer left is removed."""
    stored = store.read(charge.release_id, charge.fence, digest=charge.measurement_digest)
    store.destroy_older_fences(charge.release_id, charge.fence)
    return stored


def _adopted(ledger: Ledger, store: MeasurementStore, charge: Charge) -> Stored | None:
    """Record a whole file that the attempt before left behind, if there is one."""
    try:
        stored = store.read(charge.release_id, charge.fence)
    except MeasurementDamaged:
        return None  # never recorded, so never seen by anyone
    if stored.head.seq < charge.seq or not ledger.holds(stored.head):
        raise MeasurementDamaged(
            "the measurement file names another head than this ledger had, so the ledger is an old copy",
            where=f"release {charge.release_id}",
            mend="restore the newest backup of the ledger",
        )
    store.settle(charge.release_id)
    ledger.measured(charge.release_id, charge.fence, digest=stored.digest)
    store.destroy_older_fences(charge.release_id, charge.fence)
    return stored


def _drawn(
    ledger: Ledger, release_id: str, fence: int, draw: Draw, asked_to_stop: Callable[[], bool]
) -> Payload:
    """Draw; whatever is raised from here on ends the release, unless it was asked for from outside."""
    failure: BaseException
    try:
        meta, arrays = draw()
        return MeasurementStore.prepare(meta, arrays)
    except BaseException as error:
        failure = _sanitised(error, release_id)
    if asked_to_stop():
        if isinstance(failure, (KeyboardInterrupt, SystemExit)):
            raise failure
        raise LedgerError(  # a library made something else of the stop
            "the run was stopped while it drew; what was drawn is lost and nobody has seen it",
            where=f"release {release_id}",
            mend="run again: it draws anew, for the same charge",
        ) from None
    with suppress(LedgerError):  # if this fails the charge stays in drawing, which is spent as well
        ledger.abandon(release_id, f"the draw raised {type(failure).__name__}", fence=fence)
    raise failure


def _kept(ledger: Ledger, store: MeasurementStore, release_id: str, fence: int, payload: Payload) -> Stored:
    """Write the measurements and record them, unless another attempt has taken over meanwhile."""
    _require_current(ledger, release_id, fence)
    digest = store.write_payload(release_id, fence, ledger.head(), payload)
    try:
        ledger.measured(release_id, fence, digest=digest)  # compares the fence once more
    except (StaleFence, WrongState):
        store.remove(release_id, fence)
        raise
    return store.read(release_id, fence, digest=digest)


def _require_current(ledger: Ledger, release_id: str, fence: int) -> None:
    """Refuse to write anything unless ``fence`` is the one that is drawing."""
    charge = ledger.charge(release_id)
    if charge is None or (charge.state, charge.fence) != ("drawing", fence):
        raise StaleFence(
            "another attempt has taken over, or an officer has abandoned it; nothing was written",
            where=f"release {release_id}",
            mend="leave it to that attempt, or run again",
        )


def _sanitised(error: BaseException, release_id: str) -> BaseException:
    """Return an exception that holds no text, cause, note or frame of code that is not ours."""
    if isinstance(error, TabulariumError):
        error.__cause__ = error.__context__ = None
        error.__dict__.pop("__notes__", None)
        return error.with_traceback(None)
    if isinstance(error, (KeyboardInterrupt, SystemExit)):
        return type(error)(*([1] if isinstance(error, SystemExit) else []))
    return DrawFailed(
        f"the mechanism raised {type(error).__name__} after drawing began; the charge is abandoned and spent",
        where=f"release {release_id}",
        mend="mend the mechanism or its parameters, which makes a new release",
    )
