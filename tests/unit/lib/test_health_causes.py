"""Each cause of failing checks is reported once."""

from koordpy.lib.health import Reason, causes

DOWN = "http://api: [Errno 111] Connection refused"


def shown(**failures: str) -> list[str]:
    return [f"{cause.check}: {cause}" for cause in causes(failures)]


def test_checks_with_different_reasons_are_reported_each() -> None:
    assert shown(a="no", b="never") == ["a: no", "b: never"]


def test_checks_with_one_cause_are_one_line_that_names_all_of_them() -> None:
    pods, nodes = (Reason(f"failing: GET /{name}: {DOWN}", DOWN) for name in ("pods", "nodes"))
    webhook = Reason(f"webhook controller has not initialized: GET /x: {DOWN}", DOWN)
    assert shown(pods=pods, other="no", nodes=nodes, webhook=webhook) == [
        f"pods: {DOWN}; 2 more checks wait for this: nodes, webhook",
        "other: no",
    ]


def test_a_single_check_keeps_its_own_words() -> None:
    assert shown(pods=Reason(f"failing: GET /pods: {DOWN}", DOWN)) == [f"pods: failing: GET /pods: {DOWN}"]


def test_a_check_that_follows_from_others_does_not_represent_them() -> None:
    all_of_them = Reason("not all informers have listed yet", DOWN, follows=True)
    assert shown(informers=all_of_them, pods=Reason(f"failing: {DOWN}", DOWN)) == [
        f"pods: {DOWN}; 1 more check waits for this: informers"
    ]
    assert shown(informers=all_of_them) == ["informers: not all informers have listed yet"]
