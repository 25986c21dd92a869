"""The charged and the remaining resources of a quota, from one read of its ElasticQuota.

The account is in two annotations: `child-request` is the sum of the requests of the quota's pods, `admission`
the upper bound (`spec.max` where there is none). Source: Koordinator, `pkg/webhook/quotaevaluate`.
"""

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Final

from koordpy.api import extension, resource_list, resource_names
from koordpy.api.core import Pod
from koordpy.api.koordinator import ElasticQuota
from koordpy.api.meta import parse_time
from koordpy.api.quantity import Quantity
from koordpy.api.resource_amounts import plus
from koordpy.api.resource_list import Quantities
from koordpy.api.resources import pod_requests
from koordpy.api.scheme import DecodeError
from koordpy.lib import duration

_EVALUATED: Final = frozenset(
    (
        *(resource_names.CPU, resource_names.MEMORY, resource_names.EPHEMERAL_STORAGE),
        *("requests.cpu", "requests.memory", "requests.ephemeral-storage"),
        *(extension.BATCH_CPU, extension.BATCH_MEMORY, extension.MID_CPU, extension.MID_MEMORY),
        *(extension.GPU, extension.NVIDIA_GPU, extension.GPU_SHARED, extension.GPU_MEMORY_RATIO),
    )
)
"""A quota whose maximum names none of these admits every pod."""


class Refused(Exception):
    """A pod may not be charged to a quota; the text is the reason."""


class Account:
    """One read of a quota; only `charge` changes `used`."""

    def __init__(self, quota: ElasticQuota) -> None:
        annotations = quota.metadata.annotations
        maximum = resource_list.from_wire(quota.spec.max)
        self.key = quota.metadata.key
        self.names = frozenset(maximum)
        self.fault = ""
        """Why the account cannot be parsed; nothing is charged to it then."""
        self.used = self._read(annotations, extension.ANNOTATION_QUOTA_CHILD_REQUEST)
        self.limits = self._read(annotations, extension.ANNOTATION_QUOTA_ADMISSION) or maximum

    def _read(self, annotations: Mapping[str, str], name: str) -> Quantities:
        text = annotations.get(name, "")
        try:
            return (resource_list.parse(text) or {}) if text else {}
        except DecodeError as error:
            self.fault = self.fault or f"{self.key}: annotation {name}: {error}"
            return {}

    def charge(self, requests: Mapping[str, Quantity]) -> Quantities:
        """Add a pod's requests; return those that count, empty if none does. Raises Refused.

        A resource without an upper bound is not limited, and one that the maximum does not name does not
        count.
        """
        if self.fault:
            raise Refused(self.fault)
        if self.names.isdisjoint(_EVALUATED):
            return {}
        added = {
            name: amount for name, amount in requests.items() if name in self.names and not amount.is_zero
        }
        used = plus(self.used, added)
        over = sorted(name for name in added if name in self.limits and used[name] > self.limits[name])
        if over:
            raise Refused(
                f"exceeded quota: {self.key}, requested: {_text(added, over)}, "
                f"used: {_text(self.used, over)}, limited: {_text(self.limits, over)}"
            )
        if added:
            self.used = used
        return added

    def charge_again(self, added: Mapping[str, Quantity]) -> bool:
        """Add the sum that other pods were charged on an earlier read, if all of it fits.

        Amounts of resources that the maximum does not name are dropped.
        """
        if self.fault:
            return False
        used = {
            name: amount
            for name, amount in plus(self.used, added).items()
            if name in self.names and not amount.is_zero
        }
        if any(amount > self.limits[name] for name, amount in used.items() if name in self.limits):
            return False
        self.used = used
        return True

    def text(self) -> str:
        """Return the used resources in the annotation's format."""
        return resource_list.text(self.used)


def requests_of(pod: Pod, now: datetime) -> Quantities:
    """Return the requests that count for a pod: none once it ended, or should have. Raises QuantityError."""
    meta = pod.metadata
    if pod.is_terminal:
        return {}
    if meta.deletion_timestamp is not None and meta.deletion_grace_period_seconds is not None:
        grace = duration.of_seconds(meta.deletion_grace_period_seconds)
        with suppress(ValueError, OverflowError):  # after the year 9999, or before the first
            if now > parse_time(meta.deletion_timestamp) + grace:
                return {}
    return pod_requests(pod)


def _text(amounts: Mapping[str, Quantity], names: list[str]) -> str:
    return ",".join(f"{name}={amounts[name]}" for name in names if name in amounts)
