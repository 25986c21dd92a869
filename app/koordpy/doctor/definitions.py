"""Whether the CustomResourceDefinitions are installed and serve what koordpy's versions of them serve."""

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

from koordpy import data
from koordpy.api.meta import KubeObject
from koordpy.api.scheme import RESOURCES, Resource
from koordpy.cluster.errors import NotFound
from koordpy.features.feature import definition_name, shipped_definitions

from .finding import Area, Finding
from .installation import Installation

AREA = Area("definitions")

DEFINITIONS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False, KubeObject
)

_SHOWN = 3

Document = Mapping[str, Any]


async def check(installation: Installation) -> AsyncIterator[Finding]:
    """Compare every shipped definition with the cluster's."""
    resources = {definition_name(resource): resource for resource in RESOURCES.values()}
    for name in sorted(shipped_definitions()):
        needed = installation.needed_by(resources[name]) if name in resources else []
        [shipped] = data.documents("crds", f"{name}.yaml")
        try:
            found = await installation.client.get_raw(DEFINITIONS, "", name)
        except NotFound:
            if needed:
                yield AREA.problem(
                    name, f"is not installed; needed by {', '.join(needed)}, which cannot start", _apply(name)
                )
            else:
                yield AREA.note(name, "is not installed; no enabled feature needs it", _apply(name))
            continue
        problems = list(_problems(shipped, found))
        for problem in problems:
            who = f"; needed by {', '.join(needed)}" if needed else ""
            yield (AREA.problem if needed else AREA.warning)(name, f"{problem}{who}", _apply(name))
        pruned = [] if problems else _pruned(shipped, found)
        if pruned:
            more = f" and {len(pruned) - _SHOWN} more" if len(pruned) > _SHOWN else ""
            yield AREA.warning(
                name,
                f"is older than koordpy's: the API server drops {', '.join(pruned[:_SHOWN])}{more}",
                _apply(name),
            )
        elif not problems:
            versions = ", ".join(sorted(_served(found)))
            yield AREA.ok(name, f"serves {versions}" + (f" for {', '.join(needed)}" if needed else ""))


def _problems(shipped: Document, found: Document) -> Iterator[str]:
    missing = sorted(set(_served(shipped)) - set(_served(found)))
    if missing:
        served = ", ".join(sorted(_served(found))) or "no version"
        yield f"does not serve {', '.join(missing)} (it serves {served})"
    wanted, given = shipped["spec"]["scope"], (found.get("spec") or {}).get("scope")
    if given != wanted:
        yield f"has scope {given}, expected {wanted}"
    conditions = (found.get("status") or {}).get("conditions") or []
    established: Document = next((c for c in conditions if c.get("type") == "Established"), {})
    if established.get("status") != "True":
        yield f"is not established: {established.get('message') or 'the API server has not accepted it yet'}"


def _served(definition: Document) -> dict[str, Document]:
    versions = (definition.get("spec") or {}).get("versions") or []
    return {str(version.get("name")): version for version in versions if version.get("served")}


def _pruned(shipped: Document, found: Document) -> list[str]:
    """Return the fields of koordpy's schemas that the cluster's schemas lack and would prune."""
    theirs = _served(found)
    return [
        path
        for name, version in _served(shipped).items()
        for path in _missing(_schema(version), _schema(theirs[name]), "")
    ]


def _schema(version: Document) -> Document:
    return (version.get("schema") or {}).get("openAPIV3Schema") or {}


def _missing(ours: Document, theirs: Document, path: str) -> Iterator[str]:
    if theirs.get("x-kubernetes-preserve-unknown-fields") or theirs.get("additionalProperties") is True:
        return
    known = theirs.get("properties") or {}
    for name, schema in (ours.get("properties") or {}).items():
        where = f"{path}.{name}" if path else name
        if name in known:
            yield from _missing(schema, known[name], where)
        elif not isinstance(theirs.get("additionalProperties"), Mapping):
            yield where
    for inner in ("items", "additionalProperties"):
        mine, other = ours.get(inner), theirs.get(inner)
        if isinstance(mine, Mapping) and isinstance(other, Mapping):
            yield from _missing(mine, other, f"{path}[]")


def _apply(name: str) -> str:
    return f"kubectl apply --server-side -f deploy/crds/{name}.yaml"
