"""Requests as the audit reads them are those that koordpy's own functions compute."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from koordpy.api.core import Pod
from koordpy.api.resources import pod_request_nanos, pod_status_vector
from koordpy.api.scheme import decode
from koordpy.audit.amounts import RequestReader

AMOUNTS = st.dictionaries(
    st.sampled_from(("cpu", "memory")), st.sampled_from(("1", "250m", "1Gi", "500n", 2))
)
STATUS = st.none() | st.fixed_dictionaries({"requests": AMOUNTS})
CONTAINERS = st.lists(st.tuples(AMOUNTS, STATUS, AMOUNTS), min_size=1, max_size=3)


def document(containers: Any, extra: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "containers": [
            {"name": str(at), "resources": {"requests": requests}}
            for at, (requests, _, _) in enumerate(containers)
        ],
        **extra,
    }
    statuses = [
        {"name": str(at), "allocatedResources": allocated, **({"resources": status} if status else {})}
        for at, (_, status, allocated) in enumerate(containers)
    ]
    return {"metadata": {"name": "p"}, "spec": spec, "status": {"containerStatuses": statuses}}


@given(
    st.lists(
        st.tuples(CONTAINERS, st.sampled_from(({}, {"overhead": {"cpu": "1"}}, {"resources": {}}))),
        max_size=4,
    )
)
def test_requests_equal_those_of_koordpy(pods: list[Any]) -> None:
    reader = RequestReader()
    for containers, extra in pods:
        pod = decode(Pod, document(containers, extra))
        found = reader.of(pod)
        assert found.occupied == pod_status_vector(pod)
        assert found.nanos == pod_request_nanos(pod)
