"""What makes pods identical to a profile, so that the results for one hold for the others."""

import logging
from collections.abc import Hashable

import msgspec

from koordpy.api.core import Pod
from koordpy.api.pod_specs import without_volume_names
from koordpy.scheduling.interface import (
    FindOneNode,
    PlansJobs,
    Plugin,
    PreferNodes,
    ReservationRestore,
    SignPlugin,
)

from .enabled_plugins import EnabledPlugins

log = logging.getLogger(__name__)

_POINTS = ("pre_filter", "filter", "pre_score", "score")

_encode = msgspec.msgpack.Encoder().encode


class Signer:
    """Signs pods with everything that the plugins of a profile use to find a node."""

    def __init__(self, plugins: EnabledPlugins, *, enabled: bool) -> None:
        asked: dict[str, object] = {}
        for point in _POINTS:
            asked.update(plugins.at(point, Plugin))
        for role in (FindOneNode, PreferNodes, ReservationRestore):
            asked.update(plugins.having(role))
        signing = [plugin for plugin in asked.values() if isinstance(plugin, SignPlugin)]
        self.silent = sorted(name for name, plugin in asked.items() if not isinstance(plugin, SignPlugin))
        """The plugins that do not sign pods, so that every pod is evaluated alone."""
        self._signs = enabled and not self.silent
        self._plugins = [plugin for plugin in signing if type(plugin).sign_pod is not SignPlugin.sign_pod]

    def sign(self, pod: Pod) -> Hashable | None:
        """Return the signature of a pod: pods with the same one get the same answers. None if it has none."""
        return self._sign(pod, in_job=False)

    def sign_member(self, pod: Pod) -> Hashable | None:
        """Return the signature of a pod among the pods of its job."""
        return self._sign(pod, in_job=True)

    def _sign(self, pod: Pod, *, in_job: bool) -> Hashable | None:
        if not self._signs:
            return None
        parts: list[Hashable] = [pod.metadata.namespace]
        for plugin in self._plugins:
            try:
                if in_job and isinstance(plugin, PlansJobs):
                    part = plugin.sign_member(pod)
                else:
                    part = plugin.sign_pod(pod)
                hash(part)
            except Exception:
                log.exception("plugin %s cannot sign pod %s", type(plugin).__name__, pod.metadata.key)
                return None
            if part is None:
                return None
            parts.append(part)
        try:
            parts.append(_encode(without_volume_names(pod.spec)))
        except OverflowError:  # not a number that the API server accepts
            return None
        return tuple(parts)
