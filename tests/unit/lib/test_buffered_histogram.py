from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from koordpy.lib.buffered_histogram import BufferedHistograms, BulkHistogram


def histogram(registry, *labels):
    return BulkHistogram("took", "Time.", list(labels), buckets=(1, 10), registry=registry)


def test_observations_are_shown_when_the_histogram_is_collected():
    registry = CollectorRegistry()
    buffered = BufferedHistograms(registry)
    took = histogram(registry, "verb")
    for value in (0.5, 5, 50):
        buffered.series(took, "bind").observe(value)
    buffered.series(took, "filter").observe(2)
    assert registry.get_sample_value("took_count", {"verb": "bind"}) == 3
    assert registry.get_sample_value("took_sum", {"verb": "bind"}) == 55.5
    assert registry.get_sample_value("took_bucket", {"verb": "bind", "le": "10.0"}) == 2
    assert registry.get_sample_value("took_count", {"verb": "filter"}) == 1
    assert b'took_count{verb="bind"} 3.0' in generate_latest(registry)


def test_nothing_is_counted_twice():
    registry = CollectorRegistry()
    buffered = BufferedHistograms(registry)
    took = histogram(registry)
    for number in range(1000):
        buffered.series(took).observe(number)
    assert registry.get_sample_value("took_count") == 1000
    buffered.series(took).observe(1)
    assert registry.get_sample_value("took_count") == 1001
    assert registry.get_sample_value("took_sum") == sum(range(1000)) + 1


def test_each_value_is_in_the_bucket_whose_bound_it_does_not_exceed():
    registry = CollectorRegistry()
    histogram(registry).observe_all((0, 1, 1.5, 10, 10.5, 1e9, 10))
    found = {
        bound: registry.get_sample_value("took_bucket", {"le": bound}) for bound in ("1.0", "10.0", "+Inf")
    }
    assert found == {"1.0": 2, "10.0": 5, "+Inf": 7}
    assert registry.get_sample_value("took_sum") == 1e9 + 33
