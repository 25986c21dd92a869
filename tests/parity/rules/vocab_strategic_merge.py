"""Strategic merge patches of Pod and Node on raw JSON."""

from typing import Any

from koordpy.api import strategic_merge

KINDS = {"pod": "Pod", "node": "Node"}


def run(case_in: dict[str, Any], tag: str | None) -> dict[str, Any]:
    kind = KINDS[(tag or "").partition("-")[0]]
    try:
        return {"doc": strategic_merge.apply(case_in["doc"], case_in["patch"], kind)}
    except strategic_merge.StrategicMergeError as error:
        return {"err": str(error)}


def same(ours: dict[str, Any], expected: dict[str, Any], case_in: dict[str, Any]) -> bool:
    if "panic" in expected.get("kinds", ()):
        return True
    if "err" in expected or "err" in ours:
        return "err" in expected and "err" in ours
    return bool(ours["doc"] == expected["doc"])
