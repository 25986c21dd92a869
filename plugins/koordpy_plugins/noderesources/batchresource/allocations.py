"""Batch resources that other schedulers (Hadoop YARN, say) have allocated, and what there was before.

Source: Koordinator, `apis/slo/v1alpha1/node.go`.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import msgspec

from koordpy.api import extension, resource_list
from koordpy.api.decoding import DecodeError
from koordpy.api.qos import PriorityClass
from koordpy.api.quantity import Quantity, from_wire
from koordpy.api.slo import reading
from koordpy.api.slo.rules import WireQuantity
from koordpy.controllers.noderesource.interface import PluginError

_ORIGIN = extension.ANNOTATION_ORIGIN_EXTENDED_ALLOCATABLE
_ALLOCATIONS = extension.ANNOTATION_THIRD_PARTY_ALLOCATIONS
_OWN: Final = re.compile(
    rf'{{"resources":{{"{extension.BATCH_CPU}":"[^"\\]*","{extension.BATCH_MEMORY}":"[^"\\]*"}}}}'
)
"""The annotation as it is written here, with nothing of others in it."""


class _Origin(msgspec.Struct):
    resources: dict[str, WireQuantity] = {}


class _Allocation(msgspec.Struct):
    name: str = ""
    priority: str = ""
    resources: dict[str, WireQuantity] = {}


class _Allocations(msgspec.Struct):
    allocations: list[_Allocation] = []


def record_origin(annotations: dict[str, str], amounts: Mapping[str, Quantity]) -> None:
    """Record batch resources in the annotation of a node; other resources in it stay."""
    text, written = annotations.get(_ORIGIN), _text(amounts)
    if text is not None and not _OWN.fullmatch(text):
        known: dict[str, Quantity] = {}
        with suppress(DecodeError, ValueError):
            known = resource_list.from_wire(reading.read(_Origin, reading.parse(text)).resources)
        written = _text({**known, **amounts})
    annotations[_ORIGIN] = written


def _text(amounts: Mapping[str, Quantity]) -> str:
    return f'{{"resources":{resource_list.text(amounts)}}}'


def by_third_parties(annotations: Mapping[str, str]) -> dict[str, Quantity] | None:
    """Return what other schedulers have allocated to batch workloads, None without the annotation.

    Raises PluginError if it cannot be read.
    """
    text = annotations.get(_ALLOCATIONS)
    if text is None:
        return None
    try:
        read = reading.read(_Allocations, reading.parse(text))
        total: dict[str, Quantity] = {}
        for allocation in read.allocations:
            if allocation.priority != PriorityClass.BATCH:
                continue
            for name, amount in allocation.resources.items():
                known = total.get(name)
                total[name] = from_wire(amount) if known is None else known + from_wire(amount)
    except (DecodeError, ValueError) as error:
        raise PluginError(f"annotation {_ALLOCATIONS}: {error}") from None
    return total
