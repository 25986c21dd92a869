"""Whether kube-scheduler gates gangs itself, as far as its pods show it.

Where kube-scheduler runs as a pod of `kube-system` (kubeadm and most others), its command line has the
feature gates. Elsewhere, as in managed control planes, nothing in the API tells: kube-scheduler 1.35 writes
neither a condition nor an event about a pod that waits for its gang.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from koordpy.api import scheme
from koordpy.api.meta import KubeObject, Struct
from koordpy.api.scheme import Resource

from .client import Client

NAMESPACE: Final = "kube-system"
SELECTOR: Final = "component=kube-scheduler"

_FLAG: Final = "--feature-gates"
_MINOR: Final = re.compile(r":v1\.(\d{1,3})\b")
_MERGED: Final = 37
"""The minor release from which on GenericWorkload includes GangScheduling, as a beta feature."""


class _Container(Struct):
    image: str = ""
    command: list[str] = []
    args: list[str] = []


class KubeSchedulerPod(KubeObject):
    """A pod of kube-scheduler, with its command line."""

    class Spec(Struct):
        """Its containers."""

        containers: list[_Container] = []

    spec: Spec = msgspec.field(default_factory=Spec)


scheme.register(Resource("", "v1", "pods", "Pod", True, KubeSchedulerPod))


@dataclass(frozen=True, slots=True)
class GangGates:
    """A kube-scheduler and what its command line says: does it gate gangs?"""

    pod: str
    gates_gangs: bool


def gang_gates(pod: KubeSchedulerPod) -> GangGates:
    """Return what the command line of a kube-scheduler says."""
    found: dict[str, bool] = {}
    minor = 0
    for container in pod.spec.containers:
        if match := _MINOR.search(container.image):
            minor = int(match[1])
        found.update(_gates([*container.command, *container.args]))
    stage = found.get("AllBeta" if minor >= _MERGED else "AllAlpha", False)
    gangs = found.get("GenericWorkload", stage)
    if minor < _MERGED:
        gangs = gangs and found.get("GangScheduling", stage)
    return GangGates(pod.metadata.key, gangs)


def _gates(words: Sequence[str]) -> Iterator[tuple[str, bool]]:
    for number, word in enumerate(words):
        flag, _, value = word.partition("=")
        if flag != _FLAG:
            continue
        text = value or "".join(words[number + 1 : number + 2])
        for item in text.split(","):
            name, _, switch = item.strip().partition("=")
            yield name, switch.strip().lower() in ("true", "t", "1")


async def kube_schedulers(client: Client) -> list[GangGates]:
    """Return what the kube-schedulers that run as pods do. Raises ApiError, ConnectionFailed."""
    pods = await client.list_all(KubeSchedulerPod, namespace=NAMESPACE, label_selector=SELECTOR)
    return [gang_gates(pod) for pod in pods]
