import json
from collections.abc import Mapping
from typing import Any

import pytest

from koordpy.admission.config import AdmissionConfig, build_chains
from koordpy.admission.handler import Handle, Request
from koordpy.admission.handler_entry import HandlerEntry
from koordpy.api.core import ConfigMap
from koordpy.api.meta import ObjectMeta
from koordpy_plugins.admission.enhanced_validation.plugin import EnhancedValidationPlugin
from koordpy_plugins.admission.enhanced_validation.rules import Rule, read

from .pods import handle, pod, refusal

GATE: dict[str, Any] = {"EnablePodEnhancedValidator": True}
NAMESPACE = "koordinator-system"
NAME = "pod-enhanced-validator-config"


def rule(*labels: str, **members: Any) -> dict[str, Any]:
    return {"name": "r", "requiredLabels": list(labels), **members}


def config(*rules: Any, enable: str = "true", name: str = NAME, namespace: str = NAMESPACE) -> dict[str, Any]:
    return {
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": {"enable": enable, "rules": json.dumps(rules)},
    }


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"app": "", "tier": "x"}, ""),
        ({"app": ""}, "required label 'tier' is missing"),
        ({}, "required labels are missing: [app tier]"),
        ({"pod.koordinator.sh/skip-enhanced-validation": "true"}, ""),
        (
            {"pod.koordinator.sh/skip-enhanced-validation": "yes"},
            "required labels are missing: [app tier]",
        ),
    ],
)
def test_labels_of_a_rule_must_be_there(labels: dict[str, str], message: str) -> None:
    assert refusal(pod(labels=labels), config(rule("app", "tier")), gates=GATE) == message


def test_the_first_violated_rule_is_reported() -> None:
    rules = config(rule("a", namespaceWhitelist=["ns"]), rule("b", namespaceWhitelist=["other"]), rule("c"))
    assert refusal(pod(), rules, gates=GATE) == "required label 'b' is missing"


def test_updates_are_checked_and_other_operations_are_not() -> None:
    asked = config(rule("a"))
    assert refusal(pod(), asked, gates=GATE, operation="UPDATE", oldObject=pod())
    assert refusal(pod(), asked, gates=GATE, operation="CONNECT") == ""


@pytest.mark.parametrize(
    "objects",
    [
        [],
        [config(rule("a"), name="other")],
        [config(rule("a"), namespace="other")],
        [config(rule("a"), enable="1")],
    ],
    ids=["missing", "other name", "other namespace", "not enabled"],
)
def test_without_enabled_rules_every_pod_passes(objects: list[dict[str, Any]]) -> None:
    assert refusal(pod(), *objects, gates=GATE) == ""


def test_gate_switches_it_on() -> None:
    assert refusal(pod(), config(rule("a"))) == ""


def plugin(to: Handle, **args: str) -> EnhancedValidationPlugin:
    entry = HandlerEntry(name="validate-pod.EnhancedValidation", args=args)
    chain = build_chains(AdmissionConfig(enabled=[entry]), to)["/validate-pod"]
    [found] = [item for item in chain.handlers if isinstance(item, EnhancedValidationPlugin)]
    return found


def stored(data: Mapping[str, str], name: str = NAME, namespace: str = NAMESPACE) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace), data=dict(data))


def test_rules_follow_the_config_map() -> None:
    to = handle(**GATE)
    validator = plugin(to)
    configs = to.cluster.store(ConfigMap)
    configs.apply(stored({"enable": " TRUE ", "rules": '[{"requiredLabels":["a"]}]'}))
    asked = (Rule(required_labels=("a",)),)
    assert validator.rules == asked
    configs.apply(stored({"enable": "false", "rules": "["}))
    assert validator.rules == asked
    configs.apply(stored({"enable": "true"}, name="other"))
    configs.discard(f"{NAMESPACE}/other")
    assert validator.rules == asked
    configs.apply(stored({"rules": '[{"requiredLabels":["a"]}]'}))
    assert validator.rules == ()
    configs.apply(stored({"enable": "true", "rules": '[{"requiredLabels":["a"]}]'}))
    configs.discard(f"{NAMESPACE}/{NAME}")
    assert validator.rules == ()


def test_config_map_of_another_name_can_be_used() -> None:
    to = handle(config(rule("a"), name="n", namespace="s"), **GATE)
    assert plugin(to, configNamespace="s", configName="n").rules == (Rule("r", ("a",)),)


def test_nothing_is_decoded_while_there_are_no_rules() -> None:
    plugin(handle(**GATE)).validate(Request(operation="CREATE"))


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("", ()),
        ("null", ()),
        ("[]", ()),
        ("[null]", (Rule(),)),
        ('[{"NAME":"n","requiredlabels":["a",null],"more":1}]', (Rule("n", ("a", "")),)),
        ('[{"namespaceWhitelist":["ns",""]}]', (Rule(namespace_whitelist=frozenset(("ns",))),)),
        ('[{"name":null,"requiredLabels":null}]', (Rule(),)),
    ],
)
def test_rules_are_read_as_go_reads_them(text: str, rules: tuple[Rule, ...]) -> None:
    assert read({"enable": "true", "rules": text}) == rules


@pytest.mark.parametrize(
    "text", ["[", "{}", "[1]", '[{"name":1}]', '[{"requiredLabels":"a"}]', '[{"namespaceWhitelist":[1]}]']
)
def test_malformed_rules_are_refused_even_if_they_are_not_enabled(text: str) -> None:
    with pytest.raises(ValueError, match="rules"):
        read({"rules": text})
