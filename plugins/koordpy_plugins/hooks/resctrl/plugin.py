"""Resctrl: groups of their own for pods that ask for a part of the last-level cache or the memory bandwidth.

A pod asks with the annotation `node.koordinator.sh/resctrl`. Its group is `koordlet-UID`; it ends with the
pod. Source: Koordinator, `pkg/koordlet/runtimehooks/hooks/resctrl`.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from koordpy.agent.interface import CallbackTarget, CgroupError, Handle, PodMeta, StateType, Update
from koordpy.agent.interface.hook import (
    OFF,
    ContainerRequest,
    Hook,
    HookError,
    Level,
    PodRequest,
    Reconciler,
    Response,
    Rule,
)
from koordpy.agent.toolkit import resctrl
from koordpy.agent.toolkit.resctrl import PRIVILEGES
from koordpy.api.needs import Needs
from koordpy.api.plugin import PluginArgs
from koordpy.lib.feature_gates import FeatureSpec

log = logging.getLogger(__name__)

GROUP: Final = "resctrl.group"
TASKS: Final = "resctrl.tasks"
SCHEMATA: Final = "resctrl.schemata"


class Resctrl(Hook):
    """The hook."""

    name: ClassVar[str] = "Resctrl"
    feature: ClassVar[str | None] = "Resctrl"
    feature_gates: ClassVar[Mapping[str, FeatureSpec]] = {"Resctrl": OFF}
    needs: ClassVar[Needs] = Needs(
        elsewhere=(
            "processors with cache and memory bandwidth allocation (flags cat_l3 and mba)",
            "the resctrl file system, mounted on the node",
        ),
        privileges=PRIVILEGES,
    )

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self.files = resctrl.ResctrlFiles(handle.resctrl_root)

    def refusal(self) -> str | None:
        """Without the file system there is nothing to allocate."""
        return None if self.files.is_mounted else f"{self.files.cbm_file} does not exist"

    def rules(self) -> Sequence[Rule]:
        """All pods: groups whose pod is gone are removed, also those of an earlier run of the agent."""
        return (Rule(f"{self.name} (AllPods)", StateType.ALL_PODS, _always, self.remove_unused),)

    def reconcilers(self) -> Sequence[Reconciler]:
        """The group of a pod, and the threads of its containers and sandbox."""
        return (
            Reconciler(Level.POD, GROUP, self.pod, enforce=self.limit),
            *(
                Reconciler(level, TASKS, self.container, enforce=self.move)
                for level in (Level.SANDBOX, Level.CONTAINER)
            ),
        )

    def pod(self, request: PodRequest, response: Response) -> None:
        """Set the schemata of a pod's group; they may be empty. Raises HookError."""
        text = request.annotations.get(resctrl.ANNOTATION)
        if text is None or not request.uid:
            return
        try:
            wanted = resctrl.read_annotation(text)
            vendor = resctrl.processors(self.handle.proc_root).vendor
            schemata = resctrl.pod_schemata(wanted, self.files.cbm(), vendor, self.files.cache_ids())
        except (OSError, ValueError) as error:
            raise HookError(str(error)) from None
        response.set(GROUP, schemata, f"annotation {resctrl.ANNOTATION}")

    def container(self, request: ContainerRequest, response: Response) -> None:
        """Set the group of a container's threads."""
        if resctrl.ANNOTATION in request.pod.annotations and request.pod.uid and request.cgroup_dir:
            response.set(TASKS, resctrl.pod_group(request.pod.uid), f"annotation {resctrl.ANNOTATION}")

    def limit(self, request: PodRequest, value: int | str) -> None:
        """Create a pod's group if need be, and write its schemata."""
        group, executor = resctrl.pod_group(request.uid), self.handle.executor
        try:
            executor.create_group(group, self.name)
        except CgroupError as error:
            log.info("%s: pod %s: %s", self.name, request.key, error)
            return
        lines = [line.rstrip(";") for line in str(value).splitlines()]
        formula = f"annotation {resctrl.ANNOTATION} of pod {request.key}"
        executor.update_batch([Update(SCHEMATA, group, line, self.name, formula) for line in lines])

    def move(self, request: ContainerRequest, value: int | str) -> None:
        """Move the threads of a container into its pod's group."""
        group = str(value)
        try:
            threads = self.handle.cgroups.threads(request.cgroup_dir)
            new = resctrl.new_tasks(threads, self.files.tasks(group)) if threads else []
        except (OSError, ValueError) as error:
            log.debug("%s: pod %s: %s", self.name, request.pod.key, error)
            return
        for thread in new:
            try:
                self.handle.executor.update(Update(TASKS, group, str(thread), self.name), cached=False)
            except CgroupError as error:  # threads end at any time
                log.debug("%s: group %s: thread %d: %s", self.name, group, thread, error)

    def remove_unused(self, target: CallbackTarget) -> None:
        """Remove the groups of pods that are gone, or do not ask for one any more."""
        used = {resctrl.pod_group(meta.pod.metadata.uid) for meta in target.pods if _asks(meta)}
        try:
            names = [path.name for path in self.files.root.iterdir() if path.is_dir()]
        except OSError as error:
            log.info("%s: %s", self.name, error)
            return
        for name in sorted(names):
            if name.startswith(resctrl.POD_GROUP_PREFIX) and name not in used:
                try:
                    self.handle.executor.remove_group(name, self.name)
                except CgroupError as error:
                    log.info("%s: %s", self.name, error)


def _always(_: Any) -> bool:
    return True


def _asks(meta: PodMeta) -> bool:
    return resctrl.ANNOTATION in meta.pod.metadata.annotations
