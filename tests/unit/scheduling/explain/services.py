"""Profiles with one plugin that serves Koordinator's documented REST API."""

from koordpy.cluster.cluster import Cluster
from koordpy.scheduling.interface import Plugin
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.profiles.config import read
from koordpy.scheduling.profiles.profiles import Profiles
from koordpy.scheduling.profiles.registry import Place, build, installed


def profiles_with(plugin: type[Plugin] | None, cluster: Cluster) -> Profiles:
    """Return profiles with one profile that enables the plugin, or none."""
    enabled = [] if plugin is None else [{"name": plugin.name}]
    config = read(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [
                {"schedulerName": "default-scheduler", "plugins": {"multiPoint": {"enabled": enabled}}}
            ],
        }
    )
    classes = installed() if plugin is None else {**installed(), plugin.name: plugin}
    return build(config, lambda _: Handle(cluster), place=Place.EXTENDER, classes=classes)
