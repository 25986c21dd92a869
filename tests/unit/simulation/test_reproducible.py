"""One seed gives one result: in every process, and however fast the machine is."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .scenarios import ALONE, write

SLOW = """
import itertools, time

clock = itertools.count(step=0.05)
time.perf_counter = time.monotonic = lambda: next(clock)  # all that is timed takes at least 50 ms
"""
SIMULATE = "from koordpy.cli import main; main()"

QUOTA: dict[str, Any] = {
    "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
    "kind": "ElasticQuota",
    "metadata": {
        "name": "research",
        "namespace": "koordinator-system",
        "labels": {"quota.scheduling.koordinator.sh/is-parent": "false"},
    },
    "spec": {"min": {"cpu": 8, "memory": "32Gi"}, "max": {"cpu": 12, "memory": "96Gi"}},
}
COLOCATION: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "slo-controller-config", "namespace": "koordinator-system"},
    "data": {
        "colocation-config": '{"enable": true}',
        "resource-threshold-config": '{"clusterStrategy": {"enable": true}}',
    },
}
PROFILES: dict[str, Any] = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "schedulerName": "default-scheduler",
            "plugins": {
                "multiPoint": {
                    "enabled": [
                        {"name": "Coscheduling"},
                        {"name": "ElasticQuota"},
                        {"name": "LoadAwareScheduling"},
                    ]
                }
            },
        }
    ],
}
DESCHEDULER: dict[str, Any] = {
    "apiVersion": "descheduler/v1alpha2",
    "kind": "DeschedulerConfiguration",
    "deschedulingInterval": "120s",
    "leaderElection": {"leaderElect": False},
    "profiles": [
        {
            "name": "koord-descheduler",
            "plugins": {
                "balance": {"enabled": [{"name": "LowNodeLoad"}]},
                "evict": {"disabled": [{"name": "*"}], "enabled": [{"name": "DefaultEvictor"}]},
                "filter": {"disabled": [{"name": "*"}], "enabled": [{"name": "DefaultEvictor"}]},
            },
            "pluginConfig": [
                {
                    "name": "LowNodeLoad",
                    "args": {
                        "lowThresholds": {"cpu": 55, "memory": 90},
                        "highThresholds": {"cpu": 65, "memory": 95},
                        "anomalyCondition": {"consecutiveAbnormalities": 1},
                    },
                },
            ],
        }
    ],
}


def template(**changes: Any) -> dict[str, Any]:
    """A pod of a CPU."""
    resources = {"requests": {"cpu": "1", "memory": "2Gi"}}
    return {"spec": {"containers": [{"name": "main", "image": "i", "resources": resources}]}, **changes}


WORKLOADS: list[dict[str, Any]] = [
    {
        "name": "web",
        "deployment": {
            "source": {
                "manifest": {
                    "apiVersion": "apps/v1",
                    "kind": "Deployment",
                    "metadata": {"name": "web"},
                    "spec": {
                        "replicas": 16,
                        "selector": {"matchLabels": {"app": "web"}},
                        "template": template(metadata={"labels": {"app": "web"}}),
                    },
                }
            },
            "scale": [{"at": "40m", "replicas": 20}],
        },
        "usage": {"cpu": {"factor": 0.8, "shape": "sine", "period": "1h", "noise": 0.3}},
    },
    {
        "name": "jobs",
        "pods": {
            "count": 24,
            "arrivals": {"every": "5m", "random": True},
            "duration": "20m",
            "spread": 0.4,
            "requests": {"cpu": "2", "memory": "4Gi"},
            "gang": {"size": 4, "every": "10s"},
        },
        "usage": {"cpu": {"factor": 0.9, "noise": 0.2}},
    },
    {
        "name": "research",
        "pods": {
            "count": 30,
            "arrivals": {"every": "1m", "random": True},
            "duration": "15m",
            "spread": 0.3,
            "template": template(metadata={"labels": {"quota.scheduling.koordinator.sh/name": "research"}}),
        },
        "usage": {"cpu": {"factor": 0.5, "noise": 0.2}},
    },
]


def simulated(path: Path, hashes: int, code: str) -> dict[str, Any]:
    """Run `koordpy simulate` in a process of its own and return what it prints, without how long it took."""
    done = subprocess.run(
        [sys.executable, "-c", code, "simulate", "-f", str(path), "--placements", "-o", "json"],
        env={**os.environ, "PYTHONHASHSEED": str(hashes)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    for result in found["results"]:
        assert result.pop("wallSeconds") > 0
        assert result.pop("speedUp") > 0
    return found


@pytest.mark.timeout(600)
def test_one_seed_gives_one_result_on_fast_and_slow_machines(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        seed=3,
        nodes=[
            {
                "name": "w",
                "count": 9,
                "allocatable": {"cpu": 8, "memory": "32Gi"},
                "systemUsage": {"cpu": "300m", "memory": "1Gi"},
            }
        ],
        objects=[{"manifest": QUOTA}],
        workloads=WORKLOADS,
        duration="1h",
        schedulers=[
            {**ALONE, "descheduler": {"manifest": DESCHEDULER}},
            {"name": "koordpy", "profiles": {"manifest": PROFILES}, "objects": [{"manifest": COLOCATION}]},
        ],
    )
    fast, slow = simulated(path, 1, SIMULATE), simulated(path, 2, SLOW + SIMULATE)
    assert fast == slow
    alone, koordpy = fast["results"]
    assert alone["pods"]["evicted"] > 0
    assert koordpy["gangs"]["whole"] > 0
    assert max(koordpy["series"]["batchCores"]) > 0
