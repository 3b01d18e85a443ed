"""What a release rests on beside its mathematics: random bits, side channels, who could read what."""

from __future__ import annotations

from tabularium.mechanisms.accounting import Event
from tabularium.validations import certificate as said

SIDE_CHANNELS = (
    said.SideChannel(
        channel="low bits of floating-point noise",
        considered="Closed: noise is drawn and added in exact integers; no floating-point number stands "
        "between the random bits and a measured one.",
    ),
    said.SideChannel(
        channel="a second draw of the same release",
        considered="Closed: the ledger is charged first, and complete measurements are kept and used "
        "again; the number of attempts is listed as outside the guarantee.",
    ),
    said.SideChannel(
        channel="refusals, logs, messages, the orchestrator's database",
        considered="Why data were refused is told on the local terminal and in the home alone; that a "
        "run was refused, and in which stage, is seen by who sees runs, and no budget covers it.",
    ),
    said.SideChannel(
        channel="running time and memory",
        considered="Seen by operators alone, and listed as outside the guarantee; the samplers do not "
        "run in constant time, so that who can time a run on its machine may learn something of the noise.",
    ),
    said.SideChannel(
        channel="digests of confidential data",
        considered="Closed: nothing public is a digest of the input, keyed or not; release ids do not "
        "depend on it.",
    ),
    said.SideChannel(
        channel="order and existence of published cells",
        considered="Closed: the cells follow from the spec and its code lists, and all of them are "
        "published; those left blank are chosen from published numbers.",
    ),
    said.SideChannel(
        channel="order in memory, hash seeds, what a process remembers",
        considered="Looked for: the replay audit compares runs on neighbours, in processes of their "
        "own, bit for bit under the same outputs of the noise.",
    ),
    said.SideChannel(
        channel="whoever can read the machine while it runs",
        considered="Not closed: the secure workspace holds microdata while a run lasts, and the home "
        "holds the noisy measurements; both are closed to other users of the machine, and to nobody who "
        "administers it.",
    ),
)
_SECURITY = (
    "True counts and microdata lie in one workspace, which only its owner can read (mode 0700); it is "
    "removed when the run ends unless it is kept for an inquiry.",
    "The noisy measurements and this certificate are kept in the agency's home without a limit of time, so "
    "that a lost folder can be made again without new noise. No noise and no key of noise is kept.",
    "Backups that this program makes of the home are encrypted, all but the entries of the ledger.",
    "This folder holds nothing that is not meant for the public.",
)


def randomness(events: list[Event]) -> said.Randomness:
    """Return where random bits come from, and which samplers were used."""
    return said.Randomness(
        generator="AES-256-CTR, one stream for each measurement",
        seeded_by="the operating system's generator, 256 fresh bits for a stream",
        predictable=False,
        keys_kept=False,
        arithmetic="exact integers",
        samplers=tuple(sorted({said.Draw.of(event).primitive for event in events})),
    )


def security(*, kept: bool) -> said.Security:
    """Return who could read the confidential data, and what is kept."""
    return said.Security(workspace_mode="0700", workspace_kept=kept, words=_SECURITY)
