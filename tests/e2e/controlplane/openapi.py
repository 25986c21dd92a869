"""Writes the OpenAPI schemas of the built-in kinds that the embedded API server serves.

`python -m tests.e2e.controlplane.openapi` starts the real API server, takes its documents below
`/openapi/v3`, keeps the schemas of the kinds in the embedded server's catalog with all that these refer to,
and writes them to `app/koordpy/embedded/apiserver/openapi_schemas.json.gz`: for one release always the same.
"""

import gzip
import json
from collections.abc import Iterable
from typing import Any

import httpx

from koordpy.embedded.apiserver import openapi
from koordpy.embedded.apiserver.catalog import built_in

from .plane import ControlPlane

Document = dict[str, Any]


def _closure(names: Iterable[str], schemas: Document) -> Document:
    found: Document = {}
    pending = sorted(names)
    while pending:
        name = pending.pop()
        if name not in found:
            found[name] = schemas[name]
            pending.extend(openapi.references(schemas[name]))
    return dict(sorted(found.items()))


def collect(http: httpx.Client) -> Document:
    """Return release, names by kind, and schemas, from the documents of an API server."""
    served = {(item.group, item.version, item.kind) for item in built_in()}
    schemas: Document = {}
    for path, entry in http.get("/openapi/v3").raise_for_status().json()["paths"].items():
        if path.startswith(("api/", "apis/")):
            document = http.get(entry["serverRelativeURL"]).raise_for_status().json()
            schemas |= document.get("components", {}).get("schemas", {})
    kinds = {}
    for name, schema in schemas.items():
        listed = schema.get("x-kubernetes-group-version-kind") or []
        if (
            len(listed) == 1
            and (key := tuple(listed[0][part] for part in ("group", "version", "kind"))) in served
        ):
            kinds["/".join(key)] = name
    return {
        "origin": "Kubernetes, Apache-2.0; made by tests/e2e/controlplane/openapi.py",
        "release": http.get("/version").raise_for_status().json()["gitVersion"],
        "kinds": dict(sorted(kinds.items())),
        "schemas": _closure([*kinds.values(), openapi.METADATA], schemas),
    }


def main() -> None:
    """Write the file."""
    with ControlPlane() as plane:
        headers = {"Authorization": f"Bearer {plane.token}"}
        with httpx.Client(base_url=plane.url, headers=headers, verify=str(plane.ca_file)) as http:
            found = collect(http)
    text = json.dumps(found, separators=(",", ":"), ensure_ascii=False).encode()
    openapi.FILE.write_bytes(gzip.compress(text, 9, mtime=0))
    print(f"{openapi.FILE}: {len(found['kinds'])} kinds, {len(found['schemas'])} schemas")


if __name__ == "__main__":
    main()
