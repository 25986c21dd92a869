"""RFC 6902 patches as kube-apiserver applies them."""

from typing import Any

from koordpy.api import json_patch
from koordpy.api.patch import equal


def run(case_in: dict[str, Any], tag: str | None) -> dict[str, Any]:
    try:
        return {"doc": json_patch.apply(case_in["doc"], case_in["patch"])}
    except json_patch.JSONPatchError as error:
        return {"err": str(error)}


def same(ours: dict[str, Any], expected: dict[str, Any], case_in: dict[str, Any]) -> bool:
    if expected.get("kind") == "panic":
        return True
    if "err" in expected or "err" in ours:
        return "err" in expected and "err" in ours
    return equal(ours["doc"], expected["doc"])
