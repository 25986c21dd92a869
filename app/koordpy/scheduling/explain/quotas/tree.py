"""The quota tree as people read it: what each quota uses, may use, is guaranteed and asks for."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from koordpy.api import resource_list
from koordpy.api.output_model import OutputModel
from koordpy.api.quantity import UNSET, Quantity
from koordpy.api.quota.args import ElasticQuotaArgs
from koordpy.api.quota.info import DEFAULT, ROOT, SYSTEM
from koordpy.api.resource_list import Quantities
from koordpy.scheduling.explain.plugin_services import PluginServices

from .summary import PLUGIN, Amounts, QuotaSummary

NO_LIMIT: Final = 4611686018427387
"""From this amount on a maximum limits nothing: quota profiles and the default quota write such ones."""


class QuotaResource(OutputModel):
    """One resource of a quota; an amount is empty where the quota has none.

    `limit` is what the scheduler compares usage with: the runtime quota, or `max` without runtime quotas.
    `borrowed` is what is used beyond `min`, `lent` what others may use of the part of `min` that the quota
    does not ask for, `over_used` by how much usage exceeds the limit.
    """

    resource: str
    used: str
    request: str
    runtime: str
    min: str
    scaled_min: str
    max: str
    limit: str
    used_percent: float | None
    borrowed: str
    lent: str
    over_used: str


class QuotaNode(OutputModel):
    """A quota in its tree; `depth` is 0 below the root."""

    name: str
    parent: str
    tree: str
    depth: int
    is_parent: bool
    lends: bool
    children: list[str]
    resources: list[QuotaResource]


class QuotaTree(OutputModel):
    """Quotas, each after its parent, siblings by name.

    `limited_by` is `runtime` or `max`, `checks_parents` whether the limits of parents are compared too.
    """

    limited_by: str
    checks_parents: bool
    quotas: list[QuotaNode]


@dataclass(frozen=True)
class Quota:
    """The amounts of one quota."""

    summary: QuotaSummary
    limit: Quantities
    min: Quantities
    max: Quantities
    runtime: Quantities
    used: Quantities
    request: Quantities

    @classmethod
    def of(cls, summary: QuotaSummary, *, by_runtime: bool) -> "Quota":
        """Read a summary."""
        runtime, most = _read(summary.runtime), _read(summary.max)
        # Neither quota has a runtime quota, and without one the plugin rejects no pod.
        unlimited = by_runtime and summary.name in (DEFAULT, SYSTEM)
        return cls(
            summary,
            {} if unlimited else runtime if by_runtime else most,
            _read(summary.min),
            most,
            runtime,
            _read(summary.used),
            _read(summary.request),
        )

    @property
    def name(self) -> str:
        """The quota's name."""
        return self.summary.name

    def borrowed(self, resource: str) -> Quantity:
        """Return what is used beyond the minimum; 0 for none. The default and system quotas have none."""
        if self.name in (DEFAULT, SYSTEM):
            return UNSET
        return _positive(self.used.get(resource, UNSET) - self.min.get(resource, UNSET))

    def lent(self, resource: str) -> Quantity:
        """Return the part of the minimum that others may use, because this quota does not ask for it."""
        if not self.summary.allow_lent_resource:
            return UNSET
        asked = max(self.request.get(resource, UNSET), self.used.get(resource, UNSET))
        return _positive(self.min.get(resource, UNSET) - asked)

    def over_used(self, resource: str) -> Quantity:
        """Return by how much usage exceeds the limit; 0 if it does not."""
        if resource not in self.limit:
            return UNSET
        return _positive(self.used.get(resource, UNSET) - self.limit[resource])

    @property
    def resources(self) -> list[str]:
        """The names of the resources that it limits or uses, those of `max` first."""
        others = {*self.min, *self.runtime, *self.used, *self.request} - self.max.keys()
        return [*sorted(self.max), *sorted(others)]


