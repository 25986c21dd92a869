"""The rules: what each event means for a workload, what is measured, and what raises an alert.

Source: Koordinator, `pkg/scheduler/frameworkext/workloadauditor/anomaly_detector.go`.
"""

import logging

from koordpy.scheduling.interface.auditor import RecordType

from .metrics import AuditorMetrics
from .record import Outcome, Record
from .settings import AuditorSettings

log = logging.getLogger(__name__)


class Anomalies:
    """Evaluates events, one after the other."""

    def __init__(self, settings: AuditorSettings, metrics: AuditorMetrics) -> None:
        self._settings, self._metrics = settings, metrics

    def judge(self, record: Record, event: RecordType, message: str, now: float) -> None:
        """Process an event that the record has already counted."""
        match event:
            case RecordType.PREEMPT_NOMINATED:
                self._nominated(record, event, message, now)
            case RecordType.PREEMPT_FAILURE | RecordType.SCHEDULE_FAILURE:
                if record.counts[RecordType.PREEMPT_NOMINATED] and not record.is_invalidated:
                    self._invalidate(record, event, message)
                self._rescheduled(record, event, message, now)
                self._end_cycle(record, event, message, now)
            case RecordType.SCHEDULED:
                self._rescheduled(record, event, message, now)
                self._end_cycle(record, event, message, now)
            case RecordType.VICTIMS_DELETED:
                self._end_cycle(record, event, message, now, completed=True)
                record.victims_deleted_at = now
            case RecordType.VICTIM_DELETING:
                record.retries += 1
            case RecordType.GATED:
                record.victims_deleted_at = None
        self._track_interval(record, event, message, now)

    def end(self, record: Record, outcome: Outcome, now: float) -> None:
        """Measure a finished record."""
        labels, metrics = record.labels, self._metrics
        if record.nominated_at is not None:
            metrics.cycle_interrupted.labels(*labels).observe(now - record.nominated_at)
            metrics.deleting_retries.labels(*labels).observe(record.retries)
        for event, count in record.counts.items():
            metrics.events_before_outcome.labels(*labels, event, str(outcome)).observe(count)

    def _nominated(self, record: Record, event: RecordType, message: str, now: float) -> None:
        self._end_cycle(record, event, message, now)
        count = record.counts[RecordType.PREEMPT_NOMINATED]
        if count > 1:
            self._metrics.repeated_preemptions.labels(*record.labels).inc()
            _alert(record, event, message, f"repeated preemption, count={count}")
            if not record.is_invalidated:
                self._invalidate(record, event, message)
        record.is_invalidated, record.nominated_at, record.retries = False, now, 0
        self._rescheduled(record, event, message, now)

    def _invalidate(self, record: Record, event: RecordType, message: str) -> None:
        record.is_invalidated = True
        self._metrics.invalidations.labels(*record.labels).inc()
        _alert(record, event, message, "preemption invalidated")

    def _rescheduled(self, record: Record, event: RecordType, message: str, now: float) -> None:
        if record.victims_deleted_at is None:
            return
        took, record.victims_deleted_at = now - record.victims_deleted_at, None
        self._metrics.victim_reschedule.labels(*record.labels).observe(took)
        most = self._settings.victim_reschedule_duration
        if took > most:
            _alert(record, event, message, f"slow reschedule after victim deletion, {took:g} s > {most:g} s")

    def _end_cycle(
        self, record: Record, event: RecordType, message: str, now: float, *, completed: bool = False
    ) -> None:
        if record.nominated_at is None:
            return
        took, record.nominated_at = now - record.nominated_at, None
        metrics, labels = self._metrics, record.labels
        series = metrics.to_victim_deleted if completed else metrics.cycle_interrupted
        series.labels(*labels).observe(took)
        metrics.deleting_retries.labels(*labels).observe(record.retries)
        tries, most = self._settings.victim_deleting_retries, self._settings.victim_deletion_duration
        if record.retries > tries:
            _alert(record, event, message, f"victims deleted slowly, {record.retries} retries > {tries}")
        if took > most:
            what = "slow victim deletion" if completed else "preemption interrupted, victims not all deleted"
            _alert(record, event, message, f"{what}, {took:g} s > {most:g} s")

    def _track_interval(self, record: Record, event: RecordType, message: str, now: float) -> None:
        if event is RecordType.VICTIMS_DELETED:
            return
        if event is RecordType.GATED:
            record.last_event_at = None
            return
        starts = event in (RecordType.CREATE, RecordType.ADMITTED, RecordType.GANG_SATISFIED)
        if not starts and record.last_event_at is not None:
            took, most = now - record.last_event_at, self._settings.scheduling_event_interval
            self._metrics.event_interval.labels(*record.labels).observe(took)
            if took > most:
                _alert(record, event, message, f"long interval between events, {took:g} s > {most:g} s")
        record.last_event_at = now


def _alert(record: Record, event: RecordType, message: str, what: str) -> None:
    log.warning(
        "workloadauditor: ALERT: %s, workload %s, labels %s, trigger=%s, message=%r",
        what,
        record.key,
        ",".join(record.labels),
        event,
        message,
    )
