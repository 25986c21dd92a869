from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from koordpy.http.siblings import join_admissions, join_metrics


def exposition(requests: int, *, with_gauge: bool = True) -> str:
    registry = CollectorRegistry()
    counted = Counter("requests", "How many, by path.", ["path"], registry=registry)
    counted.labels('/a b{"x"}').inc(requests)
    Histogram("seconds", "How long.", registry=registry, buckets=[1]).observe(0.5)
    if with_gauge:
        Gauge("load", "How much.", registry=registry).set(requests / 2)
    return generate_latest(registry).decode()


def samples(text: str) -> dict[tuple[str, str], float]:
    return {
        (sample.name, sample.labels.get("worker", "") + sample.labels.get("le", "")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_every_sample_tells_its_worker():
    joined = join_metrics({0: exposition(3), 1: exposition(5)})
    found = samples(joined)
    assert found["requests_total", "0"] == 3
    assert found["requests_total", "1"] == 5
    assert (found["load", "0"], found["load", "1"]) == (1.5, 2.5)
    assert found["seconds_bucket", "01.0"] == 1
    assert found["koordpy_worker_up", "0"] == found["koordpy_worker_up", "1"] == 1
    [family] = [f for f in text_string_to_metric_families(joined) if f.name == "requests"]
    assert [sample.labels["path"] for sample in family.samples if sample.name == "requests_total"] == [
        '/a b{"x"}'
    ] * 2


def test_families_stay_together_and_are_described_once():
    joined = join_metrics({0: exposition(3, with_gauge=False), 1: exposition(5)})
    names = [line.split()[2] for line in joined.splitlines() if line.startswith("# TYPE")]
    assert len(names) == len(set(names))
    assert "load" in names
    families = [family.name for family in text_string_to_metric_families(joined)]
    assert len(families) == len(set(families))


def test_a_worker_that_does_not_answer_is_down_and_missing():
    found = samples(join_metrics({0: exposition(3), 1: None}))
    assert found["koordpy_worker_up", "1"] == 0
    assert ("requests_total", "1") not in found


def test_admissions_are_joined_newest_first():
    joined = join_admissions({0: [{"time": "2"}, {"time": "1"}], 1: [{"time": "3"}]})
    assert joined == [{"time": "3", "worker": 1}, {"time": "2", "worker": 0}, {"time": "1", "worker": 0}]
