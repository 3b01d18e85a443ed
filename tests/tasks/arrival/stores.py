"""An object store on loopback, for inboxes that are no folders."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def store() -> Iterator[Any]:
    """A file system of fsspec over S3; the environment names its server and credentials while tests run."""
    from moto.moto_server.threaded_moto_server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }.items():
            patch.setenv(name, value)
        import s3fs

        yield s3fs.S3FileSystem(use_listings_cache=False)
    server.stop()


@pytest.fixture
def bucket(store: Any) -> str:
    """A bucket of this test's own."""
    name = f"inbox-{secrets.token_hex(4)}"
    store.mkdir(name)
    return name
