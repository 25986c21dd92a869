"""Match conditions: what is understood, what is refused."""

import pytest

from koordpy.embedded.apiserver.expressions import ExpressionError, holds, parse

VARIABLES = {
    "object": {"metadata": {"name": "web", "labels": {"a/b": "1"}}, "spec": {"replicas": 3}},
    "oldObject": None,
    "request": {"operation": "CREATE", "userInfo": {"groups": ["system:nodes"]}},
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("object.metadata.name == 'web'", True),
        ('object.metadata.labels["a/b"] != "1"', False),
        ("object.spec.replicas > 2 && object.spec.replicas <= 3", True),
        ("request.operation in ['CREATE', 'UPDATE']", True),
        ("!('system:nodes' in request.userInfo.groups)", False),
        ("has(object.spec.paused) || oldObject == null", True),
        ("object.metadata.name.startsWith('w') ? true : false", True),
        ("object.metadata.name.matches('^w.b$')", True),
        ("size(request.userInfo.groups) == 1", True),
        ("object.metadata.name.size() == 3", True),
        ("object.spec.missing == 1 || true", True),
        ("-1 < 0", True),
    ],
)
def test_expression_is_evaluated(text: str, expected: bool) -> None:
    assert holds(parse(text), VARIABLES) is expected


@pytest.mark.parametrize(
    "text",
    [
        "object.metadata.name ==",
        "object.x.exists(y, y > 1)",
        "now() > 1",
        "authorizer.group('x')",
        "1 +",
        "'text'",
        "a b",
    ],
)
def test_expression_that_is_not_supported_is_refused(text: str) -> None:
    with pytest.raises(ExpressionError):
        parse(text)


@pytest.mark.parametrize(
    "text", ["object.missing == 1", "object.spec.replicas > 'x'", "object.spec.replicas"]
)
def test_expression_that_fails_says_so(text: str) -> None:
    with pytest.raises(ExpressionError):
        holds(parse(text), VARIABLES)
