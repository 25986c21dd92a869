import resource

import pytest

from koordpy.agent.toolkit import file_limit


@pytest.fixture
def small_limit():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(before[0], 1024), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_limit_is_raised_as_far_as_allowed(small_limit: None) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    expected = file_limit.WANTED if hard == resource.RLIM_INFINITY else min(hard, file_limit.WANTED)
    assert file_limit.raised() == max(expected, 1024)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (file_limit.raised(), hard)
