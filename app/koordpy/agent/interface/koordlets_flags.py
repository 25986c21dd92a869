"""Flags of koordlet that the agent refuses, with what to use instead.

They would promise something that it does in another way, or not at all. A flag that a plugin declares is
accepted, whatever is said here.
"""

from typing import Final

REFUSED: Final = {
    "addr": "the agent's endpoints are where --debug-bind or `debug` of the configuration say",
    "configmap-name": "koordlet reads no such ConfigMap either; slo-controller-config configures nodes",
    "configmap-namespace": "koordlet reads no such ConfigMap either; slo-controller-config configures nodes",
    "enable-pprof": "profiles are always at /debug/pprof/ of the agent's endpoints",
    "kube-api-burst": "the agent's few requests to the API server are not limited by rate",
    "kube-api-qps": "the agent's few requests to the API server are not limited by rate",
    "logtostderr": "the log always goes to standard error",
    "pod-resources-proxy-path": "the agent is no proxy of the kubelet's pod resources",
    "pprof-addr": "profiles are at /debug/pprof/ of the agent's endpoints",
    "report-interval": "metricReportIntervalSeconds in slo-controller-config sets it, as in koordlet",
    "v": "`koordpy -v agent` logs more, and PUT /debug/flags/v changes the level while the agent runs",
}
"""Why, by name."""


def reason_against(name: str) -> str | None:
    """Return why a flag is refused, None for one that koordlet does not have either."""
    reason = REFUSED.get(name)
    return None if reason is None else f"the flag --{name} of koordlet is refused: {reason}"
