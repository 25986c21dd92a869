"""Scenarios for tests: small ones, as documents that a test changes."""

from pathlib import Path
from typing import Any

import yaml

from koordpy.simulation import scenario
from koordpy.simulation.scenario import Scenario

ALONE = {"name": "alone", "koordpy": False, "webhooks": False, "controllers": []}


def document(**changes: Any) -> dict[str, Any]:
    """A scenario of three nodes and ten pods, with other fields on top of it."""
    return {
        "apiVersion": "simulation.koordpy.dev/v1alpha1",
        "kind": "Scenario",
        "name": "small",
        "nodes": [{"name": "w", "count": 3, "allocatable": {"cpu": 4, "memory": "8Gi"}}],
        "workloads": [
            {
                "name": "web",
                "pods": {
                    "count": 10,
                    "arrivals": {"every": "10s"},
                    "duration": "10m",
                    "requests": {"cpu": "500m", "memory": "1Gi"},
                },
            }
        ],
        "schedulers": [ALONE],
        **changes,
    }


def write(folder: Path, **changes: Any) -> Path:
    """The path of a scenario file."""
    path = folder / "scenario.yaml"
    path.write_text(yaml.safe_dump(document(**changes), sort_keys=False))
    return path


def load(folder: Path, **changes: Any) -> Scenario:
    """A scenario as it is read."""
    return scenario.load(write(folder, **changes))
