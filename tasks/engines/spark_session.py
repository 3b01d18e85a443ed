"""A session of Spark for one run: nothing of it outlasts the run, and no others read what it writes.

The session signs in to its cluster with a shared secret and talks to it encrypted; what it spills is
encrypted, and of this process's part lies in the secure workspace. Its web page, its log of events and its
words on standard output, all of which may quote records, are off. The cluster's secret is the cluster's own
(``spark.authenticate.secret`` in ``spark-defaults.conf`` of ``SPARK_CONF_DIR``), never the home's.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

from tabularium.mechanisms.errors import InputError
from tabularium.validations.redaction import redacted

_MEMORY_VARIABLE = "TABULARIUM_ENGINE_MEMORY"


class SparkRun:
    """A running session.

    Attributes
    ----------
    session
        PySpark's.
    """

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
        place = scratch / "spark"
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
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
            for name, value in _settings(master, place).items():
                conf.set(name, value)
            silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": str(place)}
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


def _settings(master: str, place: Path) -> dict[str, str]:
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
        "spark.local.dir": str(place),
        "spark.sql.warehouse.dir": str(place / "warehouse"),
        "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={place} -XX:-UsePerfData",
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
