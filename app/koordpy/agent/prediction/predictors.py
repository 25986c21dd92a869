"""What prod pods leave unused of their requests, and what they will use at most.

There are two estimates, from the models of the pods and from those of their priority classes and the system;
the smaller reclaimable amount and the larger peak of the two count.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final, Protocol

from prometheus_client import Gauge

from koordpy.api import extension, qos, resource_list
from koordpy.api import resource_amounts as amounts
from koordpy.api.core import Node, Pod
from koordpy.api.meta import parse_time
from koordpy.api.qos import PriorityClass
from koordpy.api.quantity import Format, Quantity
from koordpy.api.resource_list import Quantities
from koordpy.api.resource_names import CPU, MEMORY
from koordpy.api.resources import pod_requests
from koordpy.api.scheme import DecodeError

from .models import CLASSES, SYSTEM, Models, UnknownModelError, key_of_part

_CPU_SHARE: Final = 0.95
_MEMORY_SHARE: Final = 0.98
_RECLAIMED: Final = frozenset({PriorityClass.PROD, PriorityClass.NONE})
"""The classes whose unused requests are reclaimed."""

_LABELS: Final = ("node", "predictor", "resource", "unit")
RECLAIMABLE: Final = Gauge(
    "koordlet_node_predicted_resource_reclaimable", "Resources that can be reclaimed, as predicted.", _LABELS
)
PEAK: Final = Gauge("koordlet_node_predicted_resource_peak", "Peak usage, as predicted.", _LABELS)


class PredictionError(Exception):
    """A pod cannot be added, or there is no result."""


class Predictor(Protocol):
    """Estimates from the pods that were added. Resources are `cpu` and `memory`."""

    name: str

    def add(self, pod: Pod) -> None:
        """Take a pod into account. Raises PredictionError if nothing is known about it."""
        ...

    def reclaimable(self) -> Quantities:
        """Return what can be given to pods of lower priority. Raises PredictionError."""
        ...

    def peak(self) -> Quantities:
        """Return what will be used at most. Raises PredictionError."""
        ...


class PodPredictor:
    """Estimates from the models of pods; the requests of pods without one count as their usage."""

    name = "podReclaimablePredictor"

    def __init__(
        self, models: Models, node: Node | None, now: datetime, cold_start: timedelta, margin_percent: int
    ) -> None:
        self._models, self._node, self._now, self._cold_start = models, node, now, cold_start
        self._margin_percent = margin_percent
        self._uids: set[str] = set()
        self._used = _nothing()
        self._unused = _nothing()
        self._unpredicted = _nothing()

    def add(self, pod: Pod) -> None:
        """Take a pod into account. Raises PredictionError if it was added before or has no model."""
        if qos.priority_class(pod) not in _RECLAIMED:
            return
        if pod.metadata.uid in self._uids:
            raise PredictionError(f"pod {pod.metadata.key} already exist in the pod reclaimable predictor")
        self._uids.add(pod.metadata.uid)
        if self._is_young(pod):
            self._unpredicted = amounts.plus(self._unpredicted, _requests(pod))
            return
        if _is_ending(pod):
            return
        try:
            predicted = self._models.percentiles(pod.metadata.uid, _CPU_SHARE, _MEMORY_SHARE)
        except UnknownModelError as error:
            self._unpredicted = amounts.plus(self._unpredicted, _requests(pod))
            raise PredictionError(f"pod {pod.metadata.key}: {error}") from None
        peak = _with_margin(*predicted, self._margin_percent)
        self._used = amounts.plus(self._used, peak)
        requests = _requests(pod)
        cpu = requests.get(CPU, Quantity()).milli_value() - peak[CPU].milli_value()
        memory = requests.get(MEMORY, Quantity()).value() - peak[MEMORY].value()
        unused = {
            CPU: Quantity.of_milli(max(cpu, 0)),
            MEMORY: Quantity.of(max(memory, 0), Format.BINARY_SI),
        }
        self._unused = amounts.plus(self._unused, unused)

    def reclaimable(self) -> Quantities:
        """Return the unused requests, at most what the node has left. Raises PredictionError."""
        left = _left(_allocatable(self._node, self.name), self._used)
        return _recorded(RECLAIMABLE, self._node, self.name, _smallest(left, self._unused))

    def peak(self) -> Quantities:
        """Return the predicted usage of the pods."""
        return _recorded(PEAK, self._node, self.name, amounts.plus(self._used, self._unpredicted))

    def _is_young(self, pod: Pod) -> bool:
        created = pod.metadata.creation_timestamp
        if created is None:
            return False
        try:
            return self._now - parse_time(created) <= self._cold_start
        except ValueError:
            return False


class PriorityPredictor:
    """Estimates from the models of the priority classes and of the system."""

    name = "priorityReclaimablePredictor"

    def __init__(self, models: Models, node: Node | None, margin_percent: int) -> None:
        self._models, self._node, self._margin_percent = models, node, margin_percent
        self._requested = _nothing()

    def add(self, pod: Pod) -> None:
        """Take a pod's requests into account."""
        if qos.priority_class(pod) in _RECLAIMED and not _is_ending(pod):
            self._requested = amounts.plus(self._requested, _requests(pod))

    def reclaimable(self) -> Quantities:
        """Return the requests beyond the peak, at most what the node has left. Raises PredictionError."""
        allocatable = _allocatable(self._node, self.name)
        used = self._used()
        unused = {name: self._requested[name] - used[name] for name in used}
        left = _left(allocatable, used)
        return _recorded(
            RECLAIMABLE, self._node, self.name, _smallest(left, amounts.largest(unused, _nothing()))
        )

    def peak(self) -> Quantities:
        """Return the predicted usage of prod pods and the system. Raises PredictionError."""
        return _recorded(PEAK, self._node, self.name, self._used())

    def _used(self) -> Quantities:
        keys = [SYSTEM, *(key_of_part(each) for each in CLASSES if each in _RECLAIMED)]
        try:
            parts = [self._models.percentiles(key, _CPU_SHARE, _MEMORY_SHARE) for key in keys]
        except UnknownModelError as error:
            raise PredictionError(f"failed to get prediction, err: {error}") from None
        cpu = Quantity.of_milli(sum(cpu.milli_value() for cpu, _ in parts))
        memory = Quantity.of(sum(memory.value() for _, memory in parts), Format.BINARY_SI)
        return _with_margin(cpu, memory, self._margin_percent)


