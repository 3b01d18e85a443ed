"""Parquet files counted in place by Spark: the counted files are those of the digest.

The session signs in to its cluster with a shared secret and talks to it encrypted; what it spills is
encrypted, and of this process's part lies in the secure workspace. Its web page, its log of events and its
standard output, which may all quote records, are off. The cluster's secret is the cluster's
(``spark.authenticate.secret`` in ``spark-defaults.conf`` of ``SPARK_CONF_DIR``), never the home's. Nothing of
a session outlasts its run.

Spark reads files again for every statement. Each is therefore known by its address, size and time of change,
as the file system of the cluster tells them; they are compared before and after every statement, and anything
else ends the run before something is charged. The digest is one of records
(:mod:`tabularium.tasks.engines.in_place`).

Spark also reads all files by the schema of one of them: what another lacks would be null, without a word, and
an empty file no records. So the schema of every file is read first, and those that differ are refused. Text
is compared by its bytes, and text that is not UTF-8 is refused: engines differ in what they make of it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import takewhile
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from tabularium.mechanisms.errors import InputError, InputMissing, InputRefused
from tabularium.tasks.engines.dialects import records_table, sql_of
from tabularium.tasks.ingest.find_files import require_data
from tabularium.validations.redaction import redacted
from tabularium.validations.release_spec.kinds import is_ignored

_MEMORY_VARIABLE = "TABULARIUM_ENGINE_MEMORY"


class SparkRun:
    """A running session."""

    def __init__(self, master: str, scratch: Path) -> None:
        """Start a session on ``master``, working in a closed folder of ``scratch``.

        Raises
        ------
        InputError
            If PySpark or Java is missing, or the cluster takes no session with these settings.
        """
        try:
            from pyspark import SparkConf, SparkContext
            from pyspark.java_gateway import launch_gateway
            from pyspark.sql import SparkSession
        except ImportError:
            hint = 'pip install "tabularium-dp[spark]"'
            raise InputError("PySpark is missing", where="source.engine: spark", hint=hint) from None
        if SparkContext._active_spark_context is not None:
            what = "another session of Spark runs in this process"
            raise InputError(what, where="source.engine: spark", hint="let the other run end first")
        folder = scratch / "spark"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        failure = InputError(
            "no session of Spark can be had",
            where="source.master",
            hint="check that Java 17 is installed, that the cluster is up, and that SPARK_CONF_DIR has its "
            "spark.authenticate.secret",
        )

        self._gateway: Any = None
        self.session: Any = None

        def start() -> None:
            conf = SparkConf(loadDefaults=False)
            for name, value in _settings(master, folder).items():
                conf.set(name, value)
            silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": str(folder)}
            self._gateway = launch_gateway(conf, popen_kwargs=silent)
            context = SparkContext(gateway=self._gateway, conf=conf)
            self.session = SparkSession(context)

        try:
            redacted(start, failure)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the session, and the virtual machine with it."""
        from pyspark import SparkContext

        with suppress(Exception):
            if self.session is not None:
                self.session.stop()
        if self._gateway is not None:
            with suppress(Exception):
                self._gateway.shutdown()
            process = self._gateway.proc
            with suppress(Exception):
                process.stdin.close()
            with suppress(Exception):
                process.wait(10)
            if process.poll() is None:
                process.kill()
                process.wait()
        SparkContext._gateway = SparkContext._jvm = None


def _settings(master: str, folder: Path) -> dict[str, str]:
    local = master.startswith("local")  # for which Spark draws a secret of its own
    here = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    return {
        "spark.master": master,
        "spark.app.name": "tabularium",
        "spark.authenticate": "true",
        "spark.network.crypto.enabled": "true",
        "spark.network.crypto.cipher": "AES/GCM/NoPadding",
        "spark.io.encryption.enabled": "true",
        "spark.io.encryption.keySizeBits": "256",
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={folder} -XX:-UsePerfData",
        "spark.driver.memory": os.environ.get(_MEMORY_VARIABLE, "2g").removesuffix("iB").removesuffix("B"),
        "spark.driver.maxResultSize": "0",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.eventLog.enabled": "false",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.caseSensitive": "true",
        "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
        "spark.sql.files.ignoreCorruptFiles": "false",
        "spark.sql.files.ignoreMissingFiles": "false",
        "spark.sql.parquet.mergeSchema": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # It would write the steps to a civil date into each other, as often as each is used. All records are
        # read, and what they are filtered by is computed: nothing is gained by filtering early.
        "spark.sql.optimizer.excludedRules": ",".join(
            f"org.apache.spark.sql.catalyst.optimizer.{rule}"
            for rule in ("PushDownPredicates", "PushPredicateThroughNonJoin")
        ),
        **({**here, "spark.sql.shuffle.partitions": "8"} if local else {}),
    }


