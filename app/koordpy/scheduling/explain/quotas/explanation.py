"""Why a quota has no room: what is exceeded, who shares with it, and which pods hold what it uses."""

from collections.abc import Iterable, Iterator
from typing import Final

from koordpy.api import extension, resource_list
from koordpy.api.core import Pod
from koordpy.api.koordinator import ElasticQuota
from koordpy.api.output_model import OutputModel
from koordpy.api.quantity import UNSET, Quantity, parse
from koordpy.api.quota.info import DEFAULT, bound_namespaces
from koordpy.api.quota.membership import oldest_first, quota_name
from koordpy.api.resource_amounts import plus
from koordpy.api.resource_list import Quantities
from koordpy.api.resources import pod_requests
from koordpy.cluster.cluster import Cluster
from koordpy.scheduling.explain.plugin_services import PluginServices

from .summary import PLUGIN, QuotaSummary
from .tree import Quota, QuotaNode, Quotas

PODS_SHOWN: Final = 20
"""Pods of a quota that are listed."""


class Share(OutputModel):
    """An amount of one quota."""

    quota: str
    amount: str


class Sharing(OutputModel):
    """How the children of `parent` share one resource.

    `borrowers` use more than their min, by that amount. `lenders` do not ask for all of their min: others may
    use that amount until they do.
    """

    parent: str
    resource: str
    borrowers: list[Share]
    lenders: list[Share]


class Exceeded(OutputModel):
    """A limit that a pod would exceed, or (with an empty `request`) that is exceeded already.

    `kind` is `runtime`, `max`, or `min` for pods that cannot be preempted. `short` is what is missing.
    """

    quota: str
    resource: str
    kind: str
    limit: str
    used: str
    request: str
    short: str


class QuotaPod(OutputModel):
    """A pod that counts as usage of the quota.

    `is_preemptible` is whether others of it may preempt it, `is_terminating` whether it is being deleted.
    """

    pod: str
    priority: int
    node: str
    is_preemptible: bool
    is_terminating: bool
    resources: dict[str, str]


class QuotaExplanation(OutputModel):
    """A quota with its ancestors (`path`, from the bottom up), and what keeps pods out of it.

    `to_free` are the pods of the quota that would have to end, first those that do so already, so that the
    exceeded amounts of this quota have room; for a pod, those that it may preempt. It is empty if all of them
    together are not enough. `pods` counts those that use the quota.
    """

    quota: str
    tree: str
    limited_by: str
    checks_parents: bool
    pod: str
    request: dict[str, str]
    path: list[QuotaNode]
    exceeded: list[Exceeded]
    sharing: list[Sharing]
    pods: int
    to_free: list[QuotaPod]


