"""Which pods a plugin considers: those on a node, by namespace, label and evictability.

Source: Koordinator, `pkg/descheduler/pod/pods.go`.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

from koordpy.api import label_selector
from koordpy.api import selector_errors as kubernetes
from koordpy.api.config_model import ConfigModel
from koordpy.api.core import Pod
from koordpy.api.field_error import FieldError, invalid_object
from koordpy.api.meta import LabelSelector
from koordpy.cluster.cluster import Cluster

from .node_requests import NodeRequests
from .pods_by_node import PodsByNode
from .selector import Selector, selector_errors, written

PodFilter = Callable[[Pod], bool]


class Namespaces(ConfigModel):
    """Namespaces to include or to exclude; only one of the two lists may be given."""

    include: list[str] = []
    exclude: list[str] = []


class PodSelector(ConfigModel):
    """A named label selector; without a selector it is ignored."""

    name: str = ""
    selector: Selector | None = None


def namespaces_errors(path: str, namespaces: Namespaces | None) -> list[FieldError]:
    """Return the errors in a plugin's namespaces."""
    if namespaces is not None and namespaces.include and namespaces.exclude:
        value = {"Include": namespaces.include, "Exclude": namespaces.exclude}
        return [invalid_object(path, value, "only one of Include/Exclude namespaces can be set")]
    return []


def pod_selectors_errors(path: str, selectors: Iterable[PodSelector]) -> list[FieldError]:
    """Return the errors in a plugin's pod selectors."""
    return [
        error
        for index, entry in enumerate(selectors)
        for error in selector_errors(
            f"{path}[{index}]",
            entry.selector,
            {"Name": entry.name, "Selector": entry.selector and written(entry.selector)},
        )
    ]


class NodePods:
    """The pods of a cluster by the node that they are bound to."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._by_node = cluster.shared(PodsByNode)

    @cached_property
    def requests(self) -> NodeRequests:
        """What the pods of each node request; request it before the informers start."""
        return self._cluster.shared(NodeRequests)

    def all_on(self, node_name: str) -> list[Pod]:
        """Return the pods of a node in any phase, by namespace and name."""
        return list(self._by_node.all_on(node_name))

    def active_on(self, node_name: str) -> list[Pod]:
        """Return the pods of a node that have neither succeeded nor failed, by namespace and name."""
        return list(self._by_node.active_on(node_name))


def in_namespaces(namespaces: Namespaces | None) -> PodFilter:
    """Return a filter for the namespaces; empty lists pass everything."""
    included = frozenset(namespaces.include if namespaces else ())
    excluded = frozenset(namespaces.exclude if namespaces else ())

    def passes(pod: Pod) -> bool:
        namespace = pod.metadata.namespace
        return (not included or namespace in included) and namespace not in excluded

    return passes


def selected(selectors: Iterable[PodSelector]) -> PodFilter:
    """Return a filter for pods that one of the selectors matches; without any selector all pass.

    Raises ValueError naming the invalid selector.
    """
    matchers = [_matcher(entry.name, entry.selector) for entry in selectors if entry.selector is not None]
    if not matchers:
        return lambda pod: True
    return lambda pod: any(matcher.matches(pod.metadata.labels) for matcher in matchers)


def _matcher(name: str, selector: LabelSelector) -> label_selector.Selector:
    if reason := kubernetes.reason(selector):
        raise ValueError(f"invalid labelSelector {name}, {reason}")
    return label_selector.of(selector)


def every(filters: Sequence[PodFilter]) -> PodFilter:
    """Return a filter that passes what all filters pass, asked in order."""
    return lambda pod: all(passes(pod) for passes in filters)


def evictable(
    namespaces: Namespaces | None, evictor_filter: PodFilter, selectors: Iterable[PodSelector]
) -> PodFilter:
    """Return the filter of Koordinator's plugins: by namespace, by the filter plugins, by pod selector.

    Raises ValueError naming the invalid selector.
    """
    return every((in_namespaces(namespaces), evictor_filter, selected(selectors)))
