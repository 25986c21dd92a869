"""How often a batch is tried again, and how long it pauses in between."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordpy.api import config_model
from koordpy.lib import duration
from koordpy.lib.duration import MILLISECOND, SECOND
from koordpy_plugins.admission.quota_evaluate.args import EvaluateQuotaArgs
from koordpy_plugins.admission.quota_evaluate.batch import Jitter, Waiter, retries_for


def jitter(longest: int, total: int) -> Jitter:
    texts = {"retryJitter": duration.format(longest), "maxTotalJitter": duration.format(total)}
    return Jitter(config_model.read(EvaluateQuotaArgs, texts), random.Random(1))


@pytest.mark.parametrize(
    ("pods", "retries"), [(0, 3), (1, 3), (2, 4), (3, 4), (4, 5), (8, 6), (127, 9), (128, 10), (10**6, 10)]
)
def test_more_pods_are_worth_more_retries(pods: int, retries: int) -> None:
    assert retries_for(pods, 10) == retries


def test_retries_are_capped() -> None:
    assert retries_for(8, 5) == 5


@pytest.mark.parametrize("most", [-1, 0, 2, 3])
def test_three_retries_are_the_least(most: int) -> None:
    assert [retries_for(pods, most) for pods in (1, 2, 100)] == [3, 3, 3]


def test_the_last_write_does_not_pause() -> None:
    pauses = jitter(10 * MILLISECOND, SECOND)
    assert pauses.grant(0) == 0
    assert pauses.spent == 0


def test_pauses_end_with_their_budget() -> None:
    pauses = jitter(400 * MILLISECOND, SECOND)
    granted = [pauses.grant(3) for _ in range(4)]
    assert [pause > 0 for pause in granted] == [True, True, False, False]
    assert pauses.spent == 800 * MILLISECOND


@pytest.mark.parametrize(("longest", "total"), [(0, SECOND), (-1, SECOND), (10, 0), (10, -5), (10, 9)])
def test_without_jitter_or_budget_there_are_no_pauses(longest: int, total: int) -> None:
    assert jitter(longest, total).grant(3) == 0


@given(st.integers(1, 10 * SECOND))
def test_a_pause_is_half_to_all_of_the_jitter(longest: int) -> None:
    pause = jitter(longest, 100 * SECOND).grant(1)
    assert longest // 2 <= round(pause * SECOND) < max(longest, 2)


async def test_a_waiter_takes_the_first_decision() -> None:
    waiter = Waiter({})
    waiter.allow()
    waiter.refuse(ValueError("too late"))
    assert not waiter.is_open
    await waiter.wait()
    refused = Waiter({})
    refused.refuse(ValueError("no"))
    refused.allow()
    with pytest.raises(ValueError, match="no"):
        await refused.wait()
