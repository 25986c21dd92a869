"""Label, field and node selectors, taints: `koordpy.api`."""

from typing import Any

from koordpy.api import field_selector, label_selector, node_affinity, taints
from koordpy.api.core import Node, PodSpec, Taint, Toleration
from koordpy.api.field_selector import FieldSelector, FieldSelectorError
from koordpy.api.label_selector import Selector, SelectorError
from koordpy.api.meta import LabelSelector
from koordpy.api.node_affinity import NodeAffinityError
from koordpy.api.scheme import decode

from ..vectors import equal


def matched(selector: Selector, case: dict[str, Any]) -> list[bool]:
    return [selector.matches(labels) for labels in case["labels"]]


def described(selector: Selector | FieldSelector, maps: list[dict[str, str]]) -> dict[str, Any]:
    return {
        "match": [selector.matches(item) for item in maps],
        "str": str(selector),
        "empty": selector.is_empty,
    }


def struct_selector(case: dict[str, Any]) -> dict[str, Any]:
    selector = None if case["selector"] is None else decode(LabelSelector, case["selector"])
    answer: dict[str, Any] = {}
    if selector is not None:
        try:
            answer["fast"] = {"match": matched(label_selector.fast_of(selector), case)}
        except SelectorError as error:
            answer["fast"] = {"err": str(error)}
    try:
        matcher = label_selector.of(selector)
    except SelectorError as error:
        return answer | {"err": str(error)}
    return answer | {"match": matched(matcher, case), "str": str(matcher)}


def required(case: dict[str, Any]) -> dict[str, Any]:
    matcher = node_affinity.required(decode(PodSpec, case["spec"]))
    answers: list[dict[str, Any]] = []
    for node in (decode(Node, node) for node in case["nodes"]):
        try:
            answers.append({"match": matcher.check(node.metadata.labels, node.metadata.name)})
        except NodeAffinityError as error:
            answers.append({"match": False, "err": str(error)})
    return {"nodes": answers}


def preferred(case: dict[str, Any]) -> dict[str, Any]:
    matcher = node_affinity.preferred(decode(PodSpec, case["spec"]))
    nodes = (decode(Node, node).metadata for node in case["nodes"])
    return {"scores": [matcher.score(node.labels, node.name) for node in nodes]}


def tolerations(case: dict[str, Any]) -> dict[str, Any]:
    tolerations = [decode(Toleration, item) for item in case["tolerations"] or ()]
    marks = [decode(Taint, item) for item in case["taints"] or ()]
    untolerated = taints.find_untolerated(marks, tolerations)
    return {
        "tolerated": [taints.tolerated(tolerations, mark) for mark in marks],
        "withCompare": [taints.tolerated(tolerations, mark, comparison_operators=True) for mark in marks],
        "untolerated": untolerated
        and {"key": untolerated.key, "value": untolerated.value, "effect": untolerated.effect},
    }


def run(case_in: dict[str, Any], tag: str | None) -> dict[str, Any]:
    try:
        match tag:
            case "labelSelector":
                return struct_selector(case_in)
            case "text":
                return described(label_selector.parse(case_in["text"]), case_in["labels"])
            case "field":
                return described(field_selector.parse(case_in["text"]), case_in["fields"])
            case "nodeAffinity":
                return required(case_in)
            case "preferred":
                return preferred(case_in)
            case "toleration":
                return tolerations(case_in)
    except (SelectorError, FieldSelectorError, NodeAffinityError) as error:
        return {"err": str(error)}
    raise ValueError(f"unknown tag {tag}")


def without_error_texts(answer: Any) -> Any:
    if isinstance(answer, dict):
        return {key: key == "err" or without_error_texts(value) for key, value in answer.items()}
    return [without_error_texts(item) for item in answer] if isinstance(answer, list) else answer


def same(ours: Any, expected: Any, case_in: dict[str, Any]) -> bool:
    return equal(without_error_texts(ours), without_error_texts(expected))
