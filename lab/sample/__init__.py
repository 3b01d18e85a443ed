"""Synthetic microdata of any size: a census of persons in households, and hospital visits.

Nobody in these files exists; see ``docs/reference/sample-data.md`` for the columns. ::

    geography        nation > region > district > meshblock, with skewed sizes
    quantile_tables  drawing from many small distributions at once
    households       who lives with whom, and how old they are
    people           what a person does and earns, given age, sex and place
    census           the two above, put together as blocks of rows
    health           patients, their visits, and what brought them there
    sample_specs     the release spec and the code lists that go with a file
    file_writing     Parquet, CSV, CSV.gz: written aside, then renamed
    sampling         the way in: ``write_sample``
"""

from tabularium.lab.sample.sampling import SampleFiles, write_sample

__all__ = ["SampleFiles", "write_sample"]
