from typing import Any

import pytest

from koordpy.api.pods.creation import refusal


def pod(spec: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    own = {"containers": [{"name": "a", "image": "a"}]} if spec is None else spec
    return {"kind": "Pod", "metadata": {"name": "web", **metadata}, "spec": own}


def test_a_pod_that_the_api_server_creates_is_not_refused() -> None:
    given = pod(labels={"app": "web"}, annotations=None)
    assert refusal(given) == ""
    assert given == pod(labels={"app": "web"}, annotations=None)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (pod({}), 'Pod "web" is invalid: spec.containers: Required value'),
        (
            pod({"containers": [{"name": "a"}, {"name": "A", "image": "a"}]}),
            'Pod "web" is invalid: [spec.containers[0].image: Required value, spec.containers[1].name',
        ),
        (
            pod(
                {
                    "containers": [
                        {
                            "name": "a",
                            "image": "a",
                            "resources": {
                                "requests": {
                                    "cpu": "2",
                                },
                                "limits": {"cpu": "1"},
                            },
                        }
                    ]
                }
            ),
            'spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu',
        ),
        (
            pod({"containers": [{"name": "a", "image": "a", "resources": {"requests": {"cpu": "x"}}}]}),
            "spec.containers[0].resources.requests[cpu]",
        ),
        (pod(name="UPPER"), 'metadata.name: Invalid value: "UPPER": a lowercase RFC 1123 subdomain'),
        (pod(labels={"a b": "c"}), 'metadata.labels: Invalid value: "a b"'),
        (pod({"containers": [3]}), "Pod: a field has a wrong type"),
    ],
)
def test_a_wrong_pod_is_refused_in_the_words_of_the_api_server(given: dict[str, Any], message: str) -> None:
    assert message in refusal(given)
