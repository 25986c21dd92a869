"""The pod binding webhook, bytes in, bytes out: `koordpy.admission` with the in-tree handlers."""

import json
from typing import Any

from pydantic.alias_generators import to_camel

from koordpy.admission.config import AdmissionConfig, build_chains
from koordpy.admission.gates import feature_gates
from koordpy.admission.handler import Handle
from koordpy.admission.handler_entry import HandlerEntry
from koordpy.admission.review import review
from koordpy_plugins.admission.binding_admission.plugin import DECISIONS

from .admission_mutating import Draws, cluster_of
from .admission_review import INSTALLED

FLAG = "binding-admission-"


def run(case_in: dict[str, Any], tag: str | None) -> dict[str, Any]:
    handle = Handle(cluster_of(case_in["objects"]), feature_gates(case_in["gates"]), Draws([]))
    flags = case_in.get("flags", {})
    args = {to_camel(flag.removeprefix(FLAG).replace("-", "_")): value for flag, value in flags.items()}
    config = AdmissionConfig(enabled=[HandlerEntry(name="validate-pod-binding.BindingAdmission", args=args)])
    chain = build_chains(config, handle, INSTALLED)["/validate-pod-binding"]
    body = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": case_in["request"]}
    before = decisions()
    response = json.loads(review(chain, json.dumps(body).encode()))["response"]
    counted = [decision for decision, count in decisions().items() if count != before.get(decision, 0)]
    status = response["status"]
    out = {"allowed": response["allowed"], "code": status["code"]}
    out |= {name: status[name] for name in ("message", "reason") if name in status}
    if counted:
        [out["decision"]] = counted
    return out


def decisions() -> dict[str, float]:
    """Return how often each decision was counted."""
    [metric] = DECISIONS.collect()
    return {item.labels["decision"]: item.value for item in metric.samples if item.name.endswith("_total")}
