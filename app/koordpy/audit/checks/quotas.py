"""Whether the pods of quotas use more than their maximum, and minimums promise more than there is.

A pod counts for its quota and for all quotas above it, in the resources that its own quota limits
(elasticquota, sections 7 and 8.2). A parent may use more than its maximum for a while, since only its
children's limits are enforced by default, so that is a warning.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from koordpy.api import extension
from koordpy.api.koordinator import ElasticQuota
from koordpy.api.quota.info import DEFAULT, ROOT, SYSTEM, bound_namespaces, parent_name
from koordpy.api.quota.membership import oldest_first, quota_name

from ..amounts import Vector, nano_text, nanos
from ..finding import Counts, Finding, Owner, Severity
from ..holding import Holding

NAME: Final = "quotas"

_BUILT_IN: Final = frozenset((ROOT, SYSTEM, DEFAULT))
_KEPT_BY_SCHEDULERS: Final = extension.ANNOTATION_QUOTA_RUNTIME


class _Membership:
    """Quotas by the namespaces that they are in, or that are bound to them."""

    def __init__(self, quotas: Sequence[ElasticQuota]) -> None:
        self._own = {
            quota.metadata.namespace for quota in quotas if quota.metadata.namespace == quota.metadata.name
        }
        self._bound: dict[str, list[str]] = {}
        for quota in oldest_first(quotas):
            for namespace in bound_namespaces(quota):
                self._bound.setdefault(namespace, []).append(quota.metadata.name)
        self.by_namespace: dict[str, str] = {}

    def has_own(self, namespace: str) -> bool:
        return namespace in self._own

    def bound_to(self, namespace: str) -> Iterable[str]:
        return self._bound.get(namespace, ())

    def name_of(self, labels: Mapping[str, str], namespace: str) -> str:
        """Return the quota of a pod; what a namespace says is computed once."""
        if labels and (named := labels.get(extension.LABEL_QUOTA_NAME)):
            return named
        known = self.by_namespace.get(namespace)
        if known is None:
            known = self.by_namespace[namespace] = quota_name({}, namespace, self)
        return known


class _Account:
    """A quota, and what its pods use in billionths; `leaving` is the part of pods that are being deleted."""

    def __init__(self, quota: ElasticQuota) -> None:
        self.quota = quota
        self.name = quota.metadata.name
        self.parent = parent_name(quota)
        self.max, self.min = nanos(quota.spec.max), nanos(quota.spec.min)
        self.is_parent = quota.metadata.labels.get(extension.LABEL_QUOTA_IS_PARENT) == "true"
        self.used: Vector = {}
        self.leaving: Vector = {}
        self.pods: list[Holding] = []


def check(quotas: Sequence[ElasticQuota], pods: Iterable[Holding], counts: Counts) -> Iterator[Finding]:
    """Compare quotas with their pods: those that are bound and have not ended."""
    accounts = {quota.metadata.name: _Account(quota) for quota in quotas}
    if not accounts:
        return
    _charge(accounts, _Membership(quotas), pods)
    counts.add(NAME, "quotas", len(accounts))
    counts.add(NAME, "pods", sum(len(account.pods) for account in accounts.values()))
    children: dict[str, list[_Account]] = {}
    for account in accounts.values():
        children.setdefault(account.parent, []).append(account)
    for name, account in sorted(accounts.items()):
        below = children.get(name, [])
        if name not in _BUILT_IN:
            yield from _beyond_max(account, below)
            yield from _promised(account, below)
        if _KEPT_BY_SCHEDULERS in account.quota.metadata.annotations or account.quota.status.used:
            counts.add(NAME, "statuses", 1)
            yield from _status(account)


def _charge(accounts: Mapping[str, _Account], membership: _Membership, pods: Iterable[Holding]) -> None:
    """Charge pods to their quotas, then quotas to those above them."""
    default = accounts.get(DEFAULT)
    for holding in pods:
        meta = holding.of.metadata
        account = accounts.get(membership.name_of(meta.labels, meta.namespace), default)
        if account is not None:
            account.pods.append(holding)
    for account in accounts.values():
        account.used = _sum(account.pods, account.max)
        account.leaving = _sum([pod for pod in account.pods if pod.is_leaving], account.max)
    own = {name: (dict(account.used), dict(account.leaving)) for name, account in accounts.items()}
    for name, (used, leaving) in own.items():
        above, seen = accounts.get(accounts[name].parent), {name}
        while above is not None and above.name not in seen:
            seen.add(above.name)
            _add(above.used, used)
            _add(above.leaving, leaving)
            above = accounts.get(above.parent)


def _sum(pods: list[Holding], limits: Vector) -> Vector:
    """Return what pods request of the resources that are limited; few requests are different."""
    total: Vector = {}
    for requests, count in Counter([pod.requests for pod in pods]).items():
        for name, number in requests.nanos.items():
            if name in limits:
                total[name] = total.get(name, 0) + count * number
    return total


def _add(total: Vector, amounts: Vector) -> None:
    for name, number in amounts.items():
        total[name] = total.get(name, 0) + number


def _beyond_max(account: _Account, below: list[_Account]) -> Iterator[Finding]:
    for name, limit in sorted(account.max.items()):
        used = account.used.get(name, 0)
        if used <= limit:
            continue
        parts = [(pod.kind, pod.name, pod.requests.nanos.get(name, 0)) for pod in account.pods]
        parts += [("ElasticQuota", child.name, child.used.get(name, 0)) for child in below]
        yield _finding(
            account,
            name,
            "its pods use more than its max",
            sorted((part for part in parts if part[2]), key=lambda part: (-part[2], part[1])),
            used,
            limit,
            warns=account.is_parent or bool(below),
        )


def _promised(account: _Account, below: list[_Account]) -> Iterator[Finding]:
    """Yield minimums of children that together exceed the minimum of the parent, unless that is allowed."""
    counted = [
        child
        for child in below
        if child.quota.metadata.labels.get(extension.LABEL_QUOTA_ALLOW_FORCE_UPDATE) != "true"
        and child.quota.metadata.labels.get(extension.LABEL_QUOTA_IS_ROOT) != "true"
    ]
    if account.quota.metadata.labels.get(extension.LABEL_QUOTA_ALLOW_FORCE_UPDATE) == "true":
        return
    for name in sorted({name for child in counted for name in child.min}):
        promised = sum(child.min.get(name, 0) for child in counted)
        limit = account.min.get(name, 0)
        if promised > limit:
            parts = [("ElasticQuota", child.name, child.min.get(name, 0)) for child in counted]
            problem = "its children's min exceed its min"
            yield _finding(account, name, problem, parts, promised, limit, warns=False)


def _status(account: _Account) -> Iterator[Finding]:
    """Compare status.used; a scheduler may be told to leave out pods that are being deleted."""
    said = nanos(account.quota.status.used)
    for name in sorted(said.keys() | account.used.keys()):
        reported, used = said.get(name, 0), account.used.get(name, 0)
        if reported not in (used, used - account.leaving.get(name, 0)):
            problem = "status.used is not what its pods request"
            yield _finding(account, name, problem, [], reported, used, warns=True)


def _finding(
    account: _Account,
    name: str,
    problem: str,
    parts: Sequence[tuple[str, str, int]],
    held: int,
    limit: int,
    *,
    warns: bool,
) -> Finding:
    owners = [Owner(kind=kind, name=owner, amount=nano_text(name, part)) for kind, owner, part in parts]
    return Finding(
        check=NAME,
        severity=Severity.WARNING if warns else Severity.ERROR,
        node="",
        what=f"ElasticQuota {account.name} {name}",
        problem=problem,
        owners=[Owner(kind="ElasticQuota", name=account.name), *owners],
        held=nano_text(name, held),
        limit=nano_text(name, limit),
    )
