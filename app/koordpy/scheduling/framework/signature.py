"""What makes pods identical to a profile, so that the results for one hold for the others."""

import logging
from collections.abc import Hashable
from dataclasses import dataclass

import msgspec

from koordpy.api.core import Pod
from koordpy.api.pod_specs import requests_of, without_requests, without_volume_names
from koordpy.scheduling.interface import (
    FindOneNode,
    PlansJobs,
    Plugin,
    PreferNodes,
    Reach,
    ReservationRestore,
    SignPlugin,
)

from .enabled_plugins import EnabledPlugins

log = logging.getLogger(__name__)

_POINTS = ("pre_filter", "filter", "pre_score", "score")

_encode = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True, slots=True)
class Kind:
    """Which members of a job get the same answers, and from which plugins.

    With an equal `base` the answers of the plugins in `fixed` are the same, whatever pods are placed
    meanwhile. With an equal `key` those of the plugins in `local` are too, except for nodes that pods were
    placed on. The plugins in `separable` must be asked again for each member.
    """

    base: Hashable
    key: Hashable
    fixed: frozenset[str]
    local: frozenset[str]
    separable: frozenset[str]


class Signer:
    """Signs pods with everything that the plugins of a profile use to find a node."""

    def __init__(self, plugins: EnabledPlugins, *, enabled: bool) -> None:
        asked: dict[str, object] = {}
        for point in _POINTS:
            asked.update(plugins.at(point, Plugin))
        for role in (FindOneNode, PreferNodes, ReservationRestore):
            asked.update(plugins.having(role))
        signing = {name: plugin for name, plugin in asked.items() if isinstance(plugin, SignPlugin)}
        self.silent = sorted(name for name in asked if name not in signing)
        """The plugins that do not sign pods, so that every pod is evaluated alone."""
        self._signs = enabled and not self.silent
        self._all = signing
        self._plugins = [
            plugin for plugin in signing.values() if type(plugin).sign_pod is not SignPlugin.sign_pod
        ]
        self._fixed = frozenset(
            name
            for name, plugin in signing.items()
            if plugin.reach is Reach.NOWHERE and not plugin.reads_requests
        )
        self._local = frozenset(signing) - self._fixed

    def sign(self, pod: Pod) -> Hashable | None:
        """Return the signature of a pod: pods with the same one get the same answers. None if it has none."""
        return self._sign(pod, in_job=False)

    def sign_member(self, pod: Pod) -> Hashable | None:
        """Return the signature of a pod among pods of jobs that are being planned."""
        return self._sign(pod, in_job=True)

    def _sign(self, pod: Pod, *, in_job: bool) -> Hashable | None:
        if not self._signs:
            return None
        parts: list[Hashable] = [pod.metadata.namespace]
        for plugin in self._plugins:
            part = self._part(plugin, pod, in_job=in_job)
            if part is None:
                return None
            parts.append(part)
        try:
            parts.append(_encode(without_volume_names(pod.spec)))
        except OverflowError:  # not a number that the API server accepts
            return None
        return tuple(parts)

    def kind_of_member(self, pod: Pod) -> Kind | None:
        """Return the kind of a pod among the pods of its job; None if it must be evaluated alone."""
        if not self._signs:
            return None
        base: list[Hashable] = [pod.metadata.namespace]
        more: list[Hashable] = []
        separable: list[str] = []
        for name, plugin in self._all.items():
            part = self._part(plugin, pod, in_job=True)
            if part is None:
                if not plugin.is_separable:
                    return None
                separable.append(name)
            elif part:
                (base if name in self._fixed else more).append((name, part))
        apart = frozenset(separable)
        try:
            base += (apart, _encode(without_requests(without_volume_names(pod.spec))))
            more += (*base, _encode(requests_of(pod.spec)))
        except OverflowError:  # not a number that the API server accepts
            return None
        return Kind(tuple(base), tuple(more), self._fixed - apart, self._local - apart, apart)

    @staticmethod
    def _part(plugin: SignPlugin, pod: Pod, *, in_job: bool) -> Hashable | None:
        """Return what a plugin signs of a pod; None too if it raises."""
        sign = plugin.sign_member if in_job and isinstance(plugin, PlansJobs) else plugin.sign_pod
        try:
            part = sign(pod)
            hash(part)
        except Exception:
            log.exception("plugin %s cannot sign pod %s", type(plugin).__name__, pod.metadata.key)
            return None
        return part