class QuotaExplainer:
    """Explains the quotas of the running plugin, from its REST API and the pods of the cluster.

    `label_only` and `overhead` (whether it counts in what pods request) are what the plugin's gates say.
    """

    def __init__(
        self,
        services: PluginServices,
        cluster: Cluster,
        *,
        label_only: bool = False,
        overhead: bool = True,
    ) -> None:
        self._services, self._cluster, self._label_only = services, cluster, label_only
        self._overhead = overhead

    @property
    def is_enabled(self) -> bool:
        """Whether a profile has the plugin."""
        return self._services.plugin(PLUGIN) is not None

    def quotas(self, tree: str = "") -> Quotas:
        """Return the quotas. Raises LookupError if no profile has the plugin."""
        return Quotas.read(self._services, tree)

    def quota_of(self, pod: Pod, quotas: Quotas) -> str:
        """Return the quota of a pod, empty if it has none. A label with an unknown quota counts nowhere."""
        found = [
            quota
            for store in self._cluster.stores
            if store.type is ElasticQuota
            for quota in store
            if isinstance(quota, ElasticQuota)
        ]
        meta = pod.metadata
        name = quota_name(meta.labels, meta.namespace, _Namespaces(found), label_only=self._label_only)
        if name in quotas.by_name:
            return name
        return "" if self._label_only else DEFAULT

    def explain(self, name: str) -> QuotaExplanation:
        """Explain a quota. Raises LookupError for an unknown one."""
        quotas = self.quotas()
        quota = quotas[name]
        kind = "runtime" if quotas.by_runtime else "max"
        exceeded = [found for one in quotas.path(name) for found in _over_used(one, kind)]
        return self._explanation(quotas, quota, exceeded)

    def explain_pod(self, pod: Pod) -> QuotaExplanation:
        """Explain how a pod counts in its quota. Raises LookupError if it has none."""
        quotas = self.quotas()
        name = self.quota_of(pod, quotas)
        if name not in quotas.by_name:
            raise LookupError(f"pod {pod.metadata.key} is in no quota")
        quota = quotas[name]
        requests = pod_requests(pod, overhead=self._overhead)
        request = {key: amount for key, amount in requests.items() if key in quota.max}
        exceeded = [] if pod.spec.node_name else list(_exceeded(quotas, quota, pod, request))
        return self._explanation(quotas, quota, exceeded, pod, request)

    def _explanation(
        self,
        quotas: Quotas,
        quota: Quota,
        exceeded: list[Exceeded],
        pod: Pod | None = None,
        request: Quantities | None = None,
    ) -> QuotaExplanation:
        pods = self._pods(quota)
        path = quotas.path(quota.name)
        resources = [found.resource for found in exceeded] or quota.resources
        depth = len(path)
        return QuotaExplanation(
            quota=quota.name,
            tree=quota.summary.tree,
            limited_by="runtime" if quotas.by_runtime else "max",
            checks_parents=quotas.checks_parents,
            pod="" if pod is None else pod.metadata.key,
            request={name: str(amount) for name, amount in sorted((request or {}).items())},
            path=[quotas.node(one, depth - place - 1) for place, one in enumerate(path)],
            exceeded=exceeded,
            sharing=list(_sharing(quotas, path, list(dict.fromkeys(resources)))),
            pods=len(pods),
            to_free=_to_free(quota, exceeded, pods, pod),
        )

    def _pods(self, quota: Quota) -> list[QuotaPod]:
        """Return the pods that use a quota, the least important first, as over-use revocation orders them."""
        summary = self._services.get(PLUGIN, f"quotas/{quota.name}", QuotaSummary, includePods="true")
        found = []
        pods = self._cluster.store(Pod)
        for key, cached in (summary.pod_cache or {}).items():
            pod = pods.by_key(key)
            if not cached.is_assigned or pod is None:
                continue
            found.append((pod, cached))
        found.sort(
            key=lambda one: (
                one[0].metadata.deletion_timestamp is None,
                one[0].spec.priority or 0,
                _descending(one[0].status.start_time),
                one[0].metadata.key,
            )
        )
        return [
            QuotaPod(
                pod=pod.metadata.key,
                priority=pod.spec.priority or 0,
                node=pod.spec.node_name,
                is_preemptible=is_preemptible(pod),
                is_terminating=pod.metadata.deletion_timestamp is not None,
                resources={name: str(amount) for name, amount in sorted((cached.resource or {}).items())},
            )
            for pod, cached in found
        ]


class _Namespaces:
    """The quotas of namespaces, for `quota_name`."""

    def __init__(self, quotas: Iterable[ElasticQuota]) -> None:
        self._own: set[str] = set()
        self._bound: dict[str, list[str]] = {}
        for quota in oldest_first(quotas):
            meta = quota.metadata
            if meta.namespace == meta.name:
                self._own.add(meta.name)
            for namespace in bound_namespaces(quota):
                self._bound.setdefault(namespace, []).append(meta.name)

    def has_own(self, namespace: str) -> bool:
        return namespace in self._own

    def bound_to(self, namespace: str) -> Iterable[str]:
        return self._bound.get(namespace, ())


def is_preemptible(pod: Pod) -> bool:
    """Return whether others of its quota may preempt a pod."""
    return pod.metadata.labels.get(extension.LABEL_QUOTA_PREEMPTIBLE) != "false"


