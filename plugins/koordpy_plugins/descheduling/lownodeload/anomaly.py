"""Anomaly detection: one detector per node counts consecutive marks.

A node that is over its thresholds for more than A consecutive cycles becomes abnormal; after a timeout, or
after more than N consecutive normal marks, it is normal again. Detectors are kept in memory only.
Times are nanoseconds since the epoch. Source: Koordinator, `pkg/descheduler/utils/anomaly`.
"""

from collections.abc import Callable

from koordpy.lib import duration

from .args import Anomaly

DEFAULT_TIMEOUT = duration.MINUTE


class Detector:
    """The consecutive marks and the state of one node."""

    def __init__(self, anomaly: Anomaly) -> None:
        self._timeout = anomaly.timeout if anomaly.timeout > 0 else DEFAULT_TIMEOUT
        self._abnormalities = anomaly.consecutive_abnormalities
        self._normalities = anomaly.consecutive_normalities
        self.is_abnormal = False
        self.normal_streak = 0
        self.abnormal_streak = 0
        self._expires = 0

    def mark_abnormal(self, now: int) -> bool:
        """Count an abnormal mark; return whether the node is abnormal now."""
        self._refresh(now)
        self.abnormal_streak += 1
        self.normal_streak = 0
        if not self.is_abnormal and self.abnormal_streak > self._abnormalities:
            self._set(True, now)
        self._refresh(now)
        return self.is_abnormal

    def mark_normal(self, now: int) -> None:
        """Count a normal mark."""
        self._refresh(now)
        self.normal_streak += 1
        self.abnormal_streak = 0
        if self.is_abnormal and self.normal_streak > self._normalities:
            self._set(False, now)
        self._refresh(now)

    def reset(self) -> None:
        """Reset the node to normal. The counts of a node that is normal already stay."""
        self._set(False, 0)

    def _refresh(self, now: int) -> None:
        if self.is_abnormal and (self._expires < now or self.normal_streak > self._normalities):
            self._set(False, now)

    def _set(self, is_abnormal: bool, now: int) -> None:
        if is_abnormal == self.is_abnormal:
            return
        self.is_abnormal = is_abnormal
        self.normal_streak = self.abnormal_streak = 0
        self._expires = now + self._timeout if is_abnormal else 0


class DetectorCache:
    """Detectors by node name; one unused for `ttl` nanoseconds expires (0 or less: never)."""

    def __init__(self, ttl: int, now: Callable[[], int]) -> None:
        self._ttl, self._now = ttl, now
        self._detectors: dict[str, tuple[Detector, int]] = {}

    def detect(self, node_name: str, anomaly: Anomaly) -> bool:
        """Count an abnormal mark of a node; return whether it is abnormal.

        `anomaly` takes effect when the detector is created and does not change later.
        """
        now = self._now()
        detector = self._get(node_name, now) or Detector(anomaly)
        is_abnormal = detector.mark_abnormal(now)
        self._detectors[node_name] = detector, now + self._ttl
        return is_abnormal

    def mark_normal(self, node_name: str) -> None:
        """Count a normal mark of a node that has a detector."""
        now = self._now()
        if detector := self._get(node_name, now):
            detector.mark_normal(now)

    def reset(self, node_name: str) -> None:
        """Reset a node that has a detector to normal."""
        if detector := self._get(node_name, self._now()):
            detector.reset()

    def drop_expired(self) -> None:
        """Remove expired detectors."""
        now = self._now()
        for name in [name for name in self._detectors if self._get(name, now) is None]:
            del self._detectors[name]

    def __len__(self) -> int:
        return len(self._detectors)

    def _get(self, node_name: str, now: int) -> Detector | None:
        detector, expires = self._detectors.get(node_name, (None, 0))
        return None if detector is None or (self._ttl > 0 and now > expires) else detector
