"""Which files each format leaves in a release folder."""

from __future__ import annotations

from tabularium.validations.spec.model import ReleaseSpec

#: Format -> endings of the files of each table, after its name.
OF_A_TABLE = {"csv": ("csv", "csv-metadata.json"), "parquet": ("parquet",), "sdmx": ("sdmx.csv",)}
#: Format -> files of the whole release.
OF_THE_RELEASE: dict[str, tuple[str, ...]] = {"xlsx": ("tables.xlsx",), "catalogue": ("catalogue.jsonld",)}


def files_of(spec: ReleaseSpec) -> set[str]:
    """Return the names of the files in which tables and their structure are published."""
    names = [*(each.name for each in spec.tables), *(each.name for each in spec.histograms)]
    found = set()
    for written in spec.publication.formats:
        found |= {f"{name}.{ending}" for name in names for ending in OF_A_TABLE.get(written, ())}
        found |= set(OF_THE_RELEASE.get(written, ()))
    if "sdmx" in spec.publication.formats:
        found.add(f"structure.sdmx.{spec.publication.sdmx.structure}")
    return found
