"""Other plugins filter and score reservations: one at a time and all at once they get the same answers."""

from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from koordpy.api.core import Pod
from koordpy.api.reservation import Reservation
from koordpy.api.reserve_pod import new_reserve_pod
from koordpy.cluster.device_classes import DeviceClasses
from koordpy.scheduling.interface import Plugin, ReservationInfo
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.status import SUCCESS, Status
from koordpy.scheduling.toolkit.reservation_normalize import default_normalize
from koordpy_plugins.scheduling.reservation.attempt.matches import NodeMatch
from koordpy_plugins.scheduling.reservation.attempt.prepared import PREPARED, Prepared
from koordpy_plugins.scheduling.reservation.filter.node import NodeFilter
from tests.unit.scheduling.worlds import node, pod

from ..opinions import Opinion, all_at_once, one_by_one
from ..scenes import Scene, claimant, pending, reservation, user

AMOUNTS = ("0", "1", "2", "1500m", "3")
POLICIES = ("Aligned", "Restricted")


def a_crowd(rng: Random) -> list[Reservation | Pod]:
    """Reservations on three nodes, most of them for everybody, and pods in and beside them."""
    objects: list[Reservation | Pod] = []
    for i in range(rng.randrange(9)):
        where = f"n{rng.randrange(3)}"
        labels = {"scheduling.koordinator.sh/reservation-order": str(i)} if rng.random() < 0.1 else {}
        made = reservation(
            f"r{i}",
            where,
            rng.choice(AMOUNTS),
            owners=[{}] if rng.random() < 0.8 else [{"labelSelector": {"matchLabels": {"for": "others"}}}],
            allocatePolicy=rng.choice(POLICIES),
            allocateOnce=rng.random() < 0.2,
            labels=labels,
        )
        objects.append(made)
        if rng.random() < 0.4:
            objects.append(user(f"u{i}", f"r{i}", rng.choice(AMOUNTS), where))
    for i in range(rng.randrange(8)):
        running = pod(f"p{i}", rng.choice(AMOUNTS), "0", f"n{rng.randrange(3)}")
        running.metadata.labels = {"app": "a"}
        objects.append(running)
    return objects


def a_pod(rng: Random) -> Pod:
    return claimant("x", cpu=rng.choice((*AMOUNTS[:-1], "100u")), affinity=rng.choice((None, "{}")))


def a_reservation(rng: Random) -> Reservation:
    """One that takes over running pods."""
    policy: dict[str, Any] = {"enableMultiple": True} if rng.random() < 0.5 else {}
    labels = {"scheduling.koordinator.sh/pre-allocation-required": "true"} if rng.random() < 0.5 else {}
    return pending(
        "new",
        rng.choice(AMOUNTS[1:]),
        preAllocation=True,
        allocatePolicy="Restricted",
        preAllocationPolicy=policy,
        labels=labels,
        owners=[{"labelSelector": {"matchLabels": {"app": "a"}}}],
    )


def story(
    rng: Random, opinions: Sequence[Opinion], forms: Sequence[Callable[[Opinion], type[Plugin]]]
) -> Any:
    """Everything that results from an attempt, in a cluster where plugins of these forms have opinions."""
    nodes = [node(f"n{i}", cpu=rng.choice(("2", "4", "6")), pods="6") for i in range(3)]
    objects = a_crowd(rng)
    takes_over = rng.random() < 0.4
    wanted: Pod
    if takes_over:
        new = a_reservation(rng)
        objects.append(new)
        wanted = new_reserve_pod(new)
    else:
        wanted = a_pod(rng)
    others = [form(opinion) for form, opinion in zip(forms, opinions, strict=True)]
    scene = Scene(nodes, objects, others=others)
    state, outcome = scene.find(wanted)
    if not outcome.prefilter.is_success or outcome.error is not None:
        return outcome.prefilter, outcome.error
    results: list[Any] = [outcome.status(index) for index in range(len(outcome.nodes))]
    results.extend(sorted(opinion.restored.items()) for opinion in opinions)
    prepared = state.read(PREPARED)
    if len(outcome.kept):
        scores, status = scene.framework.run_score(state, wanted, outcome.kept)
        results += [status, None if scores is None else scores.total.tolist()]
    if prepared is not None:
        results += [
            [info.uid for info in prepared.nominated_reservations.infos],
            prepared.nominated_reservations.scores.tolist(),
        ]
        results.append([[pod.metadata.uid for pod in pods] for pods in prepared.nominated_pods.values()])
        results.append(
            sorted((name, [p.metadata.uid for p in pods]) for name, pods in prepared.selected.items())
        )
    for name in outcome.kept.names:
        fresh, _ = scene.find(wanted)
        results.append(scene.framework.nominate_reservation(fresh, wanted, name))
        chosen = scene.plugin.nominations.get(wanted, name)
        results.append(None if chosen is None else chosen.uid)
        scene.plugin.nominations.discard(wanted)
    return results


