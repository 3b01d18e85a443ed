"""A watcher that races others: ``python -m tests.tasks.arrival.race_driver HOME``.

It says when it is ready, begins when it is told to, and looks until nothing changes any more.
"""

from __future__ import annotations

import sys

from tabularium.tasks.arrival.claims import Claims
from tabularium.tasks.arrival.inboxes import inboxes
from tabularium.tasks.arrival.look import look
from tabularium.tasks.runtime.home import Home


def main(home: Home) -> None:
    (inbox,) = inboxes(home)
    with Claims.at(home) as claims:
        claims.lying(inbox.product)
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(3):
        while look(home, inbox):
            pass


if __name__ == "__main__":
    main(Home.at(sys.argv[1]))
