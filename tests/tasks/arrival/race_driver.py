"""Watchers that race, each in a process of its own: ``python -m tests.tasks.arrival.race_driver HOME START``.

They begin at the same moment, look until nothing changes any more, and take turns with nobody.
"""

from __future__ import annotations

import sys
import time

from tasks.arrival.claims import Claims
from tasks.arrival.inboxes import inboxes
from tasks.arrival.look import look
from tasks.runtime.home import Home


def main(home: Home, start: float) -> None:
    (inbox,) = inboxes(home)
    with Claims.at(home) as claims:
        claims.lying(inbox.product)
    time.sleep(max(0.0, start - time.time()))
    for _ in range(3):
        look(home, inbox)


if __name__ == "__main__":
    main(Home.at(sys.argv[1]), float(sys.argv[2]))
