"""Logs, exec, attach and port forwarding: refused, because the containers of these pods do not run.

A pod without a node is answered as by kube-apiserver. To follow logs shows the reason as the logs.
"""

from typing import Any

import msgspec

from ..catalog import Served
from ..errors import bad_request, not_found
from ..kinds.pods import NO_CONTAINERS
from ..storage import key_of
from ..wire import Request, Response

SUBRESOURCES = ("attach", "exec", "log", "portforward")

_TOLD = {
    "attach": "cannot attach to a container of pod {name!r}",
    "exec": "cannot execute a command in pod {name!r}",
    "log": "pod {name!r} has no logs",
    "portforward": "cannot forward a port to pod {name!r}",
}


def answer(request: Request, served: Served, namespace: str, name: str, subresource: str) -> Response:
    """Answer a request to the containers of a pod. Raises ApiError (400, 404)."""
    record = served.table.get(key_of(namespace, name))
    if record is None:
        raise not_found(served.plural, served.group, name)
    pod = record.document()
    container = _container(pod, request.query.get("container", "")) if subresource != "portforward" else ""
    if not pod["spec"].get("nodeName"):
        if subresource == "log":
            return Response(b"", 204, content_type="text/plain")
        raise bad_request(f"pod {name} does not have a host assigned")
    told = _TOLD[subresource].format(name=name)
    of_container = f" (container {container!r})" if container else ""
    told += f"{of_container}: {NO_CONTAINERS}"
    if subresource == "log" and request.flag("follow"):
        # kubectl repeats a request to follow that fails, each second for 20 s.
        return Response(f"{told}\n".encode(), content_type="text/plain")
    raise bad_request(told)


def _container(pod: dict[str, Any], wanted: str) -> str:
    """Return the container that a request means; raise ApiError (400) if there is none."""
    spec = pod["spec"]
    lists = (spec.get(kind) or () for kind in ("initContainers", "containers", "ephemeralContainers"))
    names = [container.get("name", "") for items in lists for container in items]
    own = [container.get("name", "") for container in spec.get("containers") or ()]
    pod_name = pod["metadata"]["name"]
    if wanted:
        if wanted not in names:
            raise bad_request(f"container {wanted} is not valid for pod {pod_name}")
        return wanted
    if len(own) == 1:
        return str(own[0])
    told = msgspec.json.encode(own).decode().replace(",", " ").replace('"', "")
    raise bad_request(f"a container name must be specified for pod {pod_name}, choose one of: {told}")
