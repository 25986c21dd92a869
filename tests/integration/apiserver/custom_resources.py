"""The custom resources that the suite defines for itself, rich in what structural schemas can say."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from koordpy.lib.text_documents import read_all_yaml
from tests.eventually import eventually
from tests.integration.apiserver.rest import AGGREGATED, Document, Rest, ok

SHIPPED = Path(__file__).parents[3] / "deploy" / "crds"

GROUP = "conformance.example.com"
GROUP_VERSION = f"{GROUP}/v1"


def definition(plural: str, kind: str, scope: str, schema: Document, **version: Any) -> Document:
    """A CustomResourceDefinition of one version, ``v1``."""
    served = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, **version}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": scope,
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
            "versions": [served],
        },
    }


_WIDGET_SPEC = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 10},
        "colour": {"type": "string", "enum": ["red", "blue"], "default": "red"},
        "code": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
        "ratio": {"type": "number"},
        "note": {"type": "string", "nullable": True},
        "nested": {
            "type": "object",
            "default": {},
            "properties": {"depth": {"type": "integer", "default": 3}, "width": {"type": "integer"}},
        },
        "tags": {"type": "array", "maxItems": 3, "items": {"type": "string"}},
        "parts": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string"}, "count": {"type": "integer", "default": 1}},
            },
        },
        "amount": {"x-kubernetes-int-or-string": True},
        "amounts": {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": True}},
        "raw": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "since": {"type": "string", "format": "date-time"},
    },
}

_STATUS = {"type": "object", "properties": {"phase": {"type": "string"}}}

WIDGETS = definition(
    "widgets",
    "Widget",
    "Namespaced",
    {"type": "object", "properties": {"spec": _WIDGET_SPEC, "status": _STATUS}},
    subresources={"status": {}},
    additionalPrinterColumns=[
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Colour", "type": "string", "jsonPath": ".spec.colour", "priority": 1},
        {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ],
)
WIDGETS["spec"]["names"]["shortNames"] = ["wd"]

GADGETS = definition(
    "gadgets",
    "Gadget",
    "Cluster",
    {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "status": _STATUS,
        },
    },
)


def widget(name: str, **spec: Any) -> Document:
    spec = {"size": 1, **spec}
    return {"apiVersion": GROUP_VERSION, "kind": "Widget", "metadata": {"name": name}, "spec": spec}


def gadget(name: str, **fields: Any) -> Document:
    return {"apiVersion": GROUP_VERSION, "kind": "Gadget", "metadata": {"name": name}, **fields}


def shipped() -> Iterator[Document]:
    """The definitions that koordpy ships."""
    for file in sorted(SHIPPED.glob("*.yaml")):
        for document in read_all_yaml(file.read_bytes()):
            if document and document["kind"] == "CustomResourceDefinition":
                yield document


def define(rest: Rest, document: Document) -> Document:
    """Create the definition, unless it is there; returns when its objects are served and discovered."""
    definitions = rest.collection("customresourcedefinitions")
    name, spec = document["metadata"]["name"], document["spec"]
    if definitions.get(name).status_code == 404:
        ok(definitions.create(document), 201)
    stored = next(version["name"] for version in spec["versions"] if version["storage"])
    group_version = f"{spec['group']}/{stored}"
    served = rest.collection(spec["names"]["plural"], "", group_version)

    def established() -> bool:
        conditions = ok(definitions.get(name)).get("status", {}).get("conditions") or []
        return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)

    def discovered() -> bool:
        one = rest.get(f"/apis/{group_version}")
        every = rest.get("/apis", AGGREGATED)
        kind = spec["names"]["kind"]
        return one.is_success and f'"{kind}"' in one.text and f'"{kind}"' in every.text

    assert eventually(established), f"{name} is not established: {definitions.get(name).text}"
    assert eventually(lambda: served.list().status_code == 200), f"{name} is not served"
    assert eventually(discovered), f"{name} is not discovered"
    return ok(definitions.get(name))
