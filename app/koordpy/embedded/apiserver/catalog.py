"""The catalog of served resources, with their names, scope, subresources and rules.

The built-in resources are a table; custom resources are added and removed while the server runs.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from .kinds.strategy import Strategy
    from .storage import Table

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class Subresource:
    """One subresource as discovery shows it: its kind, and its group and version if they are others."""

    name: str
    verbs: tuple[str, ...]
    kind: str = ""
    group_version: str = ""


SCALE = Subresource("scale", ("get", "patch", "update"), "Scale", "autoscaling/v1")
STATUS = Subresource("status", ("get", "patch", "update"))
TOKEN = Subresource("token", ("create",), "TokenRequest", "authentication.k8s.io/v1")
APPROVAL = Subresource("approval", ("get", "patch", "update"))

AGGREGATED = frozenset(("metrics.k8s.io",))
"""Groups of other API servers on a real cluster, which come after those of custom resources: `nodemetrics`
is Koordinator's resource then, and not the singular of the usage of nodes.
"""

STORED_AS = {
    ("events.k8s.io", "v1", "events"): ("", "events"),
    ("autoscaling", "v1", "horizontalpodautoscalers"): ("autoscaling", "horizontalpodautoscalers"),
}
"""Resources in a group and version whose objects are stored as another resource's, by group and plural."""


