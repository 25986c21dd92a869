"""CustomResourceDefinitions: a defined resource is served immediately.

Source: Kubernetes, `k8s.io/apiextensions-apiserver`. Conversion between versions other than `None` is not
supported: such a definition is rejected.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from koordpy.api import crd
from koordpy.api.field_cause import Cause, duplicate, invalid_value, required, unsupported
from koordpy.api.meta import format_time
from koordpy.lib.bounded_cache import cached
from koordpy.lib.clock import Clock
from koordpy.lib.text_documents import DocumentError, read_all_yaml

from ..catalog import STATUS, Catalog, Served, Subresource
from ..metadata import dns_label, dns_subdomain
from ..representation import jsonpath
from ..storage import Event, Table
from .custom import CustomStrategy
from .strategy import WithStatus

Document = dict[str, Any]
MakeTable = Callable[[Callable[[Document], Mapping[str, str]]], Table]


class DefinitionError(ValueError):
    """A file has no CustomResourceDefinition; the message names it."""


class DefinitionStrategy(WithStatus):
    """The rules of CustomResourceDefinitions."""

    unconditional_update = False
    returns_deleted = True

    def __init__(self, catalog: Catalog, clock: Clock) -> None:
        self._catalog = catalog
        self._clock = clock

    def default(self, document: Document) -> None:
        """Names follow from the kind; there is no conversion."""
        spec = document.setdefault("spec", {})
        if not isinstance(spec, dict):
            return
        spec.setdefault("conversion", {"strategy": "None"})
        names = spec.get("names")
        if isinstance(names, dict) and isinstance(names.get("kind"), str):
            names.setdefault("singular", names["kind"].lower())
            names.setdefault("listKind", f"{names['kind']}List")

    def prepare_create(self, document: Document) -> None:
        """An accepted definition is established immediately."""
        super().prepare_create(document)
        spec = document["spec"]
        now = format_time(self._clock.now())
        versions = spec.get("versions")
        stored = [
            version.get("name")
            for version in (versions if isinstance(versions, list) else ())
            if isinstance(version, dict) and version.get("storage")
        ]
        document["status"] = {
            "conditions": [
                _condition("NamesAccepted", "NoConflicts", "no conflicts found", now),
                _condition(
                    "Established", "InitialNamesAccepted", "the initial names have been accepted", now
                ),
            ],
            "acceptedNames": spec.get("names"),
            "storedVersions": stored,
        }

    def prepare_update(self, new: Document, old: Document) -> None:
        """Accepted names and stored versions follow the spec."""
        super().prepare_update(new, old)
        status = {**new.get("status", {})}
        status["acceptedNames"] = new["spec"].get("names")
        stored = list(status.get("storedVersions") or ())
        for version in new["spec"].get("versions") or ():
            if version.get("storage") and version.get("name", "") not in stored:
                stored.append(version.get("name", ""))
        status["storedVersions"] = stored
        new["status"] = status

    def validate(self, document: Document) -> Iterable[Cause]:
        """Return the errors in a definition."""
        spec = document["spec"]
        group, names = spec.get("group", ""), spec.get("names") or {}
        if not group:
            yield required("spec.group")
        elif problem := dns_subdomain(group):
            yield invalid_value("spec.group", group, problem)
        for name in ("plural", "kind"):
            if not names.get(name):
                yield required(f"spec.names.{name}")
        if names.get("plural") and (problem := dns_label(names["plural"])):
            yield invalid_value("spec.names.plural", names["plural"], problem)
        wanted = f"{names.get('plural', '')}.{group}"
        if document["metadata"].get("name") != wanted:
            told = f'must be spec.names.plural+"."+spec.group, expected "{wanted}"'
            yield invalid_value("metadata.name", document["metadata"].get("name", ""), told)
        if spec.get("scope") not in ("Cluster", "Namespaced"):
            yield unsupported("spec.scope", spec.get("scope", ""), ("Cluster", "Namespaced"))
        if (spec.get("conversion") or {}).get("strategy") != "None":
            strategy = (spec.get("conversion") or {}).get("strategy", "")
            yield unsupported("spec.conversion.strategy", strategy, ("None",))
        other = self._catalog.find(group, "v1", names.get("plural", ""))
        if other is not None and not other.custom:
            yield invalid_value("spec.names.plural", names.get("plural"), "is a built-in resource")
        yield from _validate_versions(spec.get("versions") or [])

    def validate_update(self, new: Document, old: Document) -> Iterable[Cause]:
        """Group, scope and names of an established definition stay."""
        for path in (("group",), ("scope",), ("names", "kind"), ("names", "plural")):
            before, after = old["spec"], new["spec"]
            for name in path:
                before, after = before.get(name) or {}, after.get(name) or {}
            if before != after:
                yield invalid_value(f"spec.{'.'.join(path)}", after, "field is immutable")


def _condition(type_: str, reason: str, message: str, now: str) -> Document:
    return {
        "type": type_,
        "status": "True",
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }


def _validate_versions(versions: list[Document]) -> Iterator[Cause]:
    if not versions:
        yield required("spec.versions")
        return
    seen: set[str] = set()
    for index, version in enumerate(versions):
        at, name = f"spec.versions[{index}]", version.get("name") or ""
        if problem := dns_label(name):
            yield invalid_value(f"{at}.name", name, problem)
        if name in seen:
            yield duplicate(f"{at}.name", name)
        seen.add(name)
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        where = f"{at}.schema.openAPIV3Schema"
        if not schema:
            yield required(where, "schemas are required")
            continue
        yield from _schema_causes((where, msgspec.json.encode(schema)))
        for number, column in enumerate(version.get("additionalPrinterColumns") or ()):
            try:
                jsonpath.parse(column.get("jsonPath", ""))
            except jsonpath.JSONPathError as error:
                place = f"{at}.additionalPrinterColumns[{number}].jsonPath"
                yield invalid_value(place, column.get("jsonPath", ""), str(error))
    if sum(bool(version.get("storage")) for version in versions) != 1:
        yield invalid_value(
            "spec.versions", len(versions), "must have exactly one version marked as storage version"
        )


@cached("schema_causes", 4 << 20, lambda key, causes: 2 * len(key[1]) + 500 * len(causes))
def _schema_causes(key: tuple[str, bytes]) -> tuple[Cause, ...]:
    """Return the errors in a schema, by its place in the definition and its JSON."""
    where, schema = key[0], msgspec.json.decode(key[1])
    found = tuple(Cause(error.field, error.reason, error.message) for error in crd.problems(schema, where))
    if not found:
        try:
            crd.Schema(schema, where)
        except crd.SchemaError as error:
            return (invalid_value(where, "", str(error)),)
    return found


class Definitions:
    """Keeps the catalog in sync with the stored definitions.

    `withdrawn` is called with the table of a resource that is no longer served.
    """

    def __init__(
        self, catalog: Catalog, make_table: MakeTable, withdrawn: Callable[[Table], None], clock: Clock
    ) -> None:
        self._catalog = catalog
        self._make_table = make_table
        self._withdrawn = withdrawn
        own = catalog.find("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        if own is None:
            raise LookupError("customresourcedefinitions are not served")
        own.strategy = DefinitionStrategy(catalog, clock)
        self._own = own
        own.table.subscribe(self._changed)

    def read(self, sources: Iterable[str | Path | Document]) -> Iterator[Document]:
        """Yield the definitions of documents, files (YAML, several documents) and folders of such files.

        Raises DefinitionError, OSError.
        """
        for source in sources:
            if isinstance(source, dict):
                yield {**source}
                continue
            path = Path(source)
            files = sorted([*path.glob("*.yaml"), *path.glob("*.yml")]) if path.is_dir() else [path]
            if not files:
                raise DefinitionError(f"{path}: no YAML files")
            for file in files:
                yield from _read_file(file)

    def restore(self) -> None:
        """Serve the resources defined in a snapshot."""
        for record in self._own.table:
            self._serve(record.document())

    def _changed(self, event: Event) -> None:
        document = event.record.document()
        if event.type == "DELETED":
            self._withdraw(document)
        elif event.previous is None or event.previous.document().get("spec") != document.get("spec"):
            self._serve(document)

    def _serve(self, document: Document) -> None:
        spec, names = document["spec"], document["spec"]["names"]
        group, plural = spec["group"], names["plural"]
        known = [served for served in self._catalog if served.group == group and served.plural == plural]
        table = known[0].table if known else None
        versions = {version["name"]: version for version in spec["versions"]}
        for served in known:
            if served.version not in versions or not versions[served.version].get("served"):
                self._catalog.remove(group, served.version, plural)
        stored = next(version for version in spec["versions"] if version.get("storage"))
        strategies = {name: CustomStrategy.of(version) for name, version in versions.items()}
        if table is None:
            table = self._make_table(strategies[stored["name"]].fields)
        for version in spec["versions"]:
            if not version.get("served"):
                continue
            served = Served(
                group,
                version["name"],
                plural,
                names["kind"],
                spec["scope"] == "Namespaced",
                tuple(names.get("shortNames") or ()),
                tuple(names.get("categories") or ()),
                _subresources(version, names["kind"]),
                singular=names.get("singular", ""),
                list_kind=names.get("listKind", ""),
                custom=True,
            )
            served.table = table
            served.strategy = strategies[version["name"]]
            self._catalog.add(served)

    def _withdraw(self, document: Document) -> None:
        spec = document["spec"]
        for version in spec["versions"]:
            served = self._catalog.find(spec["group"], version["name"], spec["names"]["plural"])
            if served is None:
                continue
            self._catalog.remove(served.group, served.version, served.plural)
            for record in served.table:
                served.table.remove(record.key)
            self._withdrawn(served.table)


def _subresources(version: Document, kind: str) -> tuple[Subresource, ...]:
    if "status" not in (version.get("subresources") or {}):
        return ()
    return (Subresource("status", STATUS.verbs, kind),)


def _read_file(file: Path) -> Iterator[Document]:
    try:
        definitions = _definitions_in(file.read_bytes())
    except DocumentError as error:
        raise DefinitionError(f"{file}: not YAML: {error}") from None
    if not definitions:
        raise DefinitionError(f"{file}: no CustomResourceDefinition")
    yield from map(msgspec.json.decode, definitions)


@cached("definition_files", 4 << 20, lambda text, found: len(text) + sum(map(len, found)))
def _definitions_in(text: bytes) -> tuple[bytes, ...]:
    """Return the definitions in a YAML file, as JSON. Raises DocumentError."""
    return tuple(
        msgspec.json.encode(document)
        for document in read_all_yaml(text)
        if isinstance(document, dict) and document.get("kind") == "CustomResourceDefinition"
    )
