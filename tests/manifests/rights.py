"""What RBAC roles of a set of manifests allow one service account, and which of it requests make use of.

A role's rules are taken apart into single grants (one verb on one resource, perhaps of one name), so that a
rule of which only a part is used shows.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

from tests.manifests.render import DEPLOY

Document = dict[str, Any]


@dataclass(frozen=True, order=True)
class Request:
    """What the authorizer of an API server sees of a request."""

    verb: str
    group: str
    resource: str
    """With its subresource: `pods/binding`."""
    namespace: str = ""
    name: str = ""


_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def request_of(method: str, target: str) -> Request | None:
    """Return what an HTTP request asks for, as kube-apiserver reads it; None for a path of no resource."""
    url = urlsplit(target)
    root, *parts = url.path.strip("/").split("/")
    if root not in ("api", "apis"):
        return None
    group = parts.pop(0) if root == "apis" else ""
    parts = parts[1:]
    namespace = ""
    if len(parts) > 2 and parts[0] == "namespaces" and parts[2] not in ("status", "finalize"):
        namespace, parts = parts[1], parts[2:]
    resource, name, subresource = [*parts, "", ""][:3]
    query = parse_qs(url.query)
    verb = _VERBS.get(method, "get" if name else "list")
    if verb == "list":
        verb = "watch" if query.get("watch", ["0"])[0] in ("1", "true") else verb
        key, _, value = query.get("fieldSelector", [""])[0].partition("=")
        name = value if key == "metadata.name" else ""
    if verb == "create" and name and not subresource:
        return None
    resource = f"{resource}/{subresource}" if subresource else resource
    return Request(verb, group, resource, namespace, name)


@dataclass(frozen=True, order=True)
class Grant:
    """One verb on one resource. An empty namespace means all of them, an empty name every object."""

    role: str
    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""

    def covers(self, request: Request) -> bool:
        """Return whether this alone allows a request."""
        return (
            (self.verb, self.group, self.resource) == (request.verb, request.group, request.resource)
            and self.namespace in ("", request.namespace)
            and self.name in ("", request.name)
        )

    def __str__(self) -> str:
        where = f" in {self.namespace}" if self.namespace else ""
        what = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.role}: {self.verb} {what}{f' {self.name}' if self.name else ''}{where}"


def grants_of(account: str, manifests: Iterable[Document]) -> list[Grant]:
    """Return what the roles in these manifests give to a service account, by its name.

    Roles that a binding names and that are not among the manifests (Kubernetes' own) give nothing here.
    """
    documents = list(manifests)
    roles = {
        (found["kind"], found["metadata"].get("namespace", ""), found["metadata"]["name"]): found
        for found in documents
        if found["kind"] in ("Role", "ClusterRole")
    }
    found: list[Grant] = []
    for binding in documents:
        if binding["kind"] not in ("RoleBinding", "ClusterRoleBinding"):
            continue
        if not any(s["kind"] == "ServiceAccount" and s["name"] == account for s in binding["subjects"]):
            continue
        namespace = binding["metadata"].get("namespace", "")
        kind, name = binding["roleRef"]["kind"], binding["roleRef"]["name"]
        role = roles.get((kind, namespace if kind == "Role" else "", name))
        if role is not None:
            found += _grants(role, namespace)
    return found


def shipped_grants(component: str, account: str) -> list[Grant]:
    """Return what a component's folder of the kustomize base gives to a service account."""
    files = (DEPLOY / "kustomize" / "base" / component).rglob("rbac.yaml")
    return grants_of(account, [found for file in files for found in yaml.safe_load_all(file.read_text())])


def unused(grants: Iterable[Grant], requests: Iterable[Request]) -> list[Grant]:
    """Return the grants that no request needs."""
    seen = list(requests)
    return sorted(grant for grant in grants if not any(grant.covers(request) for request in seen))


def refused(grants: Iterable[Grant], requests: Iterable[Request]) -> list[Request]:
    """Return the requests that no grant covers."""
    given = list(grants)
    return sorted({request for request in requests if not any(grant.covers(request) for grant in given)})


def _grants(role: Document, namespace: str) -> Iterator[Grant]:
    name = role["metadata"]["name"]
    for rule in role["rules"]:
        for verb in rule["verbs"]:
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    for object_name in rule.get("resourceNames", [""]):
                        yield Grant(name, verb, group, resource, namespace, object_name)
