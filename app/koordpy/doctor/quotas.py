"""Whether the quotas of a cluster make sense: their tree, their minimums, and the pods that are in them."""

from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import Final

from koordpy.api import extension, resource_list
from koordpy.api.core import Node, Pod
from koordpy.api.decoding import DecodeError
from koordpy.api.koordinator import ElasticQuota
from koordpy.api.quantity import UNSET, QuantityError
from koordpy.api.quota.args import ElasticQuotaArgs
from koordpy.api.quota.info import DEFAULT, ROOT, SYSTEM, QuotaInfo
from koordpy.api.quota.validation import InvalidQuota
from koordpy.api.quota.validation import check as check_alone
from koordpy.api.resource_amounts import total
from koordpy.api.resource_list import Quantities
from koordpy.cluster.errors import NotFound
from koordpy.features.feature import Part
from koordpy.lib.counting import counted

from .finding import Area, Finding
from .installation import Installation

AREA = Area("quotas")

ELASTIC_QUOTA: Final = "ElasticQuota"

SHOWN: Final = 10
"""Findings of one kind that are listed."""

_RUNTIME: Final = "quota.scheduling.koordinator.sh/runtime"
_SPECIAL: Final = (ROOT, SYSTEM, DEFAULT)


async def check(installation: Installation) -> AsyncIterator[Finding]:
    """Check the ElasticQuotas, where a profile has the plugin."""
    if why := installation.unchecked(Part.EXTENDER, ELASTIC_QUOTA):
        yield AREA.skipped(why)
        return
    client = installation.client
    args = next(plugin.args for plugin in installation.plugins if plugin.name == ELASTIC_QUOTA)
    try:
        quotas = await client.list_all(ElasticQuota)
    except NotFound:
        return  # the area of the definitions reports it
    pods = [pod for pod in await client.list_all(Pod) if not pod.is_terminal]
    nodes = await client.list_all(Node)
    revokes = isinstance(args, ElasticQuotaArgs) and args.monitor_all_quotas
    findings = list(examine(quotas, pods, nodes, revokes=revokes))
    for finding in findings:
        yield finding
    if not findings:
        yield AREA.ok("quotas", f"the tree of {counted(len(quotas), 'quota')} is sound")


def examine(
    quotas: Iterable[ElasticQuota], pods: Iterable[Pod], nodes: Iterable[Node], *, revokes: bool = False
) -> Iterator[Finding]:
    """Yield what is wrong with quotas. `revokes` is whether pods of over-used quotas are evicted."""
    known = sorted(quotas, key=lambda quota: (quota.metadata.name, quota.metadata.namespace))
    infos: dict[str, QuotaInfo] = {}
    for quota in known:
        try:
            info = QuotaInfo.of(quota)
            check_alone(quota, info)
        except (InvalidQuota, QuantityError, DecodeError) as error:
            yield AREA.problem(quota.metadata.key, f"is invalid: {error}", "correct the ElasticQuota")
            continue
        if info.name in infos:
            yield AREA.problem(
                info.name,
                "exists in several namespaces: the name alone identifies a quota, so only one of them counts",
                "delete or rename all but one",
            )
        infos[info.name] = info
    children: dict[str, list[QuotaInfo]] = defaultdict(list)
    for info in infos.values():
        children[info.parent_name].append(info)
    yield from _parents(infos, children)
    yield from _minimums(infos, children)
    yield from _namespaces(infos.values())
    yield from _cluster(children.get(ROOT, []), nodes)
    yield from _pods(infos, children, pods)
    yield from _first(list(_over_used(known, revokes=revokes)), "more quotas are over-used")


def _parents(infos: Mapping[str, QuotaInfo], children: Mapping[str, list[QuotaInfo]]) -> Iterator[Finding]:
    for info in infos.values():
        if info.name == ROOT or info.parent_name == ROOT:
            continue
        parent = infos.get(info.parent_name)
        if parent is None:
            yield AREA.problem(
                info.name,
                f"its parent {info.parent_name} does not exist",
                f"create it, or change the label {extension.LABEL_QUOTA_PARENT}",
            )
        elif not parent.is_parent:
            yield AREA.warning(
                info.name,
                f"its parent {parent.name} is not marked as a parent",
                f'set the label {extension.LABEL_QUOTA_IS_PARENT}: "true" on {parent.name}',
            )
        elif parent.tree_id != info.tree_id:
            yield AREA.problem(
                info.name,
                f"is in tree {info.tree_id or 'without ID'}, and its parent {parent.name} in "
                f"{parent.tree_id or 'the one without ID'}",
                f"give both the same label {extension.LABEL_QUOTA_TREE_ID}",
            )
        if _is_cyclic(info, infos):
            yield AREA.problem(info.name, "is below itself", "correct the parents")