_VIEW = "tabularium_files"
_VARYING = set("=*?[{")
_INTEGERS = {"tinyint", "smallint", "int", "bigint"}
_FLOATS = {"float": "float32", "double": "float64"}
_OTHERS = {"boolean": "boolean", "date": "date", "timestamp_ntz": "timestamp"}
_NESTED = {"struct", "array", "map"}  # those whose type spells out the names inside it
File = tuple[str, int, int]
"""Address, size and time of change."""
_AT_ONCE = 16  # schemas that are asked of the cluster at a time


class SparkSource:
    """Parquet files opened for a run."""

    name = "spark"
    records = 0  # known once the digest is taken
    still = True  # the files are compared before and after every statement

    def __init__(
        self,
        master: str,
        uri: str,
        raw: Mapping[str, str],
        as_text: frozenset[str],
        scratch: Path,
        ignore: Collection[str] = (),
    ) -> None:
        """Start a session and open the files.

        Parameters
        ----------
        uri
            A path, or the address of a file, folder or glob in a file system that the cluster knows.
        raw
            Column of the files -> its name inside the engine.
        as_text
            Columns whose values are compared with one another: text or whole numbers.
        ignore
            Patterns of what is left out below a folder.

        Raises
        ------
        InputError
            If there is no session, no file, or no such columns.
        """
        self._run, self._ignore = SparkRun(master, scratch), ignore
        try:
            unseen = InputError(
                "the files cannot be listed",
                where="source.path",
                hint="check the path, and that the cluster may read there",
            )
            # It may be what stands in one of them, which is learnt from the data.
            unread = InputRefused(
                "the files cannot be read",
                where="source.path",
                hint="check that the cluster may read them, and that they are Parquet",
            )
            self._uri = uri if "://" in uri else f"file://{uri}"
            self._files = redacted(self._listed, unseen)
            if not self._files:
                raise InputMissing(
                    "no file is found there", where="source.path", hint="check source.path in the spec"
                )
            for address, size, _ in self._files:
                if not size:
                    raise InputRefused(
                        "the file is empty",
                        where=PurePosixPath(address).name,
                        hint="name the files that hold the data",
                    )
            redacted(lambda: self._open(raw, as_text), unread)
        except BaseException:
            self.close()
            raise

    def sql(self, expression: Any) -> str:
        """Return the SQL of an expression over :attr:`table`."""
        return sql_of(expression, "pyspark", self._records)

    def batches(self, sql: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a query."""
        self.check_unchanged()
        table = self._run.session.sql(sql).toArrow()
        self.check_unchanged()
        yield from table.select(schema.names).cast(schema).to_batches()

    def check_unchanged(self) -> None:
        """Check that the files are those of the beginning.

        Raises
        ------
        InputError
            If one was changed, or there are more or fewer.
        """
        failure = InputError("the files cannot be listed any more", where="source.path", hint="run again")
        if redacted(self._listed, failure) != self._files:
            raise InputError(
                "the source changed while it was read",
                where="source",
                hint="run again when nothing writes to it",
            )

    def close(self) -> None:
        """End the session."""
        self._run.close()

    def _listed(self) -> tuple[File, ...]:
        """Return address, size and time of change of every file that is not ignored, sorted."""
        jvm, session = self._run.session._jvm, self._run.session
        path = jvm.org.apache.hadoop.fs.Path(self._uri)
        system = path.getFileSystem(session._jsc.hadoopConfiguration())
        in_folder: list[File] = []
        for status in system.globStatus(path) or ():
            if status.isFile():
                in_folder.append(_known(status))
                continue
            base = str(status.getPath())
            files = system.listFiles(status.getPath(), True)
            while files.hasNext():
                below = files.next()
                name = str(below.getPath())[len(base) :].lstrip("/")
                if not is_ignored(name, self._ignore):
                    require_data(name, "parquet", "source")
                    in_folder.append(_known(below))
        return tuple(sorted(in_folder))

    def _frame(self, *addresses: str) -> Any:
        """Return the Spark table of files."""
        reader = self._run.session.read.option("__globPaths__", "false")
        if any("=" in address for address, _, _ in self._files):
            # Folders below this one that are called column=value hold values.
            plain = takewhile(lambda part: not _VARYING.intersection(part), self._uri.split("/"))
            reader = reader.option("basePath", "/".join(plain))
        return reader.parquet(*addresses)

    def _kinds(self, address: str, columns: Collection[str]) -> dict[str, str]:
        """Return the type of every column of a file, with those of its folders."""
        folders = folder_columns(address)
        if folders:
            # Without a base path the names of folders hold no values.
            without_folders = self._run.session.read.option("__globPaths__", "false").parquet(address)
            require_apart(folders, without_folders.schema.names, columns, PurePosixPath(address).name)
        return {
            field.name: kind
            if (kind := field.dataType.typeName()) in _NESTED
            else field.dataType.simpleString()
            for field in self._frame(address).schema.fields
        }

    def _open(self, raw: Mapping[str, str], as_text: frozenset[str]) -> None:
        addresses = [address for address, _, _ in self._files]
        several = ThreadPoolExecutor(_AT_ONCE)
        try:
            kinds = require_one_schema(
                zip(self._files, several.map(partial(self._kinds, columns=raw), addresses), strict=True), raw
            )
        finally:
            several.shutdown(cancel_futures=True)  # of thousands of files, where one is refused
        frame = self._frame(*addresses)
        frame.createOrReplaceTempView(_VIEW)
        self.types, read = {}, []
        for column, name in raw.items():
            self.types[name], text = _read_as(column, kinds[column], column in as_text)
            read.append(f"{text} AS {name}")
        self.instants = frozenset(column for column in raw if kinds[column] == "timestamp")
        self._records = f"SELECT {', '.join(read) or '1 AS none'} FROM {_VIEW}"
        self.table = records_table(self.types or {"none": "int64"})
        texts = [name for name, kind in self.types.items() if kind == "string"]
        if texts:
            wrong = " OR ".join(f"NOT is_valid_utf8({name})" for name in texts)
            sql = f"SELECT count(*) AS number FROM ({self._records}) WHERE {wrong}"
            (row,) = (row for batch in self.batches(sql, _NUMBER) for row in batch.to_pylist())
            if row["number"]:
                raise InputRefused(
                    "there is text that is not UTF-8", where="source", hint="write the files again"
                )


_NUMBER = pa.schema([("number", pa.int64())])


def folder_columns(address: str) -> list[str]:
    """Return the columns in the names of the folders of a file (``sex=f/``)."""
    return [unquote(part.partition("=")[0]) for part in address.split("/")[:-1] if "=" in part]


def require_apart(
    folders: Collection[str], from_folders: Collection[str], columns: Collection[str], file: str
) -> None:
    """Refuse a column that is both in a file and in the names of its folders: Spark would take the latter.

    Parameters
    ----------
    folders, from_folders
        The columns in the names of the folders, and those in the file.
    columns
        Those that the spec speaks of.
    """
    for column in columns:
        if column in folders and column in from_folders:
            raise InputRefused(
                f"column {column!r} stands in the file and in the names of its folders, and Spark would take "
                "it from the folders whatever the file holds",
                where=file,
                hint="remove it from the files, or name the folders without it",
            )


def require_one_schema(
    schemas: Iterable[tuple[File, Mapping[str, str]]], columns: Collection[str]
) -> dict[str, str]:
    """Return the types of columns, which must be the same in every file.

    ``schemas``: each file, with the types of its columns.

    Raises
    ------
    InputRefused
        If a file lacks a column, or has it in another type than those before.
    """
    types: dict[str, str] = {}
    for (address, _, _), kinds in schemas:
        where = PurePosixPath(address).name
        missing = [column for column in columns if column not in kinds]
        if missing:
            what = f"the file lacks {', '.join(map(repr, missing))}"
            hint = "check the names under columns, and write all files with one schema"
            raise InputRefused(what, where=where, hint=hint)
        for column in columns:
            first = types.setdefault(column, kinds[column])
            if first != kinds[column]:
                what = f"column {column!r} is of type {kinds[column]} here, and {first} in another file"
                raise InputRefused(what, where=where, hint="write all files with one schema")
    return types


def _known(status: Any) -> File:
    return str(status.getPath().toString()), int(status.getLen()), int(status.getModificationTime())


def _read_as(name: str, kind: str, as_text: bool) -> tuple[str, str]:
    """Return the type in which a column is read, and its SQL."""
    quoted = f"`{name.replace('`', '``')}`"
    if kind in _INTEGERS:
        return "int64", f"CAST({quoted} AS bigint)"
    if kind == "string":
        return "string", quoted
    if kind == "timestamp":  # an instant, which the session prints in UTC
        return "string", f"CONCAT(CAST({quoted} AS string), '+00:00')"
    number = _FLOATS.get(kind, "decimal" if kind.startswith("decimal") else None)
    is_whole = kind.startswith("decimal") and kind.endswith(",0)")
    if as_text and number is not None and not is_whole:
        raise InputRefused(
            f"column {name!r} is of type {kind}, and units and items are distinguished by text or whole "
            "numbers",
            where="source.path",
            hint="write the column as text or integers",
        )
    if number is not None and not as_text:
        return number, quoted
    if kind in _OTHERS and not as_text:
        return _OTHERS[kind], quoted
    if kind in _OTHERS or is_whole:
        return "string", f"CAST({quoted} AS string)"
    raise InputRefused(
        f"column {name!r} is of a type whose values are no codes and no numbers",
        where="source.path",
        hint="write the column as text or integers",
    )
