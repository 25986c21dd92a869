"""What RBAC roles of a set of manifests allow one service account, and which of it requests make use of.

A role's rules are taken apart into single grants (one verb on one resource, perhaps of one name), so that a
rule of which only a part is used shows.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

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
        """Tell whether this alone allows a request."""
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
