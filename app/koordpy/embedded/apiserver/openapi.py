"""A minimal OpenAPI document for clients: kinds, verbs, schemas of custom resources."""

from typing import Any

from .catalog import Catalog, Served

Document = dict[str, Any]

_INFO = {"title": "koordpy embedded API server", "version": "v1.35.3"}


def _name(served: Served) -> str:
    group = served.group or "core"
    return f"{'.'.join(reversed(group.split('.')))}.{served.version}.{served.kind}"


def _kind(served: Served) -> Document:
    return {"group": served.group, "version": served.version, "kind": served.kind}


def _schema(served: Served) -> Document:
    found: Document = served.strategy.schema() or {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
    }
    return {**found, "x-kubernetes-group-version-kind": [_kind(served)]}


def v2(catalog: Catalog) -> Document:
    """The old document: definitions of all kinds."""
    definitions = {_name(served): _schema(served) for served in catalog}
    return {"swagger": "2.0", "info": _INFO, "paths": {}, "definitions": definitions}


def v2_protobuf() -> bytes:
    """The old document as protobuf, without definitions: kubectl reads it for kinds that v3 does not have."""

    def text(number: int, value: bytes) -> bytes:
        return bytes((number << 3 | 2, len(value))) + value

    info = b"".join(text(number, _INFO[name].encode()) for number, name in ((1, "title"), (2, "version")))
    return text(1, b"2.0") + text(2, info)


def v3_index(catalog: Catalog) -> Document:
    """Where the documents of each group and version are."""
    paths = {}
    for group, versions in catalog.groups().items():
        for version in versions:
            path = f"apis/{group}/{version}" if group else f"api/{version}"
            paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={catalog.changes:016X}"}
    return {"paths": paths}


def v3(resources: list[Served]) -> Document:
    """The document of one group and version."""
    paths: Document = {}
    schemas: Document = {}
    for served in resources:
        name = _name(served)
        schemas[name] = _schema(served)
        reference = {"content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}}
        parameters = [
            {"name": field, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
            for field in ("dryRun", "fieldManager", "fieldValidation")
        ]

        def operation(action: str, served: Served = served, reference: Document = reference) -> Document:
            return {
                "parameters": parameters,  # noqa: B023
                "responses": {"200": {"description": "OK", **reference}},
                "x-kubernetes-action": action,
                "x-kubernetes-group-version-kind": _kind(served),
            }

        collection = served.path("{namespace}") if served.namespaced else served.path()
        paths[collection] = {"post": operation("post"), "get": operation("list")}
        if len(served.verbs) > 1:
            paths[f"{collection}/{{name}}"] = {
                "get": operation("get"),
                "put": operation("put"),
                "patch": operation("patch"),
                "delete": operation("delete"),
            }
    return {"openapi": "3.0.0", "info": _INFO, "paths": paths, "components": {"schemas": schemas}}
