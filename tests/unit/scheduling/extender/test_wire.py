import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordpy.scheduling.extender import wire
from koordpy.scheduling.extender.wire import BadBody


def test_members_are_read_in_any_case() -> None:
    body = json.dumps({"pod": {"metadata": {"name": "p", "uid": "u"}}, "nodenames": ["a", "b"]}).encode()
    args = wire.EXTENDER_ARGS.decode(body, "pod")
    assert args.pod is not None
    assert args.pod.metadata.uid == "u"
    assert wire.node_names(args.node_names) == ["a", "b"]


def test_victims_are_read_in_any_case() -> None:
    body = json.dumps(
        {
            "POD": {"metadata": {"uid": "u"}},
            "nodeNameToMetaVictims": {"n": {"pods": [{"UID": "v"}], "numpdbviolations": 2}},
        }
    ).encode()
    args = wire.PREEMPTION_ARGS.decode(body, "pod")
    assert args.meta_victims is not None
    victims = args.meta_victims["n"]
    assert ([pod.uid for pod in victims.pods], victims.pdb_violations) == (["v"], 2)


def test_nulls_are_absent_members() -> None:
    pod = b'{"metadata":{"uid":"u","labels":null},"spec":{"containers":null}}'
    body = b'{"Pod":' + pod + b',"NodeNames":["a"],"Nodes":null}'
    args = wire.EXTENDER_ARGS.decode(body, "pod")
    assert args.pod is not None
    assert args.pod.metadata.labels == {}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"[1]", "expected an object, got list"),
        (b"{}", "'Pod' is missing"),
        (b'{"Pod":5}', "Expected `object | null`, got `int` - at `$.Pod`"),
        (b'{"Pod":{"spec":{"containers":{}}}}', "at `$.Pod.spec.containers`"),
    ],
)
def test_a_malformed_body_is_refused_with_what_and_where(body: bytes, expected: str) -> None:
    with pytest.raises(BadBody) as caught:
        wire.EXTENDER_ARGS.decode(body, "pod")
    assert expected in str(caught.value)


def test_node_names_must_be_a_list_of_texts() -> None:
    args = wire.EXTENDER_ARGS.decode(b'{"Pod":{"metadata":{"uid":"u"}},"NodeNames":[1]}', "pod")
    with pytest.raises(BadBody, match="NodeNames"):
        wire.node_names(args.node_names)


@given(st.lists(st.tuples(st.text(max_size=8), st.integers(-(2**63), 2**63 - 1)), max_size=8))
def test_host_priorities_are_what_a_json_encoder_writes(pairs: list[tuple[str, int]]) -> None:
    written = json.loads(wire.host_priorities([name for name, _ in pairs], [score for _, score in pairs]))
    assert written == [{"Host": name, "Score": score} for name, score in pairs]


def test_a_filter_result_has_gos_member_names() -> None:
    written = json.loads(wire.filter_result(b'["a"]', {"b": "full"}, {"c": "never"}))
    assert written == {
        "NodeNames": ["a"],
        "FailedNodes": {"b": "full"},
        "FailedAndUnresolvableNodes": {"c": "never"},
        "Error": "",
    }
