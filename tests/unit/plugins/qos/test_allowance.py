"""What best-effort pods may use, and the quota that follows: Koordinator's pinned examples."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordpy.agent.toolkit.suppression import suppress_milli
from koordpy_plugins.qos.cpusuppress.allowance import next_quota, step_limited

CORE = 100_000


@pytest.mark.parametrize(
    ("used", "threshold", "minimum", "expected"),
    [
        ((8.0, 0.0, 2.0), 70, None, 4000),  # node 12, LS 8, BE 2: the system has the rest
        ((8.0, 1.0, 1.0), 70, None, 4000),
        ((8.0, 0.0, 1.0), 70, None, 5000),
        ((8.0, 0.0, 0.0), 70, None, 6000),
        ((16.0, 0.0, 2.0), 70, None, -4000),
        ((16.0, 0.0, 2.0), 70, 10, 2000),
        ((8.0, 0.0, 2.0), 70, 10, 4000),
        ((0.0019, 0.0019, 0.0019), 65, None, 12_997),  # each amount is cut to whole milli-cores
    ],
)
def test_what_others_use_is_taken_from_the_threshold(
    used: tuple[float, float, float], threshold: int, minimum: int | None, expected: int
) -> None:
    assert suppress_milli(20_000, threshold, minimum, *used) == expected


def test_an_empty_node_gives_nothing() -> None:
    assert suppress_milli(0, 65, None, 0.0, 0.0, 0.0) == 0


@pytest.mark.parametrize(
    ("wanted_milli", "current", "expected"),
    [
        (20_000, 10 * CORE, 18 * CORE),  # growth is limited to a tenth of the node
        (20_000, 19 * CORE, 20 * CORE),
        (20_000, 24 * CORE, 20 * CORE),  # shrinking is not
        (20_000, 1_980_000, None),  # not worth a write
        (1, 80_000, 2000),  # the floor is always written
        (-5000, 80_000, 2000),
        (0, 2000, 2000),
        (20_000, -1, 20 * CORE),  # nothing limited before: no step
    ],
)
def test_the_quota_follows_in_steps(wanted_milli: int, current: int, expected: int | None) -> None:
    assert next_quota(wanted_milli, current, 80) == expected


@pytest.mark.parametrize(("milli", "quota"), [(3200, 320_000), (1200, 120_000)])
def test_the_quota_of_a_node_of_16_cores(milli: int, quota: int) -> None:
    assert next_quota(milli, -1, 16) == quota


@given(st.integers(-100_000, 1_000_000), st.integers(-1, 10**8), st.integers(1, 512))
def test_a_quota_is_never_below_the_floor_nor_above_the_step(milli: int, current: int, cores: int) -> None:
    quota = next_quota(milli, current, cores)
    if quota is not None:
        assert quota >= min(2000, current) if current >= 0 else quota >= 2000
        if current >= 0:
            assert quota <= max(current + cores * CORE // 10, 2000)


@pytest.mark.parametrize(
    ("cpus", "current", "processors", "expected"),
    [
        (10, 2, 16, 4),
        (3, 2, 16, 3),
        (4, 2, 16, 4),
        (2, 10, 16, 2),
        (8, 4, 8, 5),
        (5, 0, 80, 5),
        (9, 0, 80, 8),
    ],
)
def test_cpus_grow_by_a_tenth_of_the_node_and_shrink_at_once(
    cpus: int, current: int, processors: int, expected: int
) -> None:
    assert step_limited(cpus, current, processors) == expected
