"""Pods that preempt within their quotas, one after the other: it ends, and no pod is evicted twice."""

from collections import Counter
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from .test_quota_preemption import EXACT, Stage, of, quota


@given(st.randoms(use_true_random=False), st.integers(1, 3), st.integers(1, 8))
@settings(max_examples=30, deadline=None)
def test_pods_of_several_quotas_that_preempt_each_other_come_to_an_end(
    rng: Random, quotas: int, pods: int
) -> None:
    """Victims come back as new pods, as their controllers would have it."""
    names = [f"q{number}" for number in range(quotas)]
    stage = Stage(quotas=(*(quota(name, "3") for name in names), quota("a", "4")), **EXACT)
    waiting = [
        of(rng.choice(names), f"p{number}", "1", priority=rng.randint(1, 4), labels={"round": "0"})
        for number in range(pods)
    ]
    evicted: Counter[str] = Counter()
    attempts = 0
    while waiting and attempts < 100 * pods:
        attempts += 1
        preemptor = waiting.pop(rng.randrange(len(waiting)))
        node_names = ["n1", "n2"]
        if stage.has_room(preemptor):
            stage.bind(preemptor, rng.choice(node_names))
            continue
        found = stage.found(preemptor)
        if not found:
            continue  # it waits, and nothing that others do makes it more important
        name = min(found)
        for victim in found[name]:
            gone = stage.evict(victim)
            evicted[gone.metadata.uid] += 1
            waiting.append(stage.again(gone))
        stage.bind(preemptor, name)
    assert attempts < 100 * pods
    assert set(evicted.values()) <= {1}
