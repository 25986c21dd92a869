"""`kubectl kustomize` of the overlays in `deploy/kustomize`."""

import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.controlplane import build

DEPLOY = Path(__file__).parents[2] / "deploy"
OVERLAYS = sorted(folder.name for folder in (DEPLOY / "kustomize" / "overlays").iterdir() if folder.is_dir())

Document = dict[str, Any]


@cache
def kustomize(overlay: str) -> str:
    """Return the manifests of an overlay as kubectl renders them."""
    kubectl = build.ensure(["kubectl"])["kubectl"]
    done = subprocess.run(
        [kubectl, "kustomize", DEPLOY / "kustomize" / "overlays" / overlay],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def documents(overlay: str) -> list[Document]:
    """Return the objects of an overlay, each call anew."""
    return [document for document in yaml.safe_load_all(kustomize(overlay)) if document]


def key(document: Document) -> tuple[str, str, str]:
    """Return kind, namespace and name of an object."""
    meta = document["metadata"]
    return document["kind"], meta.get("namespace", ""), meta["name"]
