"""`kubectl kustomize` of the overlays in `deploy/kustomize`."""

import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from koordpy.lib.text_documents import read_all_yaml
from tests.e2e.controlplane import build
from tests.eventually import PATIENCE

DEPLOY = Path(__file__).parents[2] / "deploy"
OVERLAYS = sorted(folder.name for folder in (DEPLOY / "kustomize" / "overlays").iterdir() if folder.is_dir())

Document = dict[str, Any]


@cache
def kustomize(overlay: str) -> str:
    """Return the manifests of an overlay as kubectl renders them."""
    return kustomized(DEPLOY / "kustomize" / "overlays" / overlay)


def kustomized(folder: Path) -> str:
    """Return the manifests of a folder with a kustomization as kubectl renders them."""
    kubectl = build.ensure(["kubectl"])["kubectl"]
    done = subprocess.run(
        [kubectl, "kustomize", folder],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def documents(overlay: str) -> list[Document]:
    """Return the objects of an overlay, each call anew."""
    return [document for document in read_all_yaml(kustomize(overlay)) if document]


def key(document: Document) -> tuple[str, str, str]:
    """Return kind, namespace and name of an object."""
    meta = document["metadata"]
    return document["kind"], meta.get("namespace", ""), meta["name"]


def revision(document: Document) -> str:
    """Return what changes whenever an object is changed: its generation where it has one.

    The status of definitions is written by the API server itself, whenever it gets to it.
    """
    meta = document["metadata"]
    return str(meta.get("generation") or meta["resourceVersion"])


def comparable(document: Document) -> Document:
    """Return an object without what kustomize and Helm each add: hashes of names, their labels and notes.

    YAML inside of ConfigMaps is read, so that comments do not count.
    """
    if isinstance(document, dict) and document.get("kind") == "ConfigMap":
        document = {
            **document,
            "data": {name: yaml.safe_load(text) for name, text in document["data"].items()},
        }
    found: Document = _without_marks(document)
    return found


_MARKS = ("app.kubernetes.io/managed-by", "helm.sh/chart", "helm.sh/resource-policy", "checksum/config")
_UNORDERED = {"volumeMounts", "volumes"}
_HASH = re.compile(r"(?<=^koordpy-)(.*-(?:config|profiles))-[bcdfghkmt2456789]{10}$")


def _without_marks(value: Any) -> Any:
    if isinstance(value, dict):
        found = {name: _without_marks(item) for name, item in value.items() if name not in _MARKS}
        if "capabilities" in found and found["capabilities"].get("add"):
            added = sorted(set(found["capabilities"]["add"]))  # two components may add the same one
            found["capabilities"] = {**found["capabilities"], "add": added}
        for name in _UNORDERED & found.keys():
            found[name] = sorted(found[name], key=lambda item: str(item["name"]))
        return {name: item for name, item in found.items() if name not in ("annotations", "labels") or item}
    if isinstance(value, list):
        return [_without_marks(item) for item in value]
    return _HASH.sub(r"\1", value) if isinstance(value, str) else value