class ProdPredictor:
    """The smaller reclaimable amount and the larger peak of both estimates."""

    name = "minPredictor"

    def __init__(
        self, models: Models, node: Node | None, now: datetime, cold_start: timedelta, margin_percent: int
    ) -> None:
        self._node = node
        self.parts: tuple[Predictor, ...] = (
            PodPredictor(models, node, now, cold_start, margin_percent),
            PriorityPredictor(models, node, margin_percent),
        )

    def add(self, pod: Pod) -> None:
        """Take a pod into account; after an error of the first estimate not in the second one."""
        for part in self.parts:
            part.add(pod)

    def reclaimable(self) -> Quantities:
        """Return what can be reclaimed from prod pods. Raises PredictionError."""
        first, second = (part.reclaimable() for part in self.parts)
        return _recorded(RECLAIMABLE, self._node, self.name, _smallest(first, second))

    def peak(self) -> Quantities:
        """Return what prod pods will use at most. Raises PredictionError."""
        first, second = (part.peak() for part in self.parts)
        return _recorded(PEAK, self._node, self.name, amounts.largest(first, second))


def _nothing() -> Quantities:
    return {CPU: Quantity.of(0), MEMORY: Quantity.of(0, Format.BINARY_SI)}


def _requests(pod: Pod) -> Quantities:
    return {name: amount for name, amount in pod_requests(pod).items() if name in (CPU, MEMORY)}


def _is_ending(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None or pod.is_terminal


def _with_margin(cpu: Quantity, memory: Quantity, percent: int) -> Quantities:
    ratio = float(100 + percent) / 100
    return {
        CPU: Quantity.of_milli(int(float(cpu.milli_value()) * ratio)),
        MEMORY: Quantity.of(int(float(memory.value()) * ratio), Format.BINARY_SI),
    }


def _allocatable(node: Node | None, predictor: str) -> Quantities:
    if node is None:
        raise PredictionError(f"failed to get {predictor} result for node is nil")
    raw = node.metadata.annotations.get(extension.ANNOTATION_NODE_RAW_ALLOCATABLE)
    try:
        annotated = resource_list.parse(raw) if raw is not None else None
    except DecodeError:
        annotated = None
    if annotated is not None:
        return annotated
    if not node.status.allocatable:
        raise PredictionError("failed to get allocatable of node: it has none")
    return resource_list.from_wire(node.status.allocatable)


def _left(allocatable: Mapping[str, Quantity], used: Mapping[str, Quantity]) -> Quantities:
    zero = Quantity.of(0)
    left = {
        name: max(amount - used[name], zero) if name in used else amount
        for name, amount in allocatable.items()
    }
    return {**dict.fromkeys(used, zero), **left}


def _smallest(left: Mapping[str, Quantity], right: Mapping[str, Quantity]) -> Quantities:
    return {
        name: right[name] if amount >= right[name] else amount
        for name, amount in left.items()
        if name in right
    }


def _recorded(gauge: Gauge, node: Node | None, predictor: str, found: Quantities) -> Quantities:
    if node is not None:
        for name, unit in ((CPU, "core"), (MEMORY, "byte")):
            amount = found.get(name, Quantity())
            value = amount.milli_value() / 1000 if name == CPU else float(amount.value())
            gauge.labels(node.metadata.name, predictor, name, unit).set(value)
    return found
