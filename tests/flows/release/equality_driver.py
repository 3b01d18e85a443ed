"""Publish three products through a real Prefect engine: two of one input, the third of one record more.

Then run the first once more from the input of the third, which is refused.

    python -m tests.flows.release.equality_driver FOLDER

The test that starts this program then compares all that the products left where others can see it.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from tabularium.flows.operations.prefect_api import own_server, settings_of
from tabularium.flows.release import release
from tabularium.mechanisms.errors import RunRefused
from tabularium.validations.suites.gx_engine import library
from tests.flows.release.scene import write_scene
from tests.sizes import full

PRODUCTS = ("first", "equal", "other")
# Noise so wide that no two counts are the same by chance, and nothing that would make them all zero.
OPTIONS = (
    'budget: "1/1000000"',
    "postprocessing: {consistency: false, nonnegativity: false, rounding: false}\n",
)
LEVELS = 'levels: {nation: "1/2", place: "1/2"}'


def main(root: Path) -> None:
    if full():
        library()  # each release would otherwise start a process that imports it anew
    spec, home = write_scene(root / "agency")
    text = spec.read_text().replace('budget: "1"', OPTIONS[0]) + OPTIONS[1]
    text = text.replace('levels: {nation: "1/4", province: "1/4", place: "1/2"}', LEVELS)
    for product in PRODUCTS:
        folder = root / product
        folder.mkdir()
        for name in ("people.csv", "areas.csv"):
            shutil.copy(spec.parent / name, folder / name)
        if product == "other":
            with (folder / "people.csv").open("a", newline="") as file:
                file.write("A1,30,1\r\n")
        mine = folder / "spec.yaml"
        mine.write_text(text.replace("product: small", f"product: {product}"))
        print(product, release(str(mine), None, None, str(home.path))["status"], flush=True)
    try:
        release(str(root / "first" / "spec.yaml"), str(root / "other" / "people.csv"), None, str(home.path))
    except RunRefused as error:
        print("refused:", error, flush=True)


if __name__ == "__main__":
    with own_server() as server, settings_of(server.url, server.sign_in):
        main(Path(sys.argv[1]))
