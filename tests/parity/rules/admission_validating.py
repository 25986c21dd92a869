"""The pod validating webhook, bytes in, bytes out: `koordpy.admission` with the in-tree handlers."""

import json
import re
from typing import Any

from koordpy.admission.config import AdmissionConfig, build_chains
from koordpy.admission.gates import feature_gates
from koordpy.admission.handler import Handle
from koordpy.admission.review import review

from .admission_mutating import Draws, cluster_of

ERROR = re.compile(
    r"(?P<path>[^ :]+): (?P<kind>Required value|Forbidden|Invalid value)"
    r'(?:: "(?P<value>[^"]*)")?: '
)


def run(case_in: dict[str, Any], tag: str | None) -> dict[str, Any]:
    handle = Handle(cluster_of(case_in["objects"]), feature_gates(case_in["gates"]), Draws([]))
    chain = build_chains(AdmissionConfig(), handle)["/validate-pod"]
    body = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": case_in["request"]}
    response = json.loads(review(chain, json.dumps(body).encode()))["response"]
    assert "patch" not in response
    out = {"allowed": response["allowed"], "code": response["status"]["code"]}
    if "message" in response["status"]:
        out["message"] = response["status"]["message"]
    return out


def same(ours: dict[str, Any], expected: dict[str, Any], case_in: dict[str, Any]) -> bool:
    """Compare verdicts and what is wrong with which field; other texts where they are Koordinator's own."""
    if (ours["allowed"], ours["code"]) != (expected["allowed"], expected["code"]):
        return False
    message = expected.get("message", "")
    if "errors" in expected:
        return errors(ours.get("message", "")) == {(path, value) for path, _, value in expected["errors"]}
    return not message.startswith("required label") or ours.get("message") == message


def errors(message: str) -> set[tuple[str, str]]:
    """Return path and bad value of every field error of a message."""
    found = ERROR.finditer(message.removeprefix("["))
    return {(match["path"], match["value"] or "") for match in found}


def accepts(tag: str | None, case_in: dict[str, Any]) -> bool:
    """Leave out the cases that charge quotas."""
    return not case_in["gates"].get("EnableQuotaAdmission")