def _descending(time: str | None) -> tuple[int, ...]:
    """Return a sort key of a time of the API server, by which later ones are first."""
    return tuple(-ord(character) for character in time or "~")


def _over_used(quota: Quota, kind: str) -> Iterator[Exceeded]:
    for name in quota.resources:
        if not (over := quota.over_used(name)).is_zero:
            yield Exceeded(
                quota=quota.name,
                resource=name,
                kind=kind,
                limit=str(quota.limit[name]),
                used=str(quota.used[name]),
                request="",
                short=str(over),
            )


def _exceeded(quotas: Quotas, quota: Quota, pod: Pod, request: Quantities) -> Iterator[Exceeded]:
    """Return the limits that PreFilter of ElasticQuota finds exceeded, in its order."""
    kind = "runtime" if quotas.by_runtime else "max"
    # All that a quota uses counts in it, in its parents only what the pod requests.
    yield from _beyond(quota, plus(quota.used, request), quota.limit, request, kind)
    if not is_preemptible(pod):
        used = resource_list.from_wire(quota.summary.non_preemptible_used or {})
        yield from _beyond(quota, plus(used, request), quota.min, request, "min")
    if quotas.checks_parents:
        for parent in quotas.path(quota.name)[1:]:
            wanted = plus({name: parent.used.get(name, UNSET) for name in request}, request)
            yield from _beyond(parent, wanted, parent.limit, request, kind)


def _beyond(
    quota: Quota, wanted: Quantities, limits: Quantities, request: Quantities, kind: str
) -> Iterator[Exceeded]:
    """Yield what exceeds its limit; a resource without a limit is not restricted."""
    for name, amount in sorted(wanted.items()):
        limit = limits.get(name)
        if limit is not None and amount > limit:
            asked = request.get(name, UNSET)
            yield Exceeded(
                quota=quota.name,
                resource=name,
                kind=kind,
                limit=str(limit),
                used=str(amount - asked),
                request=str(asked),
                short=str(amount - limit),
            )


def _sharing(quotas: Quotas, path: list[Quota], resources: list[str]) -> Iterator[Sharing]:
    """Yield who borrows and who lends, at each level of the path and for each resource, from the bottom."""
    for quota in path:
        family = sorted([quota, *quotas.siblings(quota)], key=lambda one: one.name)
        for resource in resources:
            borrowers = [(one.name, one.borrowed(resource)) for one in family]
            lenders = [(one.name, one.lent(resource)) for one in family]
            found = Sharing(
                parent=quota.summary.parent_name,
                resource=resource,
                borrowers=_shares(borrowers),
                lenders=_shares(lenders),
            )
            if found.borrowers or found.lenders:
                yield found


def _shares(amounts: list[tuple[str, Quantity]]) -> list[Share]:
    """Return the amounts above 0, the largest first."""
    found = [(name, amount) for name, amount in amounts if not amount.is_zero]
    found.sort(key=lambda one: one[1], reverse=True)
    return [Share(quota=name, amount=str(amount)) for name, amount in found]


def _to_free(quota: Quota, exceeded: list[Exceeded], pods: list[QuotaPod], pod: Pod | None) -> list[QuotaPod]:
    """Return the least important pods of a quota that together free what is exceeded; none if they do not."""
    short = {
        found.resource: parse(found.short)
        for found in exceeded
        if found.quota == quota.name and found.kind != "min"
    }
    priority = None if pod is None else pod.spec.priority or 0
    taken: list[QuotaPod] = []
    for candidate in pods:
        if all(amount.sign <= 0 for amount in short.values()):
            break
        may_go = candidate.is_preemptible and (priority is None or candidate.priority < priority)
        if not (may_go or candidate.is_terminating):
            continue
        freed = {name: parse(amount) for name, amount in candidate.resources.items()}
        if any(short[name].sign > 0 and freed.get(name, UNSET).sign > 0 for name in short):
            short = {name: amount - freed.get(name, UNSET) for name, amount in short.items()}
            taken.append(candidate)
    enough = all(amount.sign <= 0 for amount in short.values())
    return taken[:PODS_SHOWN] if enough else []
