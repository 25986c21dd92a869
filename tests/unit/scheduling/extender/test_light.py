"""Light mode: which plugins may run in it, and what ends an attempt without a bind call."""

import json
from typing import Any

import pytest

from koordpy.api.config_model import ConfigError
from koordpy.api.core import Pod
from koordpy.scheduling.extender.extender import Extender
from koordpy.scheduling.interface import Filter, Permit, Plugin, PostBind, Reserve, ResizePod, Score
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.status import SUCCESS, Status
from koordpy.scheduling.profiles.registry import Place, build

from ..worlds import Binder, bind_body, configuration, filter_body, node, pod, pod_document, world


class LightBinder(Binder):
    watch_suffices = True


class Counts(Plugin, Filter, Reserve):
    """Records which pods run where, which also follows from the watch."""

    name = "Counts"
    watch_suffices = True

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return SUCCESS

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        return SUCCESS

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        pass


class Allocates(Counts, Permit, PostBind):
    """Allocates something."""

    name = "Allocates"
    watch_suffices = False

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        return SUCCESS

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        pass


class Resizes(Plugin, Score, ResizePod):
    name = "Resizes"

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return 0

    def resize_pod(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Pod, Status]:
        return pod, SUCCESS


def light(*classes: type[Plugin], **sets: Any) -> Extender:
    cluster = world([node("a"), node("b")])
    handle = Handle(cluster)
    installed: list[type[Plugin]] = [LightBinder, *classes]
    by_name = {cls.name: cls for cls in installed}
    config = configuration([cls.name for cls in classes], **sets)
    profiles = build(config, lambda _: handle, place=Place.EXTENDER, classes=by_name)
    made = Extender(profiles, handle, is_light=True)
    for store in cluster.stores:
        store.synced = True
    return made


def test_a_plugin_that_needs_the_bind_call_is_refused_by_name_with_its_points() -> None:
    with pytest.raises(ConfigError) as refused:
        light(Counts, Allocates)
    [problem] = refused.value.problems
    assert "extender.mode: got 'light'" in problem
    assert "profile default-scheduler: plugin Allocates needs reserve, permit, postBind" in problem


def test_only_points_that_are_enabled_count() -> None:
    off = {"disabled": [{"name": "Allocates"}]}
    with pytest.raises(ConfigError, match="Allocates needs permit, which"):
        light(Allocates, reserve=off, postBind=off)
    light(Allocates, reserve=off, postBind=off, permit=off)


def test_a_plugin_that_resizes_pods_is_refused() -> None:
    with pytest.raises(ConfigError, match="Resizes needs resizePod"):
        light(Resizes)


def test_another_binder_is_refused() -> None:
    class OtherBinder(Binder):
        name = "OtherBinder"

    with pytest.raises(ConfigError, match="OtherBinder needs bind"):
        light(OtherBinder)


async def test_a_bind_call_is_answered_with_what_to_change() -> None:
    made = light(Counts)
    document = pod_document("p")
    made.handle.cluster.store(Pod).apply(pod("p"))
    made.filter(filter_body(document, ["a", "b"]))
    error = json.loads(await made.bind(bind_body(document, "a")))["Error"]
    assert "light mode" in error
    assert "bindVerb" in error
    assert not made.handle.nodes.is_assumed("uid-p")


def test_an_attempt_ends_when_the_watch_shows_its_pod_on_a_node() -> None:
    made = light(Counts)
    pods = made.handle.cluster.store(Pod)
    pods.apply(pod("p"))
    made.filter(filter_body(pod_document("p"), ["a", "b"]))
    assert len(made.attempts) == 1
    pods.apply(pod("p", node_name="b"))
    assert len(made.attempts) == 0
    [decision] = made.decisions.of("default", "p")
    assert (decision.outcome, decision.node) == ("bound", "b")
    assert "total" in decision.milliseconds


def test_a_filtered_pod_shows_that_this_process_is_called() -> None:
    made = light(Counts)
    asked: list[str] = []
    made.binds.on_asked = lambda: asked.append("here")
    pods = made.handle.cluster.store(Pod)
    for name in ("p", "other"):
        pods.apply(pod(name))
    pods.apply(pod("other", node_name="b"))
    assert asked == []
    made.filter(filter_body(pod_document("p"), ["a", "b"]))
    pods.apply(pod("p", node_name="b"))
    assert asked == ["here"]


def test_the_attempts_of_pods_that_still_wait_are_kept() -> None:
    made = light(Counts)
    made.handle.cluster.store(Pod).apply(pod("p"))
    made.filter(filter_body(pod_document("p"), ["a"]))
    made.handle.cluster.store(Pod).apply(pod("other", node_name="a"))
    made.handle.cluster.store(Pod).apply(pod("p", priority=3))
    assert [attempt.pod.metadata.name for attempt in made.attempts] == ["p"]


def test_the_shipped_light_profile_runs_in_light_mode() -> None:
    from koordpy.scheduling.profiles import config
    from koordpy.settings import ExtenderSettings

    cluster = world([node("a")])
    handle = Handle(cluster)
    read = config.load(ExtenderSettings(mode="light").profiles_file)
    profiles = build(read, lambda _: handle.sibling(), place=Place.EXTENDER)
    made = Extender(profiles, handle, is_light=True)
    assert set(made.profiles.frameworks) == {"default-scheduler", "koord-scheduler"}
    assert made.profiles.frameworks["koord-scheduler"].weights == {"LoadAwareScheduling": 1}
