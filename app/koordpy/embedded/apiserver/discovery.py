"""Discovery: the documents that clients request first.

Both the unaggregated documents (one per group and version) and the aggregated ones, and enough OpenAPI for
kubectl's client-side checks.
"""

from typing import Any

import msgspec

from . import openapi
from .catalog import Catalog, Served
from .errors import unknown_path
from .wire import Request, Response

Document = dict[str, Any]

VERSION = {
    "major": "1",
    "minor": "35",
    "emulationMajor": "1",
    "emulationMinor": "35",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "34",
    "gitVersion": "v1.35.3",
    "gitCommit": "koordpy-embedded",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "none",
    "compiler": "none",
    "platform": "any/any",
}


_OPENAPI_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"


class Discovery:
    """Describes the catalog. Documents are kept until the catalog changes."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._documents: dict[str, Response] = {}
        self._changes = -1

    def answer(self, request: Request, parts: list[str]) -> Response:
        """Answer a path that is not a resource's; raise ApiError (404)."""
        if self._changes != self._catalog.changes:
            self._documents.clear()
            self._changes = self._catalog.changes
        aggregated = "as=APIGroupDiscoveryList" in request.header(b"accept") and len(parts) == 1
        version = "v2" if ";v=v2;" in request.header(b"accept") + ";" else "v2beta1"
        if parts == ["openapi", "v2"] and "proto-openapi.spec.v2" in request.header(b"accept"):
            return Response(openapi.v2_protobuf(), content_type=_OPENAPI_PROTOBUF)
        key = f"{'/'.join(parts)} {version if aggregated else ''}"
        found = self._documents.get(key)
        if found is None:
            if aggregated and parts[0] in ("api", "apis"):
                document = self._aggregated(parts[0] == "api", version)
                content = f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
                found = Response(msgspec.json.encode(document), content_type=content)
            else:
                body = msgspec.json.encode(self._document(parts))
                found = Response(msgspec.json.format(body) if parts == ["version"] else body)
            self._documents[key] = found
        return found

    def _document(self, parts: list[str]) -> Document:
        match parts:
            case ["version"]:
                return VERSION
            case ["api"]:
                return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
            case ["apis"]:
                groups = [self._group(name, versions) for name, versions in self._groups().items()]
                return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
            case ["apis", group] if group in self._groups():
                found = {"kind": "APIGroup", "apiVersion": "v1"}
                return found | self._group(group, self._groups()[group])
            case ["api", version]:
                return self._resources("", version)
            case ["apis", group, version]:
                return self._resources(group, version)
            case ["openapi", "v2"]:
                return openapi.v2(self._catalog)
            case ["openapi", "v3"]:
                return openapi.v3_index(self._catalog)
            case ["openapi", "v3", "api", version]:
                return self._openapi("", version)
            case ["openapi", "v3", "apis", group, version]:
                return self._openapi(group, version)
            case [""]:
                return {
                    "paths": [
                        "/api",
                        "/apis",
                        "/healthz",
                        "/livez",
                        "/openapi/v2",
                        "/openapi/v3",
                        "/readyz",
                        "/version",
                    ]
                }
        raise unknown_path()

    def _groups(self) -> dict[str, list[str]]:
        return {group: versions for group, versions in self._catalog.groups().items() if group}

    @staticmethod
    def _group(name: str, versions: list[str]) -> Document:
        listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
        return {"name": name, "versions": listed, "preferredVersion": listed[0]}

    def _openapi(self, group: str, version: str) -> Document:
        served = self._catalog.of(group, version)
        if served is None:
            raise unknown_path()
        return openapi.v3(served)

    def _resources(self, group: str, version: str) -> Document:
        served = self._catalog.of(group, version)
        if served is None:
            raise unknown_path()
        resources: list[Document] = []
        for one in sorted(served, key=lambda item: item.plural):
            found: Document = {
                "name": one.plural,
                "singularName": one.singular,
                "namespaced": one.namespaced,
                "kind": one.kind,
                "verbs": list(one.verbs),
            }
            if one.short_names:
                found["shortNames"] = list(one.short_names)
            if one.categories:
                found["categories"] = list(one.categories)
            resources.append(found)
            for sub in one.subresources:
                entry: Document = {
                    "name": f"{one.plural}/{sub.name}",
                    "singularName": "",
                    "namespaced": one.namespaced,
                    "kind": sub.kind or one.kind,
                    "verbs": list(sub.verbs),
                }
                if sub.group_version:
                    entry["group"], entry["version"] = _split(sub.group_version)
                resources.append(entry)
        group_version = f"{group}/{version}" if group else version
        return {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": group_version,
            "resources": resources,
        }

    def _aggregated(self, core: bool, version: str) -> Document:
        items = []
        for group, versions in self._catalog.groups().items():
            if (group == "") != core:
                continue
            described = []
            for one in versions:
                resources = sorted(self._catalog.of(group, one) or [], key=lambda item: item.plural)
                described.append(
                    {
                        "version": one,
                        "resources": [_describe(served) for served in resources],
                        "freshness": "Current",
                    }
                )
            items.append(
                {
                    "metadata": {"name": group, "creationTimestamp": None}
                    if group
                    else {"creationTimestamp": None},
                    "versions": described,
                }
            )
        return {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": f"apidiscovery.k8s.io/{version}",
            "metadata": {},
            "items": items,
        }


def _split(group_version: str) -> tuple[str, str]:
    group, _, version = group_version.rpartition("/")
    return group, version


def _describe(served: Served) -> Document:
    found: Document = {
        "resource": served.plural,
        "responseKind": {"group": served.group, "version": served.version, "kind": served.kind},
        "scope": "Namespaced" if served.namespaced else "Cluster",
        "singularResource": served.singular,
        "verbs": list(served.verbs),
    }
    if served.short_names:
        found["shortNames"] = list(served.short_names)
    if served.categories:
        found["categories"] = list(served.categories)
    if served.subresources:
        found["subresources"] = []
        for sub in served.subresources:
            group, version = (
                _split(sub.group_version) if sub.group_version else (served.group, served.version)
            )
            kind = {"group": group, "version": version, "kind": sub.kind or served.kind}
            found["subresources"].append(
                {"subresource": sub.name, "responseKind": kind, "verbs": list(sub.verbs)}
            )
    return found