class Quotas:
    """The quotas of the running plugin, as they are now."""

    def __init__(self, quotas: Iterable[Quota], *, by_runtime: bool, checks_parents: bool) -> None:
        self.by_name = {quota.name: quota for quota in quotas}
        self.by_runtime, self.checks_parents = by_runtime, checks_parents
        self._children: dict[str, list[str]] = {}
        for name, quota in sorted(self.by_name.items()):
            self._children.setdefault(quota.summary.parent_name, []).append(name)

    @classmethod
    def read(cls, services: PluginServices, tree: str = "") -> "Quotas":
        """Return the quotas of one tree, or of all. Raises LookupError if no profile has the plugin."""
        query = {"tree": tree} if tree else {}
        found = services.get(PLUGIN, "quotas", dict[str, QuotaSummary], **query)
        args = services.args(PLUGIN)
        by_runtime = not isinstance(args, ElasticQuotaArgs) or args.enable_runtime_quota
        checks_parents = isinstance(args, ElasticQuotaArgs) and args.enable_check_parent_quota
        quotas = (Quota.of(summary, by_runtime=by_runtime) for summary in found.values())
        return cls(quotas, by_runtime=by_runtime, checks_parents=checks_parents)

    def __getitem__(self, name: str) -> Quota:
        """Return a quota. Raises LookupError with a message."""
        try:
            return self.by_name[name]
        except KeyError:
            raise LookupError(f"quota {name} does not exist") from None

    def children(self, name: str) -> list[str]:
        """Return the names of the children of a quota, sorted."""
        return self._children.get(name, [])

    def siblings(self, quota: Quota) -> list[Quota]:
        """Return the other quotas of the same tree and parent, which share with it, by name."""
        summary = quota.summary
        names = self.children(summary.parent_name)
        found = (self.by_name[name] for name in names if name != quota.name)
        return [other for other in found if other.summary.tree == summary.tree]

    def path(self, name: str) -> list[Quota]:
        """Return a quota and its ancestors without the root, from the bottom up. Raises LookupError."""
        found = [self[name]]
        while (parent := found[-1].summary.parent_name) in self.by_name and parent != ROOT:
            if any(quota.name == parent for quota in found):
                break  # a cycle, which only unvalidated objects can have
            found.append(self.by_name[parent])
        return found

    def node(self, quota: Quota, depth: int) -> QuotaNode:
        """Render a quota."""
        summary = quota.summary
        return QuotaNode(
            name=summary.name,
            parent=summary.parent_name,
            tree=summary.tree,
            depth=depth,
            is_parent=summary.is_parent,
            lends=summary.allow_lent_resource,
            children=self.children(summary.name),
            resources=[_resource(quota, name) for name in quota.resources],
        )

    def below(self, name: str) -> Iterator[QuotaNode]:
        """Yield a quota and all quotas below it, each after its parent. Raises LookupError."""
        yield from self._walk(self[name], 0, set())

    def _walk(self, quota: Quota, depth: int, seen: set[str]) -> Iterator[QuotaNode]:
        if quota.name in seen:
            return
        seen.add(quota.name)
        yield self.node(quota, depth)
        for name in self.children(quota.name):
            yield from self._walk(self.by_name[name], depth + 1, seen)

    def all(self) -> Iterator[QuotaNode]:
        """Yield all quotas tree by tree; those with an unknown parent are at the top."""
        seen: set[str] = set()
        tops = [
            quota
            for quota in self.by_name.values()
            if quota.summary.parent_name not in self.by_name or quota.summary.parent_name == ROOT
        ]
        for quota in sorted(tops, key=lambda quota: (quota.summary.tree, quota.name)):
            if quota.name != ROOT:
                yield from self._walk(quota, 0, seen)

    def model(self, name: str = "") -> QuotaTree:
        """Render the tree, or a quota with what is below it. Raises LookupError."""
        return QuotaTree(
            limited_by="runtime" if self.by_runtime else "max",
            checks_parents=self.checks_parents,
            quotas=list(self.below(name) if name else self.all()),
        )


def _resource(quota: Quota, name: str) -> QuotaResource:
    limit, used = quota.limit.get(name), quota.used.get(name, UNSET)
    percent = None
    if limit is not None and limit.sign > 0 and is_limit(limit):
        percent = round(100 * used.milli_value() / limit.milli_value(), 1)
    scaled = _read(quota.summary.auto_scale_min).get(name)
    return QuotaResource(
        resource=name,
        used=str(used),
        request=str(quota.request.get(name, UNSET)),
        runtime=_text(quota.runtime.get(name)),
        min=_text(quota.min.get(name)),
        scaled_min=_text(scaled),
        max=_text(quota.max.get(name)),
        limit=_text(limit),
        used_percent=percent,
        borrowed=_unless_zero(quota.borrowed(name)),
        lent=_unless_zero(quota.lent(name)),
        over_used=_unless_zero(quota.over_used(name)),
    )


def is_limit(amount: Quantity) -> bool:
    """Return whether an amount limits anything."""
    return amount.value() < NO_LIMIT


def _read(amounts: Amounts | None) -> Quantities:
    return resource_list.from_wire(amounts or {})


def _text(amount: Quantity | None) -> str:
    if amount is None:
        return ""
    return str(amount) if is_limit(amount) else "no limit"


def _unless_zero(amount: Quantity) -> str:
    return "" if amount.is_zero else str(amount)


def _positive(amount: Quantity) -> Quantity:
    return amount if amount.sign > 0 else UNSET
