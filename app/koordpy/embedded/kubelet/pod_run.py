"""The run of one pod: its containers start, end, restart with backoff; and the status that shows it.

No I/O: `advance` moves the state to a time, `status` describes it. Source: Kubernetes, `pkg/kubelet`
(`kubelet_pods.go`, `status/generate.go`), backoff: `kuberuntime_manager.go`.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from koordpy.api.meta import format_time, parse_time

from .plan import ContainerPlan, PodPlan

Document = dict[str, Any]

BACKOFF, LONGEST_BACKOFF = 10.0, 300.0
"""Seconds until a container that ended is restarted: none the first time, then 10, doubled each time."""
_FORGIVEN_AFTER = 600.0
"""The seconds of running after which earlier failures do not count."""
_EARLY = 1e-6


@dataclass(slots=True)
class _Container:
    """The state of a container: waiting (`started` is None), running, or terminated (`ended` is set)."""

    plan: ContainerPlan
    started: float | None = None
    ended: float | None = None
    code: int = 0
    restarts: int = 0
    backoff: float = 0.0
    last: Document | None = None
    """The state before the last restart."""

    @property
    def runs(self) -> bool:
        return self.started is not None and self.ended is None

    def due(self) -> float | None:
        """Return when it ends by itself."""
        if not self.runs or self.plan.run_for is None:
            return None
        assert self.started is not None
        return self.started + self.plan.run_for

    def ready_at(self) -> float | None:
        if not self.runs or self.plan.ready_after is None:
            return None
        assert self.started is not None
        return self.started + self.plan.ready_after


@dataclass(slots=True)
class PodRun:
    """One pod on its node. Times are seconds of a monotonic clock, `epoch` is the wall time of its 0."""

    uid: str
    plan: PodPlan
    began: float
    epoch: datetime
    host_ip: str
    pod_ip: str
    phase: str = "Pending"
    reason: str = ""
    containers: list[_Container] = field(default_factory=list)
    _since: dict[str, tuple[str, float]] = field(default_factory=dict)
    _now: float = 0.0

    def __post_init__(self) -> None:
        self.containers = self.containers or [_Container(plan) for plan in self.plan.containers]
        self._now = self.began

    @property
    def is_over(self) -> bool:
        """Whether all containers have ended for good."""
        return self.phase in ("Succeeded", "Failed")

    # --- time ------------------------------------------------------------------------------------

    def advance(self, now: float) -> float | None:
        """Move to a time; return the next time at which something changes by itself, None if nothing does."""
        while True:
            following = self._step(now)
            if following is None or following > now + _EARLY:
                self._now = now
                return following

    def _step(self, now: float) -> float | None:
        """Do what is due; return when to step again."""
        if self.is_over:
            return None
        if not self.plan.pulls:
            return self._deadline()
        first = self.began + self.plan.start_after
        if now + _EARLY < first:
            return _earliest(first, self._deadline())
        deadline = self._deadline()
        if deadline is not None and now + _EARLY >= deadline:
            self.stop(now, "DeadlineExceeded", 137)
            self.phase = "Failed"
            return None
        times = [deadline]
        at = first
        for container in self.containers:
            times.append(self._run(container, at, now))
            if container.plan.is_init and not container.plan.is_sidecar:
                if not self._succeeded(container):
                    break
                at = container.ended or at
        self._settle()
        if self.is_over:
            return None
        return _earliest(*times)

    def _run(self, container: _Container, at: float, now: float) -> float | None:
        """Start (at a time) or end one container if that is due; return when it changes next."""
        if container.started is None:
            container.started = at
        if container.ended is None:
            due = container.due()
            if due is None or due > now + _EARLY:
                ready = container.ready_at()
                return _earliest(due, ready if ready is not None and ready > now + _EARLY else None)
            container.ended, container.code = due, container.plan.exit_code
        if not self._restarts(container):
            return None
        again = container.ended + container.backoff
        if again > now + _EARLY:
            return again
        ran = container.ended - (container.started or 0.0)
        container.backoff = (
            BACKOFF
            if ran > _FORGIVEN_AFTER or not container.backoff
            else min(container.backoff * 2, LONGEST_BACKOFF)
        )
        container.last = self._terminated(container)
        container.restarts += 1
        container.started, container.ended = again, None
        return again

    def _restarts(self, container: _Container) -> bool:
        policy = self.plan.restart_policy
        if container.plan.is_init and not container.plan.is_sidecar:
            return container.code != 0 and policy != "Never"
        if container.plan.is_sidecar:
            return True
        return policy == "Always" or (policy == "OnFailure" and container.code != 0)

    @staticmethod
    def _succeeded(container: _Container) -> bool:
        return container.ended is not None and container.code == 0

    def _settle(self) -> None:
        """Work out the phase."""
        if any(
            c.plan.is_init and c.ended is not None and c.code and not self._restarts(c)
            for c in self.containers
        ):
            self.phase = "Failed"
            return
        main = [c for c in self.containers if not c.plan.is_init]
        if all(c.ended is not None and not self._restarts(c) for c in main):
            self.phase = "Failed" if any(c.code for c in main) else "Succeeded"
            for container in self.containers:
                if container.runs:
                    container.ended, container.code = max(c.ended or 0.0 for c in main), 0
        elif any(c.started is not None for c in main):
            self.phase = "Running"

    def stop(self, now: float, reason: str = "", code: int = 0) -> None:
        """End all containers for good."""
        for container in self.containers:
            if container.runs:
                container.ended, container.code = now, code
        self.phase, self.reason = "Failed" if code else "Succeeded", reason
        self._now = now

    def _deadline(self) -> float | None:
        return None if self.plan.active_deadline is None else self.began + self.plan.active_deadline

    # --- status ----------------------------------------------------------------------------------

    def status(self) -> Document:
        """Return the status at the time to which the run was moved, without PodScheduled."""
        init = [c for c in self.containers if c.plan.is_init]
        main = [c for c in self.containers if not c.plan.is_init]
        created = self._now + _EARLY >= self.began + self.plan.start_after
        initialized = all(c.runs if c.plan.is_sidecar else self._succeeded(c) for c in init) or self.is_over
        sidecars = [c for c in init if c.plan.is_sidecar]
        ready = created and not self.is_over and all(self._is_ready(c) for c in (*main, *sidecars))
        unready = "PodCompleted" if self.phase == "Succeeded" else "ContainersNotReady"
        if self.phase == "Failed":
            unready = "PodFailed"
        names = " ".join(c.plan.name for c in main if not self._is_ready(c))
        told = f"containers with unready status: [{names}]" if unready == "ContainersNotReady" else ""
        status: Document = {
            "phase": self.phase,
            "hostIP": self.host_ip,
            "hostIPs": [{"ip": self.host_ip}],
            "startTime": self._time(self.began),
            "conditions": [
                self._condition("PodReadyToStartContainers", created and not self.is_over),
                self._condition(
                    "Initialized",
                    initialized,
                    "" if initialized else "ContainersNotInitialized",
                    "" if initialized else _incomplete(init),
                ),
                self._condition("Ready", ready, "" if ready else unready, "" if ready else told),
                self._condition("ContainersReady", ready, "" if ready else unready, "" if ready else told),
            ],
            "containerStatuses": [self._container(c, initialized) for c in main],
        }
        if created:
            status |= {"podIP": self.pod_ip, "podIPs": [{"ip": self.pod_ip}]}
        if init:
            status["initContainerStatuses"] = [self._container(c, True) for c in init]
        if self.reason:
            status["reason"] = self.reason
            status["message"] = "Pod was active on the node longer than the specified deadline"
        return status

    def _is_ready(self, container: _Container) -> bool:
        at = container.ready_at()
        return at is not None and self._now + _EARLY >= at

    def _condition(self, type_: str, holds: bool, reason: str = "", message: str = "") -> Document:
        text = "True" if holds else "False"
        known = self._since.get(type_)
        if known is None or known[0] != text:
            known = self._since[type_] = (text, self._now)
        found: Document = {"type": type_, "status": text, "lastTransitionTime": self._time(known[1])}
        found |= {"reason": reason or None, "message": message or None}
        return found

    def _container(self, container: _Container, initialized: bool) -> Document:
        plan = container.plan
        found: Document = {
            "name": plan.name,
            "image": plan.image,
            "imageID": "",
            "ready": self._is_ready(container) or (plan.is_init and self._succeeded(container)),
            "started": container.runs,
            "restartCount": container.restarts,
            "state": self._state(container, initialized),
            "lastState": {"terminated": container.last} if container.last else {},
        }
        if container.started is not None:
            found["imageID"] = f"{plan.image}@sha256:{_digest(plan.image)}"
            found["containerID"] = self._id(container)
        return found

    def _state(self, container: _Container, initialized: bool) -> Document:
        if container.started is None:
            reason = "ContainerCreating" if initialized else "PodInitializing"
            if not self.plan.pulls:
                told = f'Back-off pulling image "{container.plan.image}"'
                return {"waiting": {"reason": "ImagePullBackOff", "message": told}}
            return {"waiting": {"reason": reason}}
        if container.ended is None:
            return {"running": {"startedAt": self._time(container.started)}}
        if self.is_over or not self._restarts(container):
            return {"terminated": self._terminated(container)}
        told = f"back-off {container.backoff:.0f}s restarting failed container={container.plan.name}"
        return {"waiting": {"reason": "CrashLoopBackOff", "message": told}}

    def _terminated(self, container: _Container) -> Document:
        return {
            "exitCode": container.code,
            "reason": "Error" if container.code else "Completed",
            "startedAt": self._time(container.started or 0.0),
            "finishedAt": self._time(container.ended or 0.0),
            "containerID": self._id(container),
        }

    def _id(self, container: _Container) -> str:
        return f"containerd://{_digest(f'{self.uid}/{container.plan.name}/{container.restarts}')}"

    def seconds(self, time: str) -> float:
        """Return a wall time on the clock of the run."""
        return (parse_time(time) - self.epoch).total_seconds()

    def _time(self, at: float) -> str:
        return format_time(self.epoch + timedelta(seconds=at))


def _earliest(*times: float | None) -> float | None:
    return min((time for time in times if time is not None), default=None)


def _incomplete(init: list[_Container]) -> str:
    names = " ".join(c.plan.name for c in init if not (c.ended is not None and c.code == 0))
    return f"containers with incomplete status: [{names}]"


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def resumed(run: PodRun, status: Document) -> PodRun:
    """Continue a run that an earlier kubelet had begun, from the status that it wrote."""
    known = {
        item.get("name"): item
        for item in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))
    }
    for container in run.containers:
        item = known.get(container.plan.name) or {}
        state = item.get("state") or {}
        container.restarts = int(item.get("restartCount") or 0)
        container.last = (item.get("lastState") or {}).get("terminated")
        container.backoff = BACKOFF if container.restarts else 0.0
        ended = state.get("terminated") or (container.last if "waiting" in state else None)
        begun = state.get("running") or ended
        if begun and begun.get("startedAt"):
            container.started = run.seconds(begun["startedAt"])
        if ended and ended.get("finishedAt"):
            container.ended = run.seconds(ended["finishedAt"])
            container.code = int(ended.get("exitCode") or 0)
    for item in status.get("conditions") or ():
        if item.get("lastTransitionTime"):
            at = run.seconds(item["lastTransitionTime"])
            run._since[item["type"]] = (item["status"], at)
    return run
