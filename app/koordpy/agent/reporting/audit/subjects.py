"""What an event of the audit log is about, by the cgroup that was written to."""

from typing import Final

from koordpy.agent.interface.layout import CgroupLayout
from koordpy.agent.interface.states import States

_QOS: Final = ("BestEffort", "Burstable", "Guaranteed")
_UNKNOWN: Final = {"type": "unknown"}


class Subjects:
    """Finds the pod, container or group of a directory, with koordlet's names of types."""

    def __init__(self, states: States, layout: CgroupLayout) -> None:
        self._states = states
        self._layout = layout
        self._groups = {layout.qos(qos): qos for qos in _QOS}

    def of(self, directory: str) -> dict[str, str]:
        """Return `type`, and `namespace`, `name` and `container` where there are some.

        What is below a pod's directory and no known container is its sandbox, or a container that ended.
        """
        if not directory:
            return {"type": "node"}
        if (group := self._groups.get(directory)) is not None:
            return {"type": "group", "name": group}
        for meta in self._states.pods():
            if directory != meta.cgroup_dir and not directory.startswith(f"{meta.cgroup_dir}/"):
                continue
            pod = meta.pod
            about = {"type": "pod", "namespace": pod.metadata.namespace, "name": pod.metadata.name}
            statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
            for status in statuses if directory != meta.cgroup_dir else ():
                if status.container_id and directory == self._container(meta.cgroup_dir, status.container_id):
                    about["container"] = status.name
            return about
        slo = self._states.node_slo()
        for application in slo.host_applications if slo is not None else ():
            if directory == self._layout.host_application(application):
                return {"type": "group", "name": application.name}
        return _UNKNOWN

    def _container(self, pod_directory: str, container_id: str) -> str | None:
        try:
            return self._layout.container(pod_directory, container_id)
        except ValueError:
            return None