OPINIONS = st.builds(
    lambda salt, strict, fails: (f"A{salt}", strict, fails),
    st.integers(0, 10**6),
    st.sampled_from([2, 3, 5, 1000]),
    st.sampled_from([0, 0, 0, 4]),
)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), OPINIONS)
def test_both_forms_give_the_same_results(seed: int, first: tuple[str, int, int]) -> None:
    salt, strict, fails = first

    def results(*forms: Callable[[Opinion], type[Plugin]]) -> Any:
        opinions = [Opinion(salt, strict=strict, fails=fails), Opinion(f"B{seed}")]
        return story(Random(seed), opinions, forms)

    expected = results(one_by_one, one_by_one)
    assert results(all_at_once, all_at_once) == expected
    assert results(all_at_once, one_by_one) == expected


def refusal(opinions: Sequence[Opinion], pod: Pod, info: ReservationInfo, node_name: str) -> Status:
    return next(
        (found for each in opinions if (found := each.filter(pod, info, node_name)) != SUCCESS), SUCCESS
    )


def best(
    scene: Scene, prepared: Prepared, match: NodeMatch, wanted: Pod, opinions: Sequence[Opinion]
) -> ReservationInfo | None:
    """Choose among the reservations of a node as the rule has it, one by one."""
    if len(match.matched) == 1 and prepared.requirements.affinity is not None:
        return match.matched[0]
    state = scene.framework.new_state()
    state.write(PREPARED, prepared)
    left = [
        info
        for info in match.matched
        if scene.plugin.filter_nominate_reservation(state, wanted, info, match.name).is_success
        and all(each.nominate(wanted, info, match.name).is_success for each in opinions)
    ]
    ordered = [info for info in left if info.order is not None]
    if len(left) < 2 or ordered:
        return min(ordered, key=lambda info: info.order or 0, default=left[0] if left else None)
    totals = [scene.plugin.score_reservation(state, wanted, info, match.name) for info in left]
    for each in opinions:
        normalized = default_normalize([each.score(wanted, info, match.name) for info in left], reverse=True)
        totals = [total + more for total, more in zip(totals, normalized, strict=True)]
    return left[totals.index(max(totals))]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([2, 3, 5, 1000]))
def test_nodes_and_reservations_are_chosen_as_one_by_one(seed: int, strict: int) -> None:
    rng = Random(seed)
    nodes = [node(f"n{i}", cpu=rng.choice(("2", "4", "6")), pods="6") for i in range(3)]
    opinions = [Opinion(f"A{seed}", strict=strict), Opinion(f"B{seed}", strict=strict)]
    scene = Scene(nodes, a_crowd(rng), others=[all_at_once(each) for each in opinions])
    wanted = a_pod(rng)
    state, _ = scene.find(wanted)
    prepared = state.read(PREPARED)
    assert prepared is not None
    node_filter = NodeFilter(lambda _: False, scene.plugin.withheld, scene.cluster.shared(DeviceClasses))
    shown = scene.plugin.transform_nodes(state, wanted, scene.nodes)
    verdict = scene.plugin.filter_nodes(state, wanted, shown)
    assert scene.plugin.pre_score(state, wanted, shown).code.label in ("Success", "Skip")
    nominated = prepared.nominated_reservations
    for index in range(len(shown)):
        view = NodeInfo(shown, index)
        match = prepared.matches.get(view.row)
        if match is None:
            continue
        expected = node_filter.with_reservations(
            prepared,
            match,
            view,
            match.matched,
            partial(refusal, opinions, wanted, node_name=view.name),
            required=prepared.required,
            skip_node=False,
        )
        assert verdict.status(index) == expected
        assert nominated.get(view.row) is best(scene, prepared, match, wanted, opinions)
