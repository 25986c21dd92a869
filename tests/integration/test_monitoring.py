"""Alerts and dashboard of `deploy/monitoring`: their expressions are about metrics that exist."""

import asyncio
import importlib
import json
import pkgutil
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families

import koordpy.compose.parts
import koordpy_plugins
from tests.integration.service.stage import pod_document, review_of, serving

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "monitoring"

TARGET_LABELS = {"namespace", "pod", "container", "job", "instance"}
"""What Prometheus adds to every sample of a pod."""

Document = dict[str, Any]


def rules() -> list[Document]:
    document = yaml.safe_load((FOLDER / "alerts.yaml").read_text())
    return [rule for group in document["groups"] for rule in group["rules"]]


def panels() -> list[Document]:
    found: list[Document] = json.loads((FOLDER / "grafana-dashboard.json").read_text())["panels"]
    return found


def expressions() -> Iterator[tuple[str, str]]:
    for rule in rules():
        yield rule["alert"], rule["expr"]
    for panel in panels():
        for target in panel.get("targets", []):
            yield f"{panel['title']} {target['refId']}", target["expr"]


def children(expression: Any) -> Iterator[Any]:
    """Yield the parts of an expression."""
    for name in ("lhs", "rhs", "expr", "param", "vector_selector"):
        part = getattr(expression, name, None)
        if part is not None:
            yield part
    yield from getattr(expression, "args", None) or ()


def nodes(expression: Any) -> Iterator[Any]:
    yield expression
    for part in children(expression):
        yield from nodes(part)


def grouping(node: Any) -> list[str]:
    """Return the labels by which a node aggregates."""
    modifier = getattr(node, "modifier", None)
    return list(getattr(modifier, "labels", None) or ()) if "Aggregate" in type(node).__name__ else []


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The labels of every sample that a running process exports, by its name.

    The parts of workers and agents are loaded too; what they have not counted yet has the labels of its kind.
    """
    for package in (koordpy.compose.parts, koordpy_plugins):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    text = asyncio.run(metrics(tmp_path_factory.mktemp("process")))
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    for name, collector in REGISTRY._names_to_collectors.items():
        labels = set(labels_of(collector, name))
        if family_of(name) in text:
            bucket = {"le"} if name.endswith("_bucket") else set[str]()
            found.setdefault(name, labels | bucket)
    return found


def labels_of(collector: Any, name: str) -> Iterable[str]:
    """Return the labels of a metric, from its kind or from the description of what collects it."""
    if hasattr(collector, "_labelnames") or not hasattr(collector, "describe"):
        return getattr(collector, "_labelnames", ())
    return next((family._labelnames for family in collector.describe() if family.name == name), ())


async def metrics(folder: Path) -> str:
    """Return what a process exports after some work."""
    async with serving(folder, parts=["admission", "extender", "debug"]) as stage:
        await stage.add_node("n0")
        pod = await stage.add_pod("web")
        await stage.filter(pod, "n0")
        await stage.bind(pod, "n0")
        await stage.review(review_of(pod_document("other")))
        return (await stage.get("/metrics")).text


def family_of(name: str) -> str:
    return f"# TYPE {re.sub('_(bucket|count|sum|created)$', '', name)} "


@pytest.mark.parametrize(
    ("where", "expression"), [pytest.param(*found, id=found[0]) for found in expressions()]
)
def test_an_expression_is_about_metrics_and_labels_that_exist(
    where: str, expression: str, exported: dict[str, set[str]]
) -> None:
    parsed = promql_parser.parse(expression)
    selected: set[str] = set(TARGET_LABELS)
    selectors = [node for node in nodes(parsed) if type(node).__name__ == "VectorSelector"]
    assert selectors, where
    for selector in selectors:
        assert selector.name in exported, f"{where}: no process exports {selector.name}"
        labels = exported[selector.name] | TARGET_LABELS
        for matcher in selector.matchers.matchers:
            assert matcher.name in labels, f"{where}: {selector.name} has no label {matcher.name}"
        selected |= labels
    for node in nodes(parsed):
        assert set(grouping(node)) <= selected, f"{where}: aggregates by {set(grouping(node)) - selected}"


def test_the_walk_finds_every_metric_of_an_expression() -> None:
    text = "histogram_quantile(0.9, sum by (le) (rate(a_bucket{x='1'}[5m]))) > 2 * (b)"
    text += " unless absent(c) and -d == 1"
    found = list(nodes(promql_parser.parse(text)))
    names = [node.name for node in found if type(node).__name__ == "VectorSelector"]
    assert sorted(names) == ["a_bucket", "b", "c", "d"]
    assert [label for node in found for label in grouping(node)] == ["le"]


@pytest.mark.parametrize("rule", [pytest.param(rule, id=rule["alert"]) for rule in rules()])
def test_an_alert_has_labels_that_its_text_names_and_a_line_in_the_runbook(rule: Document) -> None:
    page = (ROOT / "docs" / "monitoring.md").read_text()
    assert f"| `{rule['alert']}` |" in page
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    named = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
    by = {label for node in nodes(promql_parser.parse(rule["expr"])) for label in grouping(node)}
    assert named <= (by or TARGET_LABELS)


def test_the_runbook_has_no_other_alerts() -> None:
    page = (ROOT / "docs" / "monitoring.md").read_text()
    assert re.findall(r"^\| `(Koordpy\w+)` \|", page, re.MULTILINE) == [rule["alert"] for rule in rules()]


def test_the_operators_rules_are_the_plain_ones() -> None:
    plain = yaml.safe_load((FOLDER / "alerts.yaml").read_text())
    operator = yaml.safe_load((FOLDER / "prometheusrule.yaml").read_text())
    assert (operator["kind"], operator["spec"]) == ("PrometheusRule", plain)


def test_panels_do_not_overlap_and_all_have_a_description() -> None:
    cells: set[tuple[int, int]] = set()
    for panel in panels():
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        own = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not own & cells, panel["title"]
        cells |= own
        assert panel["type"] == "row" or (panel["description"] and panel["targets"])
