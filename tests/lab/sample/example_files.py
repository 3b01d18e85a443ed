"""What lies in deploy/examples of the samples' specs: as ``tabularium sample`` writes them, without the data.

``python -m tests.lab.sample.example_files`` writes them anew.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from tabularium.lab.sample import write_sample
from tabularium.lab.sample.samples import KINDS

EXAMPLES = Path(__file__).parents[3] / "deploy" / "examples"
ROWS = 100_000


def write_examples(folder: Path, rows: int = ROWS) -> list[Path]:
    """Write specs and code lists of a sample of each kind that has an example; return what was written."""
    written = []
    for kind, made in KINDS.items():
        if made.example:
            files = write_sample(kind, rows, folder / f"{made.example}.csv", meshblocks=ROWS // 100)
            for data in (files.data, *files.others.values()):
                data.unlink()
            text = files.spec.read_text(encoding="utf-8")
            files.spec.write_text(text.replace(files.data.name, f"{made.example}.parquet"), encoding="utf-8")
            written += [files.spec, *files.code_lists.values()]
    return written


if __name__ == "__main__":
    with TemporaryDirectory() as aside:
        for path in write_examples(Path(aside)):
            shutil.copyfile(path, EXAMPLES / path.name)
