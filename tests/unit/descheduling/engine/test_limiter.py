from koordpy.api.core import Pod, PodSpec
from koordpy.api.meta import ObjectMeta
from koordpy.descheduling.engine.limiter import EvictionLimiter


def pod(node: str = "n", namespace: str = "a") -> Pod:
    return Pod(metadata=ObjectMeta(namespace=namespace, name="p"), spec=PodSpec(node_name=node))


def test_without_limits_everything_is_allowed() -> None:
    limiter = EvictionLimiter()
    for _ in range(100):
        assert limiter.allow_evict(pod())
        limiter.done(pod())
    assert limiter.total_evicted == 100


def test_each_limit_counts_its_own_key() -> None:
    limiter = EvictionLimiter(per_node=1, per_namespace=2)
    limiter.done(pod("n1"))
    assert limiter.refusal(pod("n1")) == "maxNoOfPodsToEvictPerNode=1 is reached on node n1"
    assert limiter.allow_evict(pod("n2"))
    limiter.done(pod("n2"))
    assert limiter.refusal(pod("n3")) == "maxNoOfPodsToEvictPerNamespace=2 is reached in namespace a"
    assert limiter.allow_evict(pod("n3", "b"))


def test_a_limit_of_zero_forbids_all() -> None:
    assert EvictionLimiter(total=0).refusal(pod()) == "maxNoOfPodsToEvictTotal=0 is reached"


def test_a_pod_without_a_node_has_no_node_limit() -> None:
    limiter = EvictionLimiter(per_node=0)
    assert limiter.allow_evict(pod(""))
    limiter.done(pod(""))
    assert limiter.total_evicted == 1


def test_exceeded_is_true_at_the_limit_only() -> None:
    limiter = EvictionLimiter(per_node=1, per_namespace=1)
    seen = []
    for _ in range(3):
        seen.append((limiter.node_limit_exceeded("n"), limiter.namespace_limit_exceeded("a")))
        limiter.done(pod())
    assert seen == [(False, False), (True, True), (False, False)]


def test_a_reset_forgets_all_counts() -> None:
    limiter = EvictionLimiter(per_node=1, per_namespace=1, total=1)
    limiter.done(pod())
    limiter.reset()
    assert limiter.allow_evict(pod())
    assert (limiter.node_evicted("n"), limiter.namespace_evicted("a"), limiter.total_evicted) == (0, 0, 0)