def _is_cyclic(info: QuotaInfo, infos: Mapping[str, QuotaInfo]) -> bool:
    seen: set[str] = set()
    name = info.parent_name
    while name in infos and name not in seen:
        if name == info.name:
            return True
        seen.add(name)
        name = infos[name].parent_name
    return False


def _minimums(infos: Mapping[str, QuotaInfo], children: Mapping[str, list[QuotaInfo]]) -> Iterator[Finding]:
    for info in infos.values():
        below = children.get(info.name)
        if info.name in _SPECIAL or not below:
            continue
        beyond = _beyond(total(child.min for child in below), info.min)
        if beyond:
            yield AREA.warning(
                info.name,
                f"the mins of its {len(below)} children add up to more than its own ({beyond}): they are not "
                "all guaranteed at once",
                "raise its min, or lower those of its children",
            )


def _namespaces(infos: Iterable[QuotaInfo]) -> Iterator[Finding]:
    bound: dict[str, list[str]] = defaultdict(list)
    for info in infos:
        for namespace in info.namespaces:
            bound[namespace].append(info.name)
    for namespace, names in sorted(bound.items()):
        if len(names) > 1:
            yield AREA.problem(
                f"namespace {namespace}",
                f"is bound to {len(names)} quotas ({', '.join(sorted(names)[:3])}); the oldest counts",
                f"name it in the annotation {extension.ANNOTATION_QUOTA_NAMESPACES} of one of them",
            )


def _cluster(top: Iterable[QuotaInfo], nodes: Iterable[Node]) -> Iterator[Finding]:
    """Compare the mins of the quotas at the top of the default tree with what the nodes offer."""
    offered = total(resource_list.from_wire(node.status.allocatable) for node in nodes)
    top = [info for info in top if not info.tree_id and info.name not in _SPECIAL]
    beyond = _beyond(total(info.min for info in top), offered)
    if beyond:
        yield AREA.warning(
            "cluster",
            f"the mins of the quotas below the root add up to more than the nodes offer ({beyond}): with "
            "enableMinQuotaScale all are scaled down, else not all are guaranteed",
            "add nodes, or lower mins",
        )


def _pods(
    infos: Mapping[str, QuotaInfo], children: Mapping[str, list[QuotaInfo]], pods: Iterable[Pod]
) -> Iterator[Finding]:
    in_parents: dict[str, list[Pod]] = defaultdict(list)
    unknown: dict[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        name = pod.metadata.labels.get(extension.LABEL_QUOTA_NAME, "")
        if name and name not in infos and name not in _SPECIAL:
            unknown[name].append(pod)
        elif name in infos and name not in _SPECIAL and (infos[name].is_parent or children.get(name)):
            in_parents[name].append(pod)
    found = [
        AREA.warning(
            name,
            f"{_named(inside)} in a quota with children: its children do not share what they use",
            f"move them to a child of {name} (label {extension.LABEL_QUOTA_NAME})",
        )
        for name, inside in sorted(in_parents.items())
    ]
    yield from _first(found, "more parent quotas have pods")
    found = [
        AREA.warning(
            name,
            f"{_named(inside)} labelled with this quota, which does not exist: they count in {DEFAULT}",
            "create the ElasticQuota, or correct the label of the pods",
        )
        for name, inside in sorted(unknown.items())
    ]
    yield from _first(found, "more such quotas")


def _over_used(quotas: Iterable[ElasticQuota], *, revokes: bool) -> Iterator[Finding]:
    for quota in quotas:
        text = quota.metadata.annotations.get(_RUNTIME, "")
        if not text or quota.metadata.name in _SPECIAL:
            continue
        try:
            runtime = resource_list.parse(text) or {}
            used = resource_list.from_wire(quota.status.used)
        except (DecodeError, QuantityError):
            continue
        beyond = _beyond({name: used[name] for name in used if name in runtime}, runtime)
        if beyond:
            yield AREA.note(
                quota.metadata.name,
                f"uses more than its runtime quota ({beyond}): others that want their min back wait",
                "pods of it are evicted after delayEvictTime"
                if revokes
                else "none of its pods is evicted for that: monitorAllQuotas of ElasticQuotaArgs is off",
            )


def _beyond(amounts: Quantities, limits: Quantities) -> str:
    """Return the amounts that exceed their limits, as a text."""
    return ", ".join(
        f"{name} {amount} > {limits.get(name, UNSET)}"
        for name, amount in sorted(amounts.items())
        if amount > limits.get(name, UNSET)
    )


def _named(pods: list[Pod]) -> str:
    first = min(pod.metadata.key for pod in pods)
    return f"{first} is" if len(pods) == 1 else f"{first} and {len(pods) - 1} more are"


def _first(found: list[Finding], others: str) -> Iterator[Finding]:
    yield from found[:SHOWN]
    if len(found) > SHOWN:
        yield AREA.note("others", f"{len(found) - SHOWN} {others}", "koordpy quota tree")
