"""Objects as people write them: what Koordinator ships and what a team applies are accepted unchanged.

The samples are not part of the project; KOORDPY_SAMPLES names their folder.
"""

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.apiserver.custom_resources import define, shipped
from tests.integration.apiserver.rest import AGGREGATED, Document, Rest, ok

SAMPLES = Path(os.environ.get("KOORDPY_SAMPLES") or Path(__file__).parents[4] / "shared" / "samples")

Kinds = dict[tuple[str, str], Document]

FOREIGN = {"SparkApplication"}
"""Kinds whose definitions are neither built in nor Koordinator's."""


def documents(folder: str) -> list[Document]:
    """All objects of the YAML files in one folder of the samples."""
    if not (SAMPLES / folder).is_dir():
        pytest.skip(f"there are no samples at {SAMPLES / folder}; KOORDPY_SAMPLES names their folder")
    texts = [file.read_text() for file in sorted((SAMPLES / folder).glob("*.yaml"))]
    found = [document for text in texts for document in yaml.safe_load_all(text) if document]
    return [document for document in found if document["kind"] not in FOREIGN]


def kinds(rest: Rest) -> Kinds:
    """What discovery says of each (apiVersion, kind)."""
    found: Kinds = {}
    for root in ("/api", "/apis"):
        for group in ok(rest.get(root, AGGREGATED))["items"]:
            for version in group["versions"]:
                name = group["metadata"].get("name")
                api_version = f"{name}/{version['version']}" if name else version["version"]
                for resource in version.get("resources", []):
                    found[api_version, resource["responseKind"]["kind"]] = resource
    return found


def created(
    rest: Rest, document: Document, namespace: str, known: dict[tuple[str, str], Document]
) -> Document:
    """Dry-run the creation of ``document``, in ``namespace`` where its kind has one."""
    resource = known[document["apiVersion"], document["kind"]]
    metadata = {**document["metadata"]}
    metadata.pop("namespace", None)
    # Two runs on one server must not meet.
    metadata["name"] = f"{metadata['name']}-{namespace}"[:60].rstrip("-")
    where = namespace if resource["scope"] == "Namespaced" else ""
    collection = rest.collection(resource["resource"], where, document["apiVersion"])
    strict = {"dryRun": "All", "fieldValidation": "Strict"}
    return ok(collection.create(document | {"metadata": metadata}, **strict), 201)


def missing(expected: Any, found: Any, path: str = "") -> list[str]:
    """The paths of ``expected`` that ``found`` lacks or answers differently; null says nothing."""
    if isinstance(expected, dict) and isinstance(found, dict):
        return [
            at
            for key, value in expected.items()
            if value is not None
            for at in missing(value, found.get(key), f"{path}.{key}")
        ]
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        pairs = enumerate(zip(expected, found, strict=True))
        return [at for index, (one, other) in pairs for at in missing(one, other, f"{path}[{index}]")]
    return [] if expected == found else [path]


@pytest.mark.parametrize("folder", ["koordinator", "online-boutique"])
def test_samples_are_accepted(rest: Rest, namespace: str, folder: str) -> None:
    wanted = documents(folder)
    for definition in shipped():
        define(rest, definition)
    known = kinds(rest)
    for document in wanted:
        created(rest, document, namespace, known)


def test_nothing_of_koordinators_custom_resources_is_dropped(rest: Rest, namespace: str) -> None:
    wanted = [document for document in documents("koordinator") if "koordinator.sh" in document["apiVersion"]]
    for definition in shipped():
        define(rest, definition)
    known = kinds(rest)
    assert wanted
    for document in wanted:
        found = created(rest, document, namespace, known)
        assert missing(document.get("spec") or {}, found.get("spec") or {}) == [], document["kind"]
