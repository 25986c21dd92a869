import pytest

from koordpy.agent.interface import MEMORY_QOS, PodPolicies
from koordpy.api.core import Pod
from koordpy.api.slo.pod_memory_qos import PodMemoryQOSConfig
from koordpy.testing.objects import pod

LITTLE, MUCH = (PodMemoryQOSConfig(min_limit_percent=percent) for percent in (10, 90))


def test_the_last_provider_by_name_that_has_a_policy_counts() -> None:
    policies = PodPolicies()
    policies.register(MEMORY_QOS, "b", lambda pod: MUCH)
    policies.register(MEMORY_QOS, "a", lambda pod: LITTLE)
    policies.register(MEMORY_QOS, "c", lambda pod: None)
    assert policies.policy(MEMORY_QOS, pod("p")) == MUCH


def test_a_provider_that_raises_is_logged_and_skipped(caplog: pytest.LogCaptureFixture) -> None:
    def fail(pod: Pod) -> PodMemoryQOSConfig:
        raise RuntimeError("no answer")

    policies = PodPolicies()
    policies.register(MEMORY_QOS, "a", lambda pod: LITTLE)
    policies.register(MEMORY_QOS, "b", fail)
    assert policies.policy(MEMORY_QOS, pod("p")) == LITTLE
    assert "provider b of MemoryQOS policies failed" in caplog.text


def test_a_name_is_registered_once_for_a_type() -> None:
    policies = PodPolicies()
    policies.register(MEMORY_QOS, "a", lambda pod: LITTLE)
    with pytest.raises(ValueError, match="named a already exists"):
        policies.register(MEMORY_QOS, "a", lambda pod: MUCH)


def test_without_providers_there_is_no_policy() -> None:
    policies = PodPolicies()
    assert not policies.has(MEMORY_QOS)
    assert policies.policy(MEMORY_QOS, pod("p")) is None
