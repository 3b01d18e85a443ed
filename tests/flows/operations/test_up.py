"""``tabularium up``: what runs, who may use it, and that nothing is left."""

from __future__ import annotations

import urllib.error
import urllib.request

import pytest

from tests.flows.operations.installations import Up

pytestmark = pytest.mark.xdist_group("operations")


def test_the_server_lets_in_whoever_knows_the_password_of_the_home(installation: Up) -> None:
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(f"{installation.url}/admin/version")
    with installation.client() as client:
        assert client.api_version()
