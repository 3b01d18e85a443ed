"""Pages in a real browser, as a reader has them: wide or narrow, light or dark, on screen or on paper."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.debian import found

AXE = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")
GRAVE = frozenset({"serious", "critical"})


@contextmanager
def browser() -> Iterator[Any]:
    """Yield a browser of Playwright's; it is the system's Chromium.

    Raises
    ------
    Unavailable
        There is no browser.
    """
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        # the tests may run as root; the pages are ours
        running = driver.chromium.launch(executable_path=str(found("chromium")), args=["--no-sandbox"])
        try:
            yield running
        finally:
            running.close()


@contextmanager
def opened(running: Any, page: Path, *, width: int = 1200, dark: bool = False) -> Iterator[Any]:
    """Yield ``page`` in a window of its own; nothing but it and what lies beside it can be loaded."""
    context = running.new_context(
        viewport={"width": width, "height": 900},
        color_scheme="dark" if dark else "light",
        offline=True,
        java_script_enabled=True,
    )
    try:
        window = context.new_page()
        window.goto(page.absolute().as_uri())
        yield window
    finally:
        context.close()


def violations(window: Any, *, grave_alone: bool = True) -> list[str]:
    """Return what axe finds, as "rule: element"; by default what is serious or critical."""
    import axe_playwright_python

    window.evaluate((Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text())
    result = window.evaluate("tags => axe.run(document, {runOnly: tags})", list(AXE))
    return [
        f"{each['id']}: {node['html'][:200]}"
        for each in result["violations"]
        if each["impact"] in GRAVE or not grave_alone
        for node in each["nodes"]
    ]
