"""What pods and callers write does not decide how much the caches of the vocabulary hold."""

import json
from collections.abc import Callable

import pytest

from koordpy.api import (
    extension,
    field_selector,
    label_selector,
    node_affinity,
    quantity,
    reservation_affinity,
)
from koordpy.api.core import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodSpec,
    PreferredSchedulingTerm,
)
from koordpy.api.meta import LabelSelector
from koordpy.api.reservation import ReservationOwner
from koordpy.api.reservation_owners import owner_matchers
from koordpy.lib import byte_budget

MOST = 16 << 20
"""Bytes; more than the budget of any of these caches."""


def terms(seed: int) -> list[NodeSelectorTerm]:
    return [
        NodeSelectorTerm(match_expressions=[NodeSelectorRequirement(f"key-{seed}-{number}", "In", ["v"])])
        for number in range(400)
    ]


def required(seed: int) -> object:
    affinity = NodeAffinity(required_during_scheduling_ignored_during_execution=NodeSelector(terms(seed)))
    return node_affinity.required(PodSpec(affinity=Affinity(node_affinity=affinity)))


def preferred(seed: int) -> object:
    wanted = [PreferredSchedulingTerm(weight=1, preference=term) for term in terms(seed)]
    affinity = NodeAffinity(preferred_during_scheduling_ignored_during_execution=wanted)
    return node_affinity.preferred(PodSpec(affinity=Affinity(node_affinity=affinity)))


def labels(seed: int) -> dict[str, str]:
    return {f"key-{seed}-{number}": "value" for number in range(400)}


def annotation(seed: int) -> object:
    text = json.dumps({"reservationSelector": {"a": str(seed), "b": "x" * 1000}})
    return reservation_affinity.affinity_of({extension.ANNOTATION_RESERVATION_AFFINITY: text})


def owners(seed: int) -> object:
    return owner_matchers([ReservationOwner(label_selector=LabelSelector(match_labels=labels(seed)))])


@pytest.mark.parametrize(
    ("cache", "use"),
    [
        ("node_affinity", required),
        ("preferred_node_affinity", preferred),
        ("label_selectors", lambda seed: label_selector.of(LabelSelector(match_labels=labels(seed)))),
        ("selector_texts", lambda seed: label_selector.parse(",".join(labels(seed)))),
        ("field_selectors", lambda seed: field_selector.parse(f"metadata.name={'x' * 20_000}{seed}")),
        ("reservation_affinity", annotation),
        ("reservation_owners", owners),
        ("quantity_values", lambda seed: quantity.value(f"{'0' * 3_900}{seed}")),
    ],
)
def test_a_cache_holds_only_its_budget(cache: str, use: Callable[[int], object]) -> None:
    for seed in range(300):
        use(seed)
    used = byte_budget.usage()[cache]
    assert used.held <= used.limit <= MOST
