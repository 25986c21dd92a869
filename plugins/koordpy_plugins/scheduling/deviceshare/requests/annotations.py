"""The annotations by which a pod says what devices it wants, and which of them together.

Source: Koordinator, `apis/extension/device_share.go`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from koordpy.api import extension
from koordpy.api.label_selector import Selector, SelectorError, fast_of
from koordpy.api.meta import LabelSelector, LabelSelectorRequirement
from koordpy.api.quantity import Quantity, parse
from koordpy.lib import go_json

from ..allocation.requests import DeviceHint, JointAllocation

RESTRICTED: Final = "Restricted"

MOST_REQUIREMENTS: Final = 64
"""Labels and expressions of a selector, which is evaluated for each device of each node."""


class InvalidAnnotation(ValueError):
    """An annotation about devices is invalid; the message begins as Koordinator's."""


@dataclass(frozen=True, slots=True)
class PartitionSpec:
    """The partition of GPUs that is wanted."""

    restricted: bool = False
    ring_bus_bandwidth: Quantity | None = None


def allocate_hints(annotations: Mapping[str, str]) -> Mapping[str, DeviceHint]:
    """Return the hints by type of device; a null is no hint. Raises InvalidAnnotation."""
    text = annotations.get(extension.ANNOTATION_DEVICE_ALLOCATE_HINT)
    if text is None:
        return {}
    try:
        written = {
            type_: _written_hint(value, type_)
            for type_, value in (go_json.mapping(go_json.parse(text), "value") or {}).items()
            if value is not None
        }
    except ValueError as error:
        raise InvalidAnnotation(f"invalid DeviceAllocateHint annotation, err: {error}") from None
    return {type_: _hint(hint, type_) for type_, hint in written.items()}


def joint_allocation(annotations: Mapping[str, str]) -> JointAllocation | None:
    """Return which types a pod wants together, as it names them, perhaps none. Raises InvalidAnnotation."""
    text = annotations.get(extension.ANNOTATION_DEVICE_JOINT_ALLOCATE)
    if text is None:
        return None
    try:
        document = go_json.members(go_json.parse(text), "value")
        types = go_json.array(document.get("devicetypes"), "deviceTypes") or []
        return JointAllocation(
            tuple(go_json.text(type_, "deviceTypes") for type_ in types),
            go_json.text(document.get("requiredscope"), "requiredScope"),
        )
    except ValueError as error:
        raise InvalidAnnotation(f"invalid DeviceJointAllocate annotation, err: {error}") from None


def partition_spec(annotations: Mapping[str, str]) -> PartitionSpec | None:
    """Return the wanted partition of GPUs, None if the pod does not ask for one. Raises InvalidAnnotation."""
    text = annotations.get(extension.ANNOTATION_GPU_PARTITION_SPEC)
    if text is None:
        return None
    try:
        document = go_json.members(go_json.parse(text), "value")
        bandwidth = document.get("ringbusbandwidth")
        return PartitionSpec(
            go_json.text(document.get("allocatepolicy"), "allocatePolicy") == RESTRICTED,
            None if bandwidth is None else _quantity(bandwidth, "ringBusBandwidth"),
        )
    except ValueError as error:
        raise InvalidAnnotation(f"invalid GPUPartitionSpec annotation, err: {error}") from None


def _quantity(value: Any, place: str) -> Quantity:
    if type(value) is int or isinstance(value, str):
        return parse(str(value).strip())
    raise ValueError(f"{place}: expected a quantity")


# --- hints ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _WrittenHint:
    """A hint whose selectors are not checked yet: all of the annotation is read before the first of them."""

    selector: LabelSelector | None
    vf_selector: LabelSelector | None
    rest: tuple[str, str, str]
    """Strategy, exclusive policy and required topology scope."""


def _written_hint(value: Any, place: str) -> _WrittenHint:
    document = go_json.members(value, place)
    return _WrittenHint(
        _label_selector(document.get("selector"), f"{place}.selector"),
        _label_selector(document.get("vfselector"), f"{place}.vfSelector"),
        (
            go_json.text(document.get("allocatestrategy"), f"{place}.allocateStrategy"),
            go_json.text(document.get("exclusivepolicy"), f"{place}.exclusivePolicy"),
            go_json.text(document.get("requiredtopologyscope"), f"{place}.requiredTopologyScope"),
        ),
    )


def _hint(written: _WrittenHint, type_: str) -> DeviceHint:
    return DeviceHint(
        _selector(written.selector, "Selector", type_),
        _selector(written.vf_selector, "VFSelector", type_),
        *written.rest,
    )


def _selector(written: LabelSelector | None, field: str, type_: str) -> Selector | None:
    if written is None:
        return None
    try:
        return fast_of(written)
    except SelectorError as error:
        raise InvalidAnnotation(f"invalid {field} of DeviceHint, deviceType: {type_}, err: {error}") from None


def _label_selector(value: Any, place: str) -> LabelSelector | None:
    if value is None:
        return None
    document = go_json.members(value, place)
    labels = go_json.mapping(document.get("matchlabels"), f"{place}.matchLabels") or {}
    expressions = go_json.array(document.get("matchexpressions"), f"{place}.matchExpressions") or []
    if len(labels) + len(expressions) > MOST_REQUIREMENTS:
        raise ValueError(f"{place}: more than {MOST_REQUIREMENTS} requirements")
    return LabelSelector(
        match_labels={key: go_json.text(label, f"{place}.matchLabels") for key, label in labels.items()},
        match_expressions=[_expression(item, f"{place}.matchExpressions") for item in expressions],
    )


def _expression(value: Any, place: str) -> LabelSelectorRequirement:
    document = go_json.members(value, place)
    return LabelSelectorRequirement(
        key=go_json.text(document.get("key"), f"{place}.key"),
        operator=go_json.text(document.get("operator"), f"{place}.operator"),
        values=[
            go_json.text(item, f"{place}.values")
            for item in go_json.array(document.get("values"), f"{place}.values") or []
        ],
    )
