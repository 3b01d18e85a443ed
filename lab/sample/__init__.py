"""Synthetic microdata of any size: two censuses, a labour force survey, hospital visits and stays.

Nobody in these files exists; see ``docs/reference/sample-data.md`` for the columns.
"""

from tabularium.lab.sample.samples import SampleFiles, write_sample

__all__ = ["SampleFiles", "write_sample"]
