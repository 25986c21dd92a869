"""Defaults of pods and pod templates. Source: Kubernetes, `pkg/apis/core/v1/defaults.go`."""

from typing import Any

from koordpy.api import canonical_quantities as quantities

Document = dict[str, Any]

_CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")


def containers_of(spec: Document) -> list[Document]:
    """All containers of a pod spec, init containers first."""
    return [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]


def default_pod_spec(spec: Document, kind: str = "Pod", restart: bool = True) -> None:
    """Set the defaults of a pod spec, in place; quantities become canonical.

    Without `restart` the restart policy stays open, as in the templates of jobs.
    """
    for name in _CONTAINER_LISTS:
        for index, container in enumerate(spec.get(name) or ()):
            _default_container(container, kind, f"spec.{name}[{index}].resources.", spec)
    if restart:
        spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    if account := spec.get("serviceAccountName"):
        spec["serviceAccount"] = account
    elif account := spec.get("serviceAccount"):
        spec["serviceAccountName"] = account
    quantities.settle(spec, "overhead", kind, "spec.")
    if resources := spec.get("resources"):
        _default_requests(resources, kind, "spec.resources.")
    for volume in spec.get("volumes") or ():
        _default_volume(volume, kind)


def _default_container(container: Document, kind: str, path: str, spec: Document) -> None:
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("imagePullPolicy", _pull_policy(container.get("image", "")))
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if spec.get("hostNetwork") and not port.get("hostPort"):
            port["hostPort"] = port.get("containerPort", 0)
    _default_requests(container.setdefault("resources", {}), kind, path)
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if probe := container.get(name):
            for field, value in (
                ("timeoutSeconds", 1),
                ("periodSeconds", 10),
                ("successThreshold", 1),
                ("failureThreshold", 3),
            ):
                if not probe.get(field):
                    probe[field] = value
            _default_http(probe)
    for hook in ("postStart", "preStop"):
        _default_http((container.get("lifecycle") or {}).get(hook) or {})
    for variable in container.get("env") or ():
        if reference := (variable.get("valueFrom") or {}).get("fieldRef"):
            reference.setdefault("apiVersion", "v1")


def _default_http(handler: Document) -> None:
    if http := handler.get("httpGet"):
        http.setdefault("path", "/")
        http.setdefault("scheme", "HTTP")


def _default_requests(resources: Document, kind: str, path: str) -> None:
    for name in ("limits", "requests"):
        quantities.settle(resources, name, kind, path)
    if limits := resources.get("limits"):
        requests = resources.setdefault("requests", {})
        for name, amount in limits.items():
            requests.setdefault(name, amount)


def _pull_policy(image: str) -> str:
    name = image.rpartition("/")[2]
    if "@" in name:
        return "IfNotPresent"
    tag = name.partition(":")[2]
    return "Always" if tag in ("", "latest") else "IfNotPresent"


def _default_volume(volume: Document, kind: str) -> None:
    if len(volume) == 1:
        volume["emptyDir"] = {}
    if (empty := volume.get("emptyDir")) and "sizeLimit" in empty:
        empty["sizeLimit"] = quantities.canonical(empty["sizeLimit"], kind, "emptyDir.sizeLimit")
    for source in ("secret", "configMap", "downwardAPI", "projected"):
        if source in volume:
            volume[source].setdefault("defaultMode", 420)
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")
    for item in (volume.get("downwardAPI") or {}).get("items") or ():
        if reference := item.get("fieldRef"):
            reference.setdefault("apiVersion", "v1")
    for part in (volume.get("projected") or {}).get("sources") or ():
        if token := part.get("serviceAccountToken"):
            token.setdefault("expirationSeconds", 3600)
        for item in (part.get("downwardAPI") or {}).get("items") or ():
            if reference := item.get("fieldRef"):
                reference.setdefault("apiVersion", "v1")


def qos_class(spec: Document) -> str:
    """Return a pod's Kubernetes QoS class from the canonical requests and limits of its containers."""
    guaranteed, something = True, False
    pod_level = spec.get("resources") or {}
    holders = (
        [pod_level]
        if pod_level.get("requests") or pod_level.get("limits")
        else [container.get("resources") or {} for container in containers_of(spec)]
    )
    for resources in holders:
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        for name in ("cpu", "memory"):
            request, limit = requests.get(name, "0"), limits.get(name, "0")
            something = something or request != "0" or limit != "0"
            if limit == "0" or request != limit:
                guaranteed = False
    if not something:
        return "BestEffort"
    return "Guaranteed" if guaranteed and holders else "Burstable"
