"""OOMScoreAdj: which processes of a node the kernel kills first when memory runs out, by annotation.

Source: Koordinator, `pkg/koordlet/runtimehooks/hooks/oomscoreadj`.
"""

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import ClassVar, Final

from prometheus_client import Gauge

from koordpy.agent.interface import CgroupError, UnsupportedError, Update
from koordpy.agent.interface.hook import OFF, ContainerRequest, Hook, Level, Reconciler, Response
from koordpy.api.extension import ANNOTATION_OOM_SCORE_ADJ, ANNOTATION_OOM_SCORE_ADJ_SPEC
from koordpy.api.needs import Needs, Privilege, PrivilegeNeed
from koordpy.lib import go_json, int64
from koordpy.lib.feature_gates import FeatureSpec

log = logging.getLogger(__name__)

RESOURCE: Final = "oom_score_adj"
MINIMUM, MAXIMUM = -1000, 1000

APPLIED = Gauge(
    "koordlet_container_oom_score_adj",
    "The oom_score_adj value set for the container.",
    ["node", "pod_name", "pod_namespace", "pod_uid", "container_name"],
)


class OOMScoreAdj(Hook):
    """The hook. It writes the value to every process of a container, also to those that start later."""

    name: ClassVar[str] = "OOMScoreAdj"
    feature: ClassVar[str | None] = "OOMScoreAdj"
    feature_gates: ClassVar[Mapping[str, FeatureSpec]] = {"OOMScoreAdj": OFF}
    needs: ClassVar[Needs] = Needs(
        privileges=(
            PrivilegeNeed(
                privilege=Privilege.HOST_PID,
                purpose="finding the processes of containers",
                without="nothing is written, and the log says so",
            ),
            PrivilegeNeed(
                privilege=Privilege.DAC_OVERRIDE,
                purpose="writing the scores of containers of users other than root",
                without="theirs are not written, and the log says so",
            ),
            PrivilegeNeed(
                privilege=Privilege.SYS_RESOURCE,
                purpose="lowering scores",
                without="scores are only raised, and the log names those that cannot be lowered",
                is_problem=False,
            ),
        )
    )

    def reconcilers(self) -> Sequence[Reconciler]:
        """The processes of all containers."""
        return (
            Reconciler(Level.CONTAINER, RESOURCE, self.container, enforce=self.enforce, forget=self.forget),
        )

    def container(self, request: ContainerRequest, response: Response) -> None:
        """Set the annotated value of a container; nothing if it is invalid or out of range."""
        if not request.cgroup_dir or not request.pod.uid:
            return
        try:
            score = annotated(request.pod.annotations, request.name)
        except ValueError as error:
            log.info("%s: pod %s: container %s: %s", self.name, request.pod.key, request.name, error)
            return
        if score is not None and MINIMUM <= score <= MAXIMUM:
            response.set(RESOURCE, score, f"annotation of pod {request.pod.key}")
        elif score is not None:
            log.warning(
                "%s: pod %s: container %s: got %d, expected %d to %d",
                self.name,
                request.pod.key,
                request.name,
                score,
                MINIMUM,
                MAXIMUM,
            )

    def enforce(self, request: ContainerRequest, value: int | str) -> None:
        """Write the value to all processes of a container that have another one."""
        try:
            processes = self.handle.cgroups.processes(request.cgroup_dir)
        except UnsupportedError as error:
            log.debug("%s: %s", self.name, error)
            return
        except CgroupError as error:
            log.info("%s: pod %s: container %s: %s", self.name, request.pod.key, request.name, error)
            return
        reached = False
        for process in processes:
            formula = f"annotation of pod {request.pod.key}"
            try:
                self.handle.executor.update(Update(RESOURCE, str(process), str(value), self.name, formula))
                reached = True
            except CgroupError as error:
                log.info("%s: pod %s: container %s: %s", self.name, request.pod.key, request.name, error)
        if reached:
            APPLIED.labels(*self._labels(request)).set(int(value))

    def forget(self, request: ContainerRequest) -> None:
        """Drop the series of a container that is gone."""
        with suppress(KeyError):
            APPLIED.remove(*self._labels(request))

    def _labels(self, request: ContainerRequest) -> tuple[str, str, str, str, str]:
        pod = request.pod
        return self.handle.node_name, pod.name, pod.namespace, pod.uid, request.name


def annotated(annotations: Mapping[str, str], container: str) -> int | None:
    """Return the value for a container: of the map of containers, else of the pod. Raises ValueError."""
    spec = annotations.get(ANNOTATION_OOM_SCORE_ADJ_SPEC)
    if spec:
        values = go_json.mapping(go_json.parse(spec), ANNOTATION_OOM_SCORE_ADJ_SPEC) or {}
        numbers = {
            name: go_json.integer(value, f"{name} of {spec[:200]!r}") for name, value in values.items()
        }
        if container in numbers:
            return numbers[container]
    text = annotations.get(ANNOTATION_OOM_SCORE_ADJ)
    if not text:
        return None
    number = int64.parse(text)
    if number is None:
        raise ValueError(f"annotation {ANNOTATION_OOM_SCORE_ADJ}: got {text[:40]!r}, expected an integer")
    return number
