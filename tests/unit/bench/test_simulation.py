"""The scenario of the production trace says what the trace says."""

from collections import Counter

import pytest

from bench.simulation import SAMPLES, SCENARIO
from koordpy.simulation import plan, scenario

FOLDER = SAMPLES / "openb"

needs_samples = pytest.mark.skipif(
    not FOLDER.is_dir(), reason=f"the trace is not at {FOLDER}; set KOORDPY_SAMPLES to the folder of samples"
)


def test_the_scenario_is_valid() -> None:
    told = scenario.load(SCENARIO)
    assert [setup.name for setup in told.schedulers] == ["load-aware"]


@needs_samples
def test_all_nodes_and_pods_of_the_trace_are_there() -> None:
    planned = plan.of(scenario.load(SCENARIO), FOLDER)
    assert len(planned.nodes) == 1523
    assert len(planned.pods) == 8152
    classes = Counter(pod.document["metadata"]["labels"]["trace-qos"] for pod in planned.pods)
    assert (classes["LS"], classes["BE"]) == (4647, 3398)
    gpus = [
        pod.document["spec"]["containers"][0]["resources"]["requests"].get("openb.io/gpu-milli", "0")
        for pod in planned.pods
    ]
    assert sum(0 < int(amount) <= 1000 for amount in gpus) == 6989
    assert max(pod.arrival + (pod.duration or 0) for pod in planned.pods) > 149 * 86400
