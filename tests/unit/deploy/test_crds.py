"""The custom resource definitions of `deploy/crds`.

Each must be a structural schema (what the API server demands of one) with a description for people, and
agree in everything else with the definitions that the objects in existing clusters were written against.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
MANIFESTS = {path.stem: path for path in sorted((ROOT / "deploy" / "crds").glob("*.yaml"))}
PARITY = Path(os.environ.get("KOORDPY_PARITY", ROOT.parent / "shared" / "parity")) / "crds"
EXPECTED = sorted(PARITY.glob("*.json")) if PARITY.is_dir() else []

DIGESTS: dict[str, dict[str, str]] = json.loads(Path(__file__).with_name("crds.json").read_text())
"""Digests of the reference definitions, part by part: evidence where the definitions themselves are not."""

TYPES = {"array", "boolean", "integer", "number", "object", "string"}
IN_LOGIC = {"allOf", "anyOf", "oneOf", "not"}
"""Members whose schemas may restrict values only, not describe structure."""


def load(path: Path) -> dict[str, Any]:
    manifest: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return manifest


def versions(manifest: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [
        (version["name"], version["schema"]["openAPIV3Schema"]) for version in manifest["spec"]["versions"]
    ]


def without_descriptions(schema: Any, is_schema: bool = True) -> Any:
    """Drop `description` of schemas, but keep fields that are called so."""
    if isinstance(schema, dict):
        return {
            key: without_descriptions(value, is_schema=not (is_schema and key in ("properties", "default")))
            for key, value in schema.items()
            if not (is_schema and key == "description")
        }
    if isinstance(schema, list):
        return [without_descriptions(item, is_schema) for item in schema]
    return schema


def nodes(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}".removeprefix("."))
    if "items" in schema:
        yield from nodes(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from nodes(schema["additionalProperties"], f"{path}{{}}")


def structural_faults(schema: dict[str, Any]) -> Iterator[str]:
    for path, node in nodes(schema):
        free = node.get("x-kubernetes-int-or-string") or node.get("x-kubernetes-preserve-unknown-fields")
        if node.get("type") not in TYPES and not (free and "type" not in node):
            yield f"{path}: type {node.get('type')!r}"
        if node.get("type") == "array" and "items" not in node:
            yield f"{path}: an array without items"
        if "properties" in node and "additionalProperties" in node:
            yield f"{path}: both properties and additionalProperties"
        if "properties" in node and node.get("type") != "object":
            yield f"{path}: properties of no object"
        for name in node.get("required", ()):
            if "properties" in node and name not in node["properties"]:
                yield f"{path}: required {name!r} is no property"
        if "$ref" in node or "definitions" in node or node.get("uniqueItems"):
            yield f"{path}: $ref, definitions and uniqueItems are not allowed"
        for member in IN_LOGIC & node.keys():
            inner = node[member] if isinstance(node[member], list) else [node[member]]
            for branch in inner:
                extra = {"description", "default", "additionalProperties", "nullable"} & branch.keys()
                if extra or ("type" in branch and not node.get("x-kubernetes-int-or-string")):
                    yield f"{path}.{member}: {sorted(extra) or 'type'} is not allowed"


def digests(annotations: dict[str, str], spec: dict[str, Any]) -> dict[str, str]:
    """Return a digest of each part of a definition, descriptions aside: names and scope, then by version what
    is served and printed, and each field of the second level with all that is below it.
    """
    parts: dict[str, Any] = {"definition": [annotations, {**spec, "versions": []}]}
    for version in spec["versions"]:
        name, schema = version["name"], without_descriptions(version["schema"]["openAPIV3Schema"])
        parts[name] = {**version, "schema": None}
        for field, child in schema.pop("properties").items():
            for inner, grandchild in child.pop("properties", {}).items():
                parts[f"{name} {field}.{inner}"] = grandchild
            parts[f"{name} {field}"] = child
        parts[f"{name} object"] = schema
    return {
        part: hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
        for part, value in sorted(parts.items())
    }


@pytest.mark.parametrize("name", MANIFESTS)
def test_every_schema_is_structural(name: str) -> None:
    for _, schema in versions(load(MANIFESTS[name])):
        assert schema["type"] == "object"
        assert not list(structural_faults(schema))
        assert set(schema["properties"]["metadata"]) <= {"type", "description"}


@pytest.mark.parametrize("name", MANIFESTS)
def test_every_manifest_is_a_definition_that_the_api_server_takes(name: str) -> None:
    manifest = load(MANIFESTS[name])
    spec = manifest["spec"]
    assert (manifest["apiVersion"], manifest["kind"]) == (
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
    )
    assert manifest["metadata"]["name"] == f"{spec['names']['plural']}.{spec['group']}" == name
    assert spec["scope"] in ("Cluster", "Namespaced")
    assert [version["storage"] for version in spec["versions"]].count(True) == 1
    if spec["group"].endswith((".k8s.io", ".kubernetes.io")):
        assert manifest["metadata"]["annotations"]["api-approved.kubernetes.io"].startswith("https://")


@pytest.mark.parametrize("name", MANIFESTS)
def test_kinds_and_top_level_fields_are_described(name: str) -> None:
    for version, schema in versions(load(MANIFESTS[name])):
        assert schema.get("description"), version
        for field in ("spec", "status"):
            top = schema["properties"].get(field, {})
            missing = [
                key for key, child in top.get("properties", {}).items() if not child.get("description")
            ]
            assert not missing, f"{version} {field}: {missing}"


@pytest.mark.parametrize("name", MANIFESTS)
def test_manifests_are_plain_and_small(name: str) -> None:
    text = MANIFESTS[name].read_text(encoding="utf-8")
    assert len(text) < 512 * 1024
    assert not any(isinstance(token, yaml.AnchorToken | yaml.AliasToken) for token in yaml.scan(text))


@pytest.mark.skipif(not EXPECTED, reason="the reference definitions are not here")
def test_there_is_a_manifest_for_each_custom_resource() -> None:
    assert sorted(MANIFESTS) == [path.stem for path in EXPECTED]


@pytest.mark.parametrize("expected", EXPECTED, ids=[path.stem for path in EXPECTED])
def test_manifests_agree_with_the_reference_in_all_but_descriptions(expected: Path) -> None:
    reference = json.loads(expected.read_text(encoding="utf-8"))
    manifest = load(MANIFESTS[expected.stem])
    assert manifest["metadata"]["name"] == reference["name"]
    assert manifest["metadata"].get("annotations", {}) == reference["annotations"]
    ours = {**manifest["spec"], "versions": []}
    assert ours == {**reference["spec"], "versions": []}
    for own, other in zip(manifest["spec"]["versions"], reference["spec"]["versions"], strict=True):
        assert {**own, "schema": None} == {**other, "schema": None}
        assert without_descriptions(own["schema"]["openAPIV3Schema"]) == without_descriptions(
            other["schema"]["openAPIV3Schema"]
        )


@pytest.mark.parametrize("name", MANIFESTS)
def test_manifests_have_the_digests_of_the_reference(name: str) -> None:
    manifest = load(MANIFESTS[name])
    assert digests(manifest["metadata"].get("annotations", {}), manifest["spec"]) == DIGESTS[name]


@pytest.mark.skipif(not EXPECTED, reason="the reference definitions are not here")
def test_digests_are_those_of_the_reference() -> None:
    references = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in EXPECTED}
    assert {
        name: digests(reference["annotations"], reference["spec"]) for name, reference in references.items()
    } == DIGESTS
