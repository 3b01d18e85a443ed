"""Releases: what was published and whether it still stands; verified and withdrawn from here."""

from __future__ import annotations

import tabularium
from tabularium.flows.desk.asked import Asked, Elsewhere, Page
from tabularium.flows.desk.desk import Desk
from tabularium.flows.desk.signing_off import decide
from tabularium.mechanisms.errors import InputError


def products(desk: Desk, _asked: Asked) -> Page:
    """List the products, each with its newest release."""
    with desk.books() as books:
        found = books.newest_releases(folders=desk.folders)
    return Page("products.html.jinja", {"found": found})


def product(desk: Desk, asked: Asked) -> Page:
    """List the releases of a product, the newest first."""
    name = asked.path["product"]
    with desk.books() as books:
        found = books.releases(name, folders=desk.folders)
    if not found:
        raise InputError("has no release", where=f"product {name}", hint="see the list of products")
    return Page("product.html.jinja", {"product": name, "found": found})


def release(desk: Desk, asked: Asked) -> Page:
    """Show a release, what its verification came to, and the form that withdraws it."""
    name = asked.path["release"]
    return Page(
        "release.html.jinja",
        {
            "release": _release(desk, name),
            "verification": desk.verification(name),
            "command": f"tabularium withdraw {name} --reason WHY --key FILE{desk.option}",
        },
    )


def verify(desk: Desk, asked: Asked) -> Elsewhere:
    """Begin to verify a release."""
    name = asked.path["release"]
    folder = _release(desk, name).folder
    if folder is None:
        raise InputError(
            "is not on this machine",
            where=f"release {name}",
            hint="copy its folder here, name it with --folder",
        )
    desk.begin_verification(name, lambda: tabularium.verify(folder))
    return Elsewhere(f"/releases/{name}")


def withdraw(desk: Desk, asked: Asked) -> Elsewhere | Page:
    """Withdraw a release, for the reason of the form."""
    name, reason = asked.path["release"], asked.value("reason")
    with desk.books() as books:
        charge = books.charged(name).charge
    about = f"{charge.product}, {charge.period}"
    return decide(
        *(desk, asked, lambda one: one.withdraw(name, reason=reason)),
        title=f"Withdraw {about}",
        says=[
            f"Release {name}",
            f"Every reader sees the reason: {reason}",
            "Its folder stays and can be verified; its budget stays spent. This is not taken back.",
        ],
        about=about,
        back=f"/releases/{name}",
        address=f"/releases/{name}/withdraw",
    )


def _release(desk: Desk, name: str) -> tabularium.Published:
    with desk.books() as books:
        of = books.charged(name).charge.product
        found = next(
            (each for each in books.releases(of, folders=desk.folders) if each.release == name), None
        )
    if found is None:
        raise InputError("is not published", where=f"release {name}", hint="see its account")
    return found