@dataclass(slots=True, eq=False)
class Served:
    """One resource in one version, and everything that is needed to serve it."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[Subresource, ...] = ()
    verbs: tuple[str, ...] = VERBS
    singular: str = ""
    list_kind: str = ""
    preferred: bool = True
    custom: bool = False
    deprecation: str = ""
    """The warning with which every request is answered."""
    table: "Table" = field(init=False)
    strategy: "Strategy" = field(init=False)
    prefix: bytes = field(init=False)
    """The prefix that turns stored bytes into a whole object: the opening brace, kind and apiVersion."""

    def __post_init__(self) -> None:
        self.singular = self.singular or self.kind.lower()
        self.list_kind = self.list_kind or f"{self.kind}List"
        kind, version = msgspec.json.encode(self.kind), msgspec.json.encode(self.api_version)
        self.prefix = b'{"kind":%b,"apiVersion":%b,' % (kind, version)

    @property
    def api_version(self) -> str:
        """`v1` or `group/version`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def stored(self) -> bool:
        """Whether objects are stored; reviews and bindings are only created, usage is only read."""
        return self.verbs != ("create",) and "create" in self.verbs

    def has(self, subresource: str) -> bool:
        """Whether a subresource is served."""
        return any(item.name == subresource for item in self.subresources)

    def whole(self, raw: bytes) -> bytes:
        """Return a stored object in this version."""
        return self.strategy.present(self, raw)

    def path(self, namespace: str = "") -> str:
        """The URL path of the collection."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        return (
            f"{root}/namespaces/{namespace}/{self.plural}"
            if self.namespaced and namespace
            else f"{root}/{self.plural}"
        )


class Catalog:
    """All resources by group and version, then by plural name."""

    def __init__(self) -> None:
        self._served: dict[tuple[str, str], dict[str, Served]] = {}
        self.changes = 0
        """Counts additions and removals, so that discovery documents can be kept."""

    def add(self, served: Served) -> None:
        """Serve a resource, replacing another one of its name."""
        self._served.setdefault((served.group, served.version), {})[served.plural] = served
        self.changes += 1

    def remove(self, group: str, version: str, plural: str) -> None:
        """Stop serving a resource."""
        resources = self._served.get((group, version), {})
        if resources.pop(plural, None) is not None:
            self.changes += 1
        if not resources:
            self._served.pop((group, version), None)

    def find(self, group: str, version: str, plural: str) -> Served | None:
        """Return a resource."""
        resources = self._served.get((group, version))
        return resources.get(plural) if resources else None

    def of(self, group: str, version: str) -> list[Served] | None:
        """Return the resources of a version, or None if it does not exist."""
        resources = self._served.get((group, version))
        return list(resources.values()) if resources else None

    def storage_of(self, group: str, plural: str) -> Served | None:
        """Return a resource in its preferred version."""
        for (served_group, _), resources in self._served.items():
            if served_group == group and plural in resources:
                return resources[plural]
        return None

    def groups(self) -> dict[str, list[str]]:
        """Return the versions of every group, the preferred one first.

        Groups come in the order in which clients look for a name.
        """
        found: dict[str, list[str]] = {}
        for group, version in sorted(self._served, key=lambda served: served[0] in AGGREGATED):
            found.setdefault(group, []).append(version)
        return {group: sorted(versions, key=version_order) for group, versions in found.items()}

    def __iter__(self) -> Iterator[Served]:
        for resources in self._served.values():
            yield from resources.values()


def version_order(version: str) -> tuple[Any, ...]:
    """Sort key of versions: v2, v1, v1beta1, v1alpha1, then other names."""
    body = version[1:]
    digits = body[: len(body) - len(body.lstrip("0123456789"))]
    if not version.startswith("v") or not digits:
        return (3, 0, 0, version)
    stage, rest = body[len(digits) :], 0
    for level, name in enumerate(("", "beta", "alpha")):
        if name and stage.startswith(name) and stage[len(name) :].isdigit():
            rest = int(stage[len(name) :])
            return (level, -int(digits), -rest, version)
    return (0, -int(digits), 0, version) if not stage else (3, 0, 0, version)


_DEPRECATED = {
    ("", "v1", "Endpoints"): "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
}
_AUTOSCALERS = ("horizontalpodautoscalers", "HorizontalPodAutoscaler", True, "hpa", "all", (STATUS,))
_REVIEWS = (
    ("LocalSubjectAccessReview", True),
    ("SelfSubjectAccessReview", False),
    ("SelfSubjectRulesReview", False),
    ("SubjectAccessReview", False),
)


def built_in() -> list[Served]:
    """Return the built-in resources."""
    pods = (
        Subresource("attach", ("create", "get"), "PodAttachOptions", "v1"),
        Subresource("binding", ("create",), "Binding"),
        Subresource("ephemeralcontainers", ("get", "patch", "update"), "Pod"),
        Subresource("eviction", ("create",), "Eviction", "policy/v1"),
        Subresource("exec", ("create", "get"), "PodExecOptions", "v1"),
        Subresource("log", ("get",), "Pod"),
        Subresource("portforward", ("create", "get"), "PodPortForwardOptions", "v1"),
        Subresource("resize", ("get", "patch", "update"), "Pod"),
        Subresource("status", STATUS.verbs, "Pod"),
    )
    rows: list[tuple[str, str, str, str, bool, str, str, tuple[Subresource, ...]]] = [
        ("", "v1", "bindings", "Binding", True, "", "", ()),
        ("", "v1", "configmaps", "ConfigMap", True, "cm", "", ()),
        ("", "v1", "endpoints", "Endpoints", True, "ep", "", ()),
        ("", "v1", "events", "Event", True, "ev", "", ()),
        ("", "v1", "limitranges", "LimitRange", True, "limits", "", ()),
        (
            "",
            "v1",
            "namespaces",
            "Namespace",
            False,
            "ns",
            "",
            (STATUS, Subresource("finalize", ("update",))),
        ),
        ("", "v1", "nodes", "Node", False, "no", "", (STATUS,)),
        ("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True, "pvc", "", (STATUS,)),
        ("", "v1", "persistentvolumes", "PersistentVolume", False, "pv", "", (STATUS,)),
        ("", "v1", "pods", "Pod", True, "po", "all", pods),
        ("", "v1", "podtemplates", "PodTemplate", True, "", "", ()),
        ("", "v1", "replicationcontrollers", "ReplicationController", True, "rc", "all", (SCALE, STATUS)),
        ("", "v1", "resourcequotas", "ResourceQuota", True, "quota", "", (STATUS,)),
        ("", "v1", "secrets", "Secret", True, "", "", ()),
        ("", "v1", "serviceaccounts", "ServiceAccount", True, "sa", "", (TOKEN,)),
        ("", "v1", "services", "Service", True, "svc", "all", (STATUS,)),
        ("apps", "v1", "controllerrevisions", "ControllerRevision", True, "", "", ()),
        ("apps", "v1", "daemonsets", "DaemonSet", True, "ds", "all", (STATUS,)),
        ("apps", "v1", "deployments", "Deployment", True, "deploy", "all", (SCALE, STATUS)),
        ("apps", "v1", "replicasets", "ReplicaSet", True, "rs", "all", (SCALE, STATUS)),
        ("apps", "v1", "statefulsets", "StatefulSet", True, "sts", "all", (SCALE, STATUS)),
        ("autoscaling", "v2", *_AUTOSCALERS),
        ("autoscaling", "v1", *_AUTOSCALERS),
        ("batch", "v1", "cronjobs", "CronJob", True, "cj", "all", (STATUS,)),
        ("batch", "v1", "jobs", "Job", True, "", "all", (STATUS,)),
        ("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True, "pdb", "", (STATUS,)),
        (
            "certificates.k8s.io",
            "v1",
            "certificatesigningrequests",
            "CertificateSigningRequest",
            False,
            "csr",
            "",
            (APPROVAL, STATUS),
        ),
        ("coordination.k8s.io", "v1", "leases", "Lease", True, "", "", ()),
        ("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", True, "", "", ()),
        ("events.k8s.io", "v1", "events", "Event", True, "ev", "", ()),
        ("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False, "pc", "", ()),
        ("storage.k8s.io", "v1", "storageclasses", "StorageClass", False, "sc", "", ()),
        ("storage.k8s.io", "v1", "csinodes", "CSINode", False, "", "", ()),
        ("storage.k8s.io", "v1", "csidrivers", "CSIDriver", False, "", "", ()),
        ("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity", True, "", "", ()),
        ("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", False, "", "", (STATUS,)),
        ("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", False, "", "", ()),
        ("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", False, "", "", ()),
        ("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", True, "netpol", "", ()),
        ("networking.k8s.io", "v1", "ingresses", "Ingress", True, "ing", "", (STATUS,)),
        ("networking.k8s.io", "v1", "ingressclasses", "IngressClass", False, "", "", ()),
        ("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", False, "", "", ()),
        ("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", False, "", "", ()),
        ("rbac.authorization.k8s.io", "v1", "roles", "Role", True, "", "", ()),
        ("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", True, "", "", ()),
        (
            "admissionregistration.k8s.io",
            "v1",
            "mutatingwebhookconfigurations",
            "MutatingWebhookConfiguration",
            False,
            "",
            "api-extensions",
            (),
        ),
        (
            "admissionregistration.k8s.io",
            "v1",
            "validatingwebhookconfigurations",
            "ValidatingWebhookConfiguration",
            False,
            "",
            "api-extensions",
            (),
        ),
        (
            "apiextensions.k8s.io",
            "v1",
            "customresourcedefinitions",
            "CustomResourceDefinition",
            False,
            "crd crds",
            "api-extensions",
            (STATUS,),
        ),
        ("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", False, "", "", ()),
        ("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", False, "", "", ()),
        *(
            ("authorization.k8s.io", "v1", f"{kind.lower()}s", kind, local, "", "", ())
            for kind, local in _REVIEWS
        ),
    ]
    create_only = {"Binding", "SelfSubjectReview", "TokenReview", *(kind for kind, _ in _REVIEWS)}
    found = []
    for group, version, plural, kind, namespaced, short, categories, subresources in rows:
        left_out = ("deletecollection",) if kind == "Namespace" else ()
        own = tuple(item if item.kind else Subresource(item.name, item.verbs, kind) for item in subresources)
        deprecation = _DEPRECATED.get((group, version, kind), "")
        found.append(
            Served(
                group,
                version,
                plural,
                kind,
                namespaced,
                tuple(short.split()),
                tuple(categories.split()),
                own,
                ("create",) if kind in create_only else tuple(verb for verb in VERBS if verb not in left_out),
                deprecation=deprecation,
            )
        )
    return found
