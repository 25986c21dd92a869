"""Peak prediction: `koordpy.agent.prediction`, with usage that the vectors give instead of measured one."""

import json
import tempfile
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from koordpy.agent.interface import Aggregation, FlagSet, MetricError, PodMeta
from koordpy.agent.prediction.histogram import nanoseconds, time_of
from koordpy.agent.prediction.predictors import PredictionError
from koordpy.agent.prediction.service import PredictServer
from koordpy.api.core import Node, Pod
from koordpy.api.scheme import decode

SECONDS = {
    "coldStartSeconds": "prediction-cold-start-duration",
    "cpuHalfLifeSeconds": "prediction-cpu-histogram-decay-halflife",
    "memoryHalfLifeSeconds": "prediction-memory-histogram-decay-halflife",
    "modelExpirationSeconds": "prediction-model-expiration-duration",
    "modelCheckpointIntervalSeconds": "prediction-model-checkpoint-interval",
}
NUMBERS = {
    "safetyMarginPercent": "prediction-safety-margin-percent",
    "modelCheckpointMaxPerStep": "prediction-model-checkpoint-max-per-step",
}
SHARES = {"p60": 0.6, "p90": 0.9, "p95": 0.95, "p98": 0.98, "max": 1.0}


class Inputs:
    """The states and the metrics of a step."""

    def __init__(self, now: int) -> None:
        self.now = now
        self.listed: list[Pod] = []
        self.known_node: Node | None = None
        self.usage: dict[str, dict[str, float]] = {}
        self.node_usage: dict[str, float] = {}

    def pods(self) -> list[PodMeta]:
        return [PodMeta(pod, "") for pod in self.listed]

    def node(self) -> Node | None:
        return self.known_node

    def query(self, kind, aggregation, start, end, properties=None) -> float:
        assert aggregation is Aggregation.P90
        level, resource, _ = kind.split("_")
        found = self.node_usage if level == "node" else self.usage.get(properties["pod_uid"], {})
        if resource not in found:
            raise MetricError("no sample")
        return found[resource]


def flags_of(config: dict[str, int], folder: str) -> FlagSet:
    flags = FlagSet()
    PredictServer.init_flags(flags)
    flags.set("prediction-checkpoint-filepath", folder)
    for field, name in SECONDS.items():
        flags.set(name, timedelta(seconds=config[field]))
    for field, name in NUMBERS.items():
        flags.set(name, config[field])
    return flags


def amounts(found) -> dict[str, int]:
    return {name: amount.milli_value() if name == "cpu" else amount.value() for name, amount in found.items()}


def result(ask) -> dict[str, int] | None:
    try:
        return amounts(ask())
    except PredictionError:
        return None


def run(case: dict[str, Any], tag: str | None) -> Any:
    inputs: Any = Inputs(start_of(case["start"]))
    steps = []
    with tempfile.TemporaryDirectory() as folder:
        flags = flags_of(case["config"], folder)
        server = PredictServer(inputs, inputs, flags, lambda: inputs.now)
        for step in case["steps"]:
            inputs.now += round(step.get("after", 0) * 10**9)
            answer: dict[str, Any] = {}
            entries = [case["pods"][index] for index in step.get("pods") or []]
            inputs.listed = [aged(entry, time_of(inputs.now)) for entry in entries]
            inputs.known_node = decode(Node, step["node"]) if step.get("node") else None
            if step["op"] == "train":
                inputs.usage = step.get("podMetrics") or {}
                inputs.node_usage = step.get("nodeMetric") or {}
                server.train()
            elif step["op"] == "gc":
                server.expire()
                answer["files"] = files(folder)
            elif step["op"] == "checkpoint":
                saved = server.save()
                answer["saved"] = {key: json.loads((Path(folder) / key).read_text()) for key in saved}
                answer["files"] = files(folder)
            elif step["op"] == "restart":
                for name, content in (step.get("files") or {}).items():
                    (Path(folder) / name).write_text(content)
                server = PredictServer(inputs, inputs, flags, lambda: inputs.now)
                answer["unknown"] = server.restore()
                answer["files"] = files(folder)
            else:
                answer = predicted(server, inputs)
            if step["op"] not in ("predict", "checkpoint"):
                answer["models"] = sorted(server.models.by_key)
            steps.append(answer)
    return {"steps": steps}


def start_of(text: str) -> int:
    whole, _, fraction = text.removesuffix("Z").partition(".")
    return nanoseconds(datetime.fromisoformat(f"{whole}+00:00")) + int(f"{fraction:0<9}")


def aged(entry: dict[str, Any], now: datetime) -> Pod:
    # The clock of the Go code moved on after a pod was made: an age of 0 is above 0.
    created = now - timedelta(seconds=entry["ageSeconds"], milliseconds=1)
    metadata = {**entry["pod"]["metadata"], "creationTimestamp": created.isoformat()}
    return decode(Pod, {**entry["pod"], "metadata": metadata})


def files(folder: str) -> list[str]:
    return sorted(path.name for path in Path(folder).iterdir())


def predicted(server: PredictServer, inputs: Inputs) -> dict[str, Any]:
    predictor = server.prod_predictor(inputs.known_node)
    errors = []
    for pod in inputs.listed:
        try:
            predictor.add(pod)
            errors.append(False)
        except PredictionError:
            errors.append(True)
    return {
        "addErrors": errors,
        "reclaimable": result(predictor.reclaimable),
        "peak": result(predictor.peak),
        "sub": {
            part.name: {"reclaimable": result(part.reclaimable), "peak": result(part.peak)}
            for part in predictor.parts
        },
        "predictions": {
            key: {
                name: [cpu.milli_value(), memory.value()]
                for name, share in SHARES.items()
                for cpu, memory in [server.models.percentiles(key, share, share)]
            }
            for key in server.models.by_key
        },
    }


def same(ours: Any, expected: Any, case: dict[str, Any]) -> bool:
    return len(ours["steps"]) == len(expected["steps"]) and all(
        alike(mine, wanted) for mine, wanted in zip(ours["steps"], expected["steps"], strict=True)
    )


def alike(ours: Any, expected: Any, field: str = "") -> bool:
    if isinstance(ours, dict) and isinstance(expected, dict):
        return ours.keys() == expected.keys() and all(
            alike(ours[key], expected[key], field if field == "bucketWeights" else key) for key in ours
        )
    if field == "bucketWeights":
        return abs(ours - expected) <= 1
    if field == "totalWeight":
        return abs(ours - expected) <= 1e-9 * abs(expected)
    return bool(ours == expected)
