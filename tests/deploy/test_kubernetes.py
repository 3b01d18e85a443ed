"""The base for Kubernetes: right by the API's schemas, restricted pods, closed networks, no secret inside."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

BASE = Path(__file__).parents[2] / "deploy" / "kubernetes"
KUSTOMIZATION = yaml.safe_load((BASE / "kustomization.yaml").read_text())
OBJECTS: list[dict[str, Any]] = [
    thing for name in KUSTOMIZATION["resources"] for thing in yaml.safe_load_all((BASE / name).read_text())
]
VERSIONS = ("1.29", kubernetes_validate.latest_version())


def of_kind(kind: str) -> list[dict[str, Any]]:
    return [thing for thing in OBJECTS if thing["kind"] == kind]


DEPLOYMENTS = {
    thing["metadata"]["name"]: thing["spec"] for kind in ("Deployment", "Job") for thing in of_kind(kind)
}


def label(thing: dict[str, Any]) -> str:
    return f"{thing['kind']}-{thing['metadata']['name']}"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("thing", OBJECTS, ids=label)
def test_an_object_holds_its_schema(thing: dict[str, Any], version: str) -> None:
    kubernetes_validate.validate(thing, version, strict=True)


def test_the_schema_would_say_so() -> None:
    wrong = {**of_kind("Deployment")[0], "spec": {"replicas": "two"}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSIONS[-1], strict=True)


def test_every_file_is_part_of_the_base() -> None:
    files = {path.name for path in BASE.glob("*.yaml")} - {"kustomization.yaml"}
    assert files == set(KUSTOMIZATION["resources"])


def test_the_base_can_be_built() -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    done = subprocess.run(["kubectl", "kustomize", BASE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    built = list(yaml.safe_load_all(done.stdout))
    assert len(built) == len(OBJECTS)
    images = {
        container["image"]
        for thing in built
        if thing["kind"] in ("Deployment", "Job")
        for container in thing["spec"]["template"]["spec"]["containers"]
    }
    assert images == {"tabularium:0.1.0"}


def test_pods_keep_the_restricted_standard_and_their_root_is_read_only() -> None:
    (namespace,) = of_kind("Namespace")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    for name, deployment in DEPLOYMENTS.items():
        pod = deployment["template"]["spec"]
        assert pod["automountServiceAccountToken"] is False, name
        assert pod["securityContext"]["runAsNonRoot"], name
        assert pod["securityContext"]["runAsUser"] == 10001, name
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        for container in pod["containers"]:
            rights = container["securityContext"]
            assert rights["readOnlyRootFilesystem"], name
            assert rights["allowPrivilegeEscalation"] is False, name
            assert rights["capabilities"] == {"drop": ["ALL"]}, name
            assert container["resources"]["limits"]["memory"], name


def test_what_a_pod_mounts_and_reads_is_there() -> None:
    claims = {claim["metadata"]["name"] for claim in of_kind("PersistentVolumeClaim")}
    settings = {thing["metadata"]["name"]: thing["data"] for thing in of_kind("ConfigMap")}
    used = set()
    for name, deployment in DEPLOYMENTS.items():
        pod = deployment["template"]["spec"]
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        (container,) = pod["containers"]
        assert {mount["name"] for mount in container["volumeMounts"]} == set(volumes), name
        used |= {
            v["persistentVolumeClaim"]["claimName"] for v in volumes.values() if "persistentVolumeClaim" in v
        }
        passwords = {item["path"] for item in volumes["passwords"]["secret"]["items"]}
        environment = settings[container["envFrom"][0]["configMapRef"]["name"]]
        files = {Path(value).name for key, value in environment.items() if key.endswith("_FILE")}
        assert files == passwords, name
    assert used == claims


def test_microdata_are_counted_in_memory() -> None:
    for name in ("worker", "watcher"):
        pod = DEPLOYMENTS[name]["template"]["spec"]
        (mount,) = (m for m in pod["containers"][0]["volumeMounts"] if m["mountPath"] == "/run/tabularium")
        (volume,) = (v for v in pod["volumes"] if v["name"] == mount["name"])
        assert volume["emptyDir"]["medium"] == "Memory"


def test_nobody_reaches_anything_unless_it_is_named() -> None:
    policies = {thing["metadata"]["name"]: thing["spec"] for thing in of_kind("NetworkPolicy")}
    closed = policies["nothing-else"]
    assert closed == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    opened = [policy for policy in policies.values() if policy.get("ingress")]
    assert len(opened) == 1
    (rule,) = opened[0]["ingress"]
    assert rule["from"][0]["podSelector"]["matchExpressions"][0]["values"] == ["worker", "watcher"]
    assert all(thing["spec"].get("type", "ClusterIP") == "ClusterIP" for thing in of_kind("Service"))


def test_no_secret_is_part_of_the_base() -> None:
    assert not of_kind("Secret")
    assert "password=" not in " ".join(path.read_text() for path in BASE.glob("*.yaml"))


def test_the_tables_of_the_ledger_are_made_by_their_owner_whose_password_nobody_else_has() -> None:
    words = {
        name: spec["template"]["spec"]["containers"][0].get("args") for name, spec in DEPLOYMENTS.items()
    }
    assert words["migrate"] == ["tabularium", "ledger", "migrate"]
    secrets = {
        name: next(v["secret"]["secretName"] for v in spec["template"]["spec"]["volumes"] if "secret" in v)
        for name, spec in DEPLOYMENTS.items()
    }
    assert [name for name, secret in secrets.items() if secret == "ledger-owner"] == ["migrate"]
    page = (BASE.parents[1] / "docs" / "how-to" / "run-in-containers.md").read_text()
    assert all(f"create secret generic {secret}" in page for secret in set(secrets.values()))
