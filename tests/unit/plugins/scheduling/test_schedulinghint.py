"""SchedulingHint: which nodes a pod's annotation lets through, and which go first."""

import json
from typing import Any

import pytest

from koordpy.api.config_model import ConfigError
from koordpy.api.core import Node, Pod
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.outcome import FilterOutcome
from koordpy.scheduling.interface.plugin import API_VERSION
from koordpy.scheduling.interface.status import Code
from koordpy.scheduling.profiles import config
from koordpy.scheduling.profiles.registry import Place, build
from koordpy.scheduling.toolkit.scheduling_hint import SCHEDULING_HINT, SchedulingHintState
from koordpy_plugins.scheduling.schedulinghint.plugin import SchedulingHint

CURRENT = "internal.scheduling.koordinator.sh/scheduling-hint"
DEPRECATED = "scheduling.koordinator.sh/scheduling-hint"


def pod(hint: Any = None, **annotations: str) -> Pod:
    if hint is not None:
        annotations[CURRENT] = json.dumps(hint)
    return decode(
        Pod, {"metadata": {"name": "p", "namespace": "d", "uid": "uid-p", "annotations": annotations}}
    )


def framework(args: dict[str, Any] | None = None) -> Framework:
    cluster = Cluster()
    assert len(cluster.nodes) == 0
    for name in ("n1", "n2", "n3"):
        cluster.store(Node).apply(decode(Node, {"metadata": {"name": name, "uid": name}}))
    profile = {
        "plugins": {"preFilter": {"enabled": [{"name": SchedulingHint.name}]}},
        "pluginConfig": [{"name": SchedulingHint.name, "args": args or {}}],
    }
    document = {"apiVersion": API_VERSION, "kind": config.KIND, "profiles": [profile]}
    profiles = build(
        config.read(document),
        lambda _: Handle(cluster),
        place=Place.EXTENDER,
        classes={SchedulingHint.name: SchedulingHint},
        skip_missing=True,
    )
    return profiles.frameworks["default-scheduler"]


def outcome(incoming: Pod, args: dict[str, Any] | None = None) -> FilterOutcome:
    fw = framework(args)
    return fw.find_feasible(fw.new_state(), incoming, fw.handle.nodes.all())


def test_only_the_hints_nodes_are_evaluated() -> None:
    result = outcome(pod({"nodeNames": ["n2", "unknown"]}))
    assert list(result.kept.names) == ["n2"]
    assert list(result.absent) == ["n1", "n3"]


def test_the_first_preferred_node_that_passes_is_taken_alone() -> None:
    assert list(outcome(pod({"preferredNodeNames": ["unknown", "n3", "n1"]})).kept.names) == ["n3"]


def test_preferred_nodes_outside_the_hints_nodes_do_not_count() -> None:
    hint = {"nodeNames": ["n1", "n2"], "preferredNodeNames": ["n3", "n2"]}
    assert list(outcome(pod(hint)).kept.names) == ["n2"]


def test_preferred_nodes_are_cut_before_they_are_compared_with_the_others() -> None:
    hint = {"nodeNames": ["n1", "n2"], "preferredNodeNames": ["n3", "n2"]}
    assert list(outcome(pod(hint), {"maxHintNodes": 1}).kept.names) == ["n1", "n2"]


def test_without_a_hint_every_node_is_evaluated() -> None:
    assert len(outcome(pod()).kept) == 3


def test_the_deprecated_annotation_is_read_when_the_current_one_is_empty() -> None:
    incoming = pod(**{CURRENT: "", DEPRECATED: '{"nodeNames":["n1"]}'})
    assert list(outcome(incoming).kept.names) == ["n1"]


@pytest.mark.parametrize("text", ["{", "[]", '"x"', '{"nodeNames":"n1"}', '{"extensions":[]}'])
def test_a_hint_that_cannot_be_read_fails_the_attempt_even_beside_a_deprecated_one(text: str) -> None:
    result = outcome(pod(**{CURRENT: text, DEPRECATED: '{"nodeNames":["n1"]}'}))
    assert result.error is not None
    assert result.error.code is Code.ERROR
    assert result.error.message.startswith(f"pod d/p: annotation {CURRENT}: ")


def test_other_plugins_read_their_extension_in_the_state() -> None:
    fw = framework()
    state = fw.new_state()
    hint = {"extensions": {"Reservation": {"skipRestoreNodeInfo": True}, "NodeNUMAResource": {}}}
    fw.run_pre_filter(state, pod(hint), fw.handle.nodes.all())
    known = state.read(SCHEDULING_HINT)
    assert known is not None
    assert known.extensions == hint["extensions"]


def test_an_extension_of_null_is_present_and_null_extensions_are_none() -> None:
    fw = framework()
    for hint, extensions in (
        ({"extensions": {"NodeNUMAResource": None, "DeviceShare": {"a": None}}}, None),
        ({"extensions": None, "nodeNames": None}, {}),
    ):
        state = fw.new_state()
        fw.run_pre_filter(state, pod(hint), fw.handle.nodes.all())
        known = state.read(SCHEDULING_HINT)
        assert known is not None
        assert known.extensions == (hint["extensions"] if extensions is None else extensions)


def test_a_hint_that_a_batch_left_counts_without_an_annotation() -> None:
    fw = framework()
    state = fw.new_state()
    state.write(SCHEDULING_HINT, SchedulingHintState(pre_filter_nodes=("n3",)))
    assert fw.run_pre_filter(state, pod(), fw.handle.nodes.all()).node_names == frozenset({"n3"})


def test_the_number_of_hint_nodes_must_be_positive() -> None:
    with pytest.raises(ConfigError, match=r"args\.maxHintNodes: Invalid value: 0: must be a positive value"):
        SchedulingHint.read_args({"maxHintNodes": 0}, "args")
