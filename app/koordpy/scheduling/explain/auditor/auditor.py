"""Observes pods and attempts, and keeps the record of each workload.

A pod is followed while it has no node and one of our profiles would schedule it. Pods of gangs are in the
record of their group, which the plugin that coordinates gangs keeps through the `gang` methods.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from koordpy.api import qos
from koordpy.api.core import Pod
from koordpy.api.gang.membership import gang_name
from koordpy.lib.clock import Clock
from koordpy.scheduling.explain.decisions import ENDS, Decision, Step
from koordpy.scheduling.interface.auditor import Auditor, RecordType
from koordpy.scheduling.interface.diagnosis import existing_diagnosis

from .anomalies import Anomalies
from .metrics import AuditorMetrics
from .record import Outcome, Record
from .settings import AuditorSettings

MOST_GROUPS = 10_000
"""Groups of gangs that are recorded at a time: plugins name them, and have to end them."""


def metric_labels(settings: AuditorSettings) -> list[str]:
    """Return the names of the labels that all series have."""
    return ["priority", *(name for name, _ in settings.label_pairs)]


class WorkloadAuditor(Auditor):
    """The records of all workloads. `is_ours` returns whether a profile serves a scheduler name."""

    def __init__(
        self,
        settings: AuditorSettings,
        metrics: AuditorMetrics,
        clock: Clock,
        is_ours: Callable[[str], bool],
    ) -> None:
        self._pairs = settings.label_pairs
        self._metrics, self._clock, self._is_ours = metrics, clock, is_ours
        self._anomalies = Anomalies(settings, metrics)
        self._records: dict[str, Record] = {}
        self._groups: set[str] = set()

    def __len__(self) -> int:
        return len(self._records)

    @property
    def enabled(self) -> bool:
        """Return that something is recorded."""
        return True

    # --- pods ------------------------------------------------------------------------------------

    def pod_added(self, pod: Pod) -> None:
        """Start a record for a pod that waits for a node."""
        key = _key(pod)
        if not self._is_followed(pod) or key in self._records:
            return
        with self._timed("AddPod"):
            record = self._records[key] = Record(key, self._labels(pod), gated=_is_gated(pod))
            record.counts[RecordType.CREATE] = 1
            if record.gated:
                self._append(record, RecordType.GATED)

    def pod_changed(self, old: Pod, pod: Pod) -> None:
        """Record a change of gates; end the record of a pod that got a node or another scheduler."""
        if not self._is_followed(pod):
            self._end(_key(old), Outcome.SCHEDULED if pod.spec.node_name else Outcome.DELETED)
            return
        record = self._records.get(_key(pod))
        if record is None:
            self.pod_added(pod)
        elif record.gated != _is_gated(pod):
            with self._timed("RecordPodGating"):
                record.gated = not record.gated
                self._append(record, RecordType.GATED if record.gated else RecordType.ADMITTED)

    def pod_deleted(self, pod: Pod) -> None:
        """End the record of a pod that is gone."""
        self._end(_key(pod), Outcome.DELETED)

    def _is_followed(self, pod: Pod) -> bool:
        spec = pod.spec
        return not (spec.node_name or pod.is_terminal or gang_name(pod)) and self._is_ours(
            spec.scheduler_name
        )

    # --- attempts --------------------------------------------------------------------------------

    def __call__(self, decision: Decision, step: Step) -> None:
        """Process a step of an attempt."""
        pod = decision.pod
        if step == "begun":
            record = self._records.get(_key(pod))
            if record is not None:
                record.attempts += 1
        elif step == "bound":
            self.scheduled(pod, decision.node)
        elif step in ENDS:
            state = decision.state
            diagnosis = None if state is None else existing_diagnosis(state)
            if diagnosis is not None and diagnosis.is_root_cause_pod and diagnosis.audit_type:
                self.diagnosed(pod, diagnosis.questioned_key, diagnosis.audit_type, diagnosis.audit_message)
            self.failed(pod)

    def scheduled(self, pod: Pod, message: str = "") -> None:
        """Record that a pod has got a node."""
        record = self._records.get(_key(pod))
        if record is not None:
            with self._timed("RecordPodScheduleResult"):
                self._append(record, RecordType.SCHEDULED, message)
                self._end(record.key, Outcome.SCHEDULED)

    def failed(self, pod: Pod, message: str = "") -> None:
        """Record that an attempt failed, unless something more specific was recorded."""
        record = self._records.get(_key(pod))
        if record is not None and record.last_recorded_attempt < record.attempts:
            with self._timed("RecordPodScheduleResult"):
                record.last_recorded_attempt = record.attempts
                self._append(record, RecordType.SCHEDULE_FAILURE, message)

    def diagnosed(self, pod: Pod, questioned_key: str, type_: str, message: str) -> None:
        """Record what a plugin found out about a failed attempt of a pod, or of its gang."""
        record = self._records.get(questioned_key if gang_name(pod) else _key(pod))
        if record is not None:
            with self._timed("RecordDiagnosis"):
                self._learn_labels(record, pod)
                record.last_recorded_attempt = record.attempts
                self._append(record, RecordType(type_), message)

    def happened(self, pod: Pod, event: RecordType, message: str = "") -> None:
        """Note what happened to a pod that waits for a node; pods of gangs are left to the gang methods."""
        record = None if gang_name(pod) else self._records.get(_key(pod))
        if record is not None:
            with self._timed("RecordPod"):
                self._append(record, event, message)

    # --- gangs -----------------------------------------------------------------------------------

    def gang_added(self, group: str, min_member: int) -> None:
        """Start the record of a group of gangs, unless there is one or there are too many."""
        if group not in self._records and len(self._groups) < MOST_GROUPS:
            self._groups.add(group)
            with self._timed("AddGangGroup"):
                labels = [""] * (1 + len(self._pairs))
                record = self._records[group] = Record(group, labels, has_labels=False, min_member=min_member)
                record.counts[RecordType.CREATE] = 1

    def gang_deleted(self, group: str) -> None:
        """End the record of a group."""
        self._end(group, Outcome.GANG_DELETED)

    def gang_happened(self, group: str, pod: Pod | None, event: RecordType, message: str = "") -> None:
        """Record what happened to a group; `pod` is a member from which labels are taken."""
        record = self._records.get(group)
        if record is not None:
            with self._timed("RecordGangGroup"):
                self._learn_labels(record, pod)
                self._append(record, event, message)

    def gang_gated(self, group: str, pod: Pod | None, gated: bool) -> None:
        """Record whether a group is held back by gates."""
        record = self._records.get(group)
        if record is not None and record.gated != gated:
            with self._timed("RecordGangGating"):
                self._learn_labels(record, pod)
                record.gated = gated
                self._append(record, RecordType.GATED if gated else RecordType.ADMITTED)

    def gang_result(self, group: str, event: RecordType, message: str = "") -> None:
        """Record the outcome of an attempt of a whole group."""
        record = self._records.get(group)
        if record is not None:
            with self._timed("RecordGangScheduleResult"):
                self._append(record, event, message)
                if event is RecordType.SCHEDULED:
                    self._end(group, Outcome.GANG_SCHEDULED)

    # --- records ---------------------------------------------------------------------------------

    def _append(self, record: Record, event: RecordType, message: str = "") -> None:
        record.counts[event] += 1
        self._anomalies.judge(record, event, message, self._clock.monotonic())

    def _end(self, key: str, outcome: Outcome) -> None:
        self._groups.discard(key)
        record = self._records.pop(key, None)
        if record is not None:
            self._anomalies.end(record, outcome, self._clock.monotonic())

    def _learn_labels(self, record: Record, pod: Pod | None) -> None:
        if pod is not None and not record.has_labels:
            record.has_labels, record.labels = True, self._labels(pod)

    def _labels(self, pod: Pod) -> list[str]:
        own = (pod.metadata.labels.get(key, "") for _, key in self._pairs)
        return [str(qos.priority_class_raw(pod)), *own]

    @contextmanager
    def _timed(self, method: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self._metrics.method_duration.labels(method).observe(time.perf_counter() - began)


def _key(pod: Pod) -> str:
    return f"{pod.metadata.key}/{pod.metadata.uid}"


def _is_gated(pod: Pod) -> bool:
    return bool(pod.spec.scheduling_gates)
