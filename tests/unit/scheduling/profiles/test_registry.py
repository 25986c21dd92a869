import inspect
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from koordpy.api.catalogue import Catalogue
from koordpy.api.config_model import ConfigError
from koordpy.api.core import Pod
from koordpy.api.plugin import PluginArgs
from koordpy.lib.feature_gates import FeatureGates, FeatureSpec, Stage
from koordpy.scheduling import interface
from koordpy.scheduling.interface import (
    Filter,
    FindOneNode,
    Plugin,
    PreBind,
    PreFilter,
    QueueSort,
    ResizePod,
    Score,
)
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.gates import SPECS
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.status import Status
from koordpy.scheduling.profiles.config import SchedulerConfiguration
from koordpy.scheduling.profiles.profiles import Profiles
from koordpy.scheduling.profiles.registry import GROUP, Place, build, installed

from ..worlds import Binder, configuration, world


class A(Plugin, PreFilter, Filter, Score):
    name = "A"

    def filter(self, state, pod, node):
        raise NotImplementedError

    def score(self, state, pod, node):
        raise NotImplementedError


class B(A):
    name = "B"


class C(A):
    name = "C"


class Sort(Plugin, QueueSort):
    name = "PrioritySort"


class LastPreBind(Plugin, PreBind):
    name = "DefaultPreBind"


CLASSES = {cls.name: cls for cls in (A, B, C, Sort, Binder, LastPreBind)}


def made(config: SchedulerConfiguration, place: Place = Place.EXTENDER, **options: Any) -> Profiles:
    cluster = world([])
    return build(config, lambda _: Handle(cluster), place=place, classes=CLASSES, **options)


def order(profiles: Profiles) -> list[str]:
    return [name for name, _ in profiles.frameworks["default-scheduler"].enabled.at("filter", Filter)]


class Finds(Plugin, FindOneNode):
    name = "Finds"

    def find_one_node(
        self, state: CycleState, pod: Pod, node_names: frozenset[str] | None
    ) -> tuple[str, Status]:
        return "", Status.skip()


def test_multi_point_enables_a_plugin_that_has_none_of_the_points_of_files() -> None:
    handle = Handle(world([]))
    built = build(
        configuration(["A", "Finds"]),
        lambda _: handle,
        place=Place.EXTENDER,
        classes={**CLASSES, "Finds": Finds},
    )
    for framework in (built.frameworks["default-scheduler"], built.wholes["default-scheduler"]):
        assert [name for name, _ in framework.enabled.having(FindOneNode)] == ["Finds"]


class Resizes(Plugin, ResizePod):
    name = "Resizes"

    def resize_pod(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Pod, Status]:
        return pod, Status()


class FindsAndFilters(Finds, Filter):
    name = "FindsAndFilters"

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return Status()


def test_a_plugin_that_will_never_be_called_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    classes = {**CLASSES, "Resizes": Resizes, "FindsAndFilters": FindsAndFilters}
    off = {"filter": {"disabled": [{"name": "FindsAndFilters"}]}}
    config = configuration(["Resizes", "FindsAndFilters"], **off)
    handle = Handle(world([]))
    build(config, lambda _: handle, place=Place.EXTENDER, classes=classes)
    assert "plugin Resizes: its ResizePod is never called, and it has no other point: enable" in caplog.text
    assert "plugin FindsAndFilters does nothing: multiPoint enables it, but all of its points" in caplog.text


class ResizesAndFilters(Resizes, Filter):
    name = "ResizesAndFilters"

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return Status()


def test_a_plugin_that_resizes_too_is_enabled_without_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    handle = Handle(world([]))
    build(
        configuration(["ResizesAndFilters"]),
        lambda _: handle,
        place=Place.EXTENDER,
        classes={**CLASSES, "ResizesAndFilters": ResizesAndFilters},
    )
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


def test_multi_point_enables_a_plugin_wherever_it_can_run() -> None:
    profiles = made(configuration(["A", "B"]))
    assert order(profiles) == ["A", "B"]
    assert profiles.frameworks["default-scheduler"].weights == {"A": 1, "B": 1}


def test_explicit_order_comes_first_then_multi_point_then_the_rest() -> None:
    config = configuration(["A", "B"], filter={"enabled": [{"name": "C"}, {"name": "B"}]})
    assert order(made(config)) == ["B", "A", "C"]


def test_a_star_disables_multi_point_at_a_point() -> None:
    config = configuration(["A", "B"], filter={"enabled": [{"name": "C"}], "disabled": [{"name": "*"}]})
    assert order(made(config)) == ["C"]


def test_one_plugin_is_disabled_at_a_point_by_name() -> None:
    assert order(made(configuration(["A", "B"], filter={"disabled": [{"name": "A"}]}))) == ["B"]


def test_an_explicit_weight_wins_over_multi_point() -> None:
    config = configuration(["A"], score={"enabled": [{"name": "A", "weight": 7}]})
    assert made(config).frameworks["default-scheduler"].weights == {"A": 7}


def test_default_pre_bind_is_appended_unless_it_is_disabled() -> None:
    def pre_binds(**sets: Any) -> list[str]:
        profile = made(configuration([], **sets)).frameworks["default-scheduler"]
        return [name for name, _ in profile.enabled.at("pre_bind", PreBind)]

    assert pre_binds() == ["DefaultPreBind"]
    assert pre_binds(preBind={"disabled": [{"name": "*"}]}) == []


def test_a_plugin_that_is_not_installed_is_refused_with_its_path() -> None:
    with pytest.raises(ConfigError, match=r'plugins\.filter\.enabled\[0\]\.name: got "Nope", expected'):
        made(configuration([], filter={"enabled": [{"name": "Nope"}]}))


def test_the_nearest_name_is_suggested() -> None:
    with pytest.raises(ConfigError, match=r"; did you mean PrioritySort\?; or extender\.skipMissingPlugins"):
        made(configuration([], filter={"enabled": [{"name": "PrioritySorting"}]}))


def test_a_plugin_cannot_be_enabled_twice_at_multi_point() -> None:
    with pytest.raises(
        ConfigError,
        match=r'multiPoint\.enabled\[0\]\.name: plugin "A" already registered as "multiPoint"',
    ):
        made(configuration(["A", "A"]))


class Gated(A):
    name = "Gated"
    feature = "Gating"
    feature_gates = {"Gating": FeatureSpec(False, Stage.ALPHA), "Reading": FeatureSpec(True, Stage.BETA)}

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self.reads = handle.gates.enabled("Reading")


def test_a_plugin_whose_gate_is_off_cannot_be_enabled() -> None:
    known = Catalogue.of(GROUP, Plugin, CLASSES.values()).including(Gated)
    with pytest.raises(ConfigError, match=r"plugins: Gated is enabled, and its feature gate Gating is off"):
        build(configuration(["Gated"]), lambda _: Handle(world([])), place=Place.EXTENDER, classes=known)


def test_a_plugin_reads_its_own_gates_when_it_is_made() -> None:
    known = Catalogue.of(GROUP, Plugin, CLASSES.values()).including(Gated)
    gates = FeatureGates(known.feature_gates(SPECS), {"Gating": True, "Reading": False})
    profiles = build(
        configuration(["Gated"]),
        lambda _: Handle(world([])),
        place=Place.EXTENDER,
        classes=known,
        gates=gates,
    )
    [plugin] = [each for each in profiles.frameworks["default-scheduler"].plugins if isinstance(each, Gated)]
    assert plugin.reads is False


def test_a_plugin_that_cannot_be_imported_is_refused_where_it_is_named() -> None:
    broken = Catalogue(GROUP, Plugin, [EntryPoint("Broken", "no.such.module:Broken", GROUP)])
    known = broken.including(*CLASSES.values())
    config = configuration([], filter={"enabled": [{"name": "A"}, {"name": "Broken"}]})
    with pytest.raises(ConfigError, match=r"enabled\[1\]\.name: plugin .Broken. .* cannot be imported"):
        build(config, lambda _: Handle(world([])), place=Place.EXTENDER, classes=known)
    assert order(
        build(configuration(["A"]), lambda _: Handle(world([])), place=Place.EXTENDER, classes=known)
    ) == ["A"]


def test_missing_plugins_are_left_out_and_listed_on_request() -> None:
    profiles = made(
        configuration([], filter={"enabled": [{"name": "Nope"}, {"name": "A"}]}), skip_missing=True
    )
    assert order(profiles) == ["A"]
    assert profiles.missing == {"Nope": ["profiles[0].plugins.filter.enabled[0].name"]}


def test_kube_schedulers_own_plugins_are_left_to_it() -> None:
    profiles = made(configuration([], postFilter={"enabled": [{"name": "DefaultPreemption"}]}))
    assert profiles.left_to_kube_scheduler == ["DefaultPreemption"]


def test_a_plugin_cannot_be_enabled_at_a_point_that_it_does_not_implement() -> None:
    with pytest.raises(ConfigError, match='plugin "A" does not extend bind plugin'):
        made(configuration([], bind={"enabled": [{"name": "A"}]}))


def test_a_plugin_cannot_be_enabled_twice_at_a_point() -> None:
    with pytest.raises(ConfigError, match='already registered as "filter"'):
        made(configuration([], filter={"enabled": [{"name": "A"}, {"name": "A"}]}))


def test_arguments_of_the_wrong_kind_are_refused() -> None:
    with pytest.raises(ConfigError, match=r'pluginConfig\[0\]\.args\.kind: got "BArgs", expected "AArgs"'):
        made(configuration(["A"], {"A": {"kind": "BArgs"}}))


def test_unknown_arguments_are_rejected() -> None:
    with pytest.raises(ConfigError, match=r"pluginConfig\[0\]\.args\.x: unknown field"):
        made(configuration(["A"], {"A": {"x": 1}}))


def test_a_standalone_scheduler_needs_a_queue_order_and_a_binder() -> None:
    with pytest.raises(ConfigError, match="exactly one queue sort plugin"):
        made(
            configuration([], queueSort={"disabled": [{"name": "*"}]}),
            place=Place.SCHEDULER,
            skip_missing=True,
        )
    profiles = made(configuration([]), place=Place.SCHEDULER, skip_missing=True)
    assert profiles.frameworks["default-scheduler"].queue_sort is not None


class Fit(A):
    name = "NodeResourcesFit"


class Shows(A):
    name = "Shows"
    reruns = ("NodeResourcesFit", "NodePorts")


def made_beside(config: SchedulerConfiguration) -> Profiles:
    classes = CLASSES | {"NodeResourcesFit": Fit, "Shows": Shows}
    return build(config, lambda _: Handle(world([])), place=Place.EXTENDER, classes=classes)


def test_in_tree_filters_run_again_beside_a_plugin_that_shows_other_nodes() -> None:
    assert order(made_beside(configuration(["A"]))) == ["A"]
    assert order(made_beside(configuration(["A", "Shows"]))) == ["NodeResourcesFit", "A", "Shows"]


def test_in_tree_filters_that_are_disabled_do_not_run_again() -> None:
    config = configuration(["Shows"], filter={"disabled": [{"name": "NodeResourcesFit"}]})
    assert order(made_beside(config)) == ["Shows"]


def test_the_whole_framework_has_the_same_plugins_and_those_in_tree() -> None:
    profiles = made_beside(configuration(["A"]))
    own, whole = profiles.of(""), profiles.whole_of("")
    assert own is not None
    assert whole is not None
    assert [plugin.name for plugin in own.plugins] == ["DefaultBinder", "A", "DefaultPreBind"]
    assert [name for name, _ in whole.enabled.at("filter", Filter)] == ["NodeResourcesFit", "A"]
    assert set(own.plugins) < set(whole.plugins)
    assert own.handle.framework is whole


def test_a_standalone_scheduler_is_already_whole() -> None:
    profiles = made(configuration(["A"]), place=Place.SCHEDULER, skip_missing=True)
    assert profiles.whole_of("") is profiles.of("") is not None


def test_every_installed_plugin_is_known_by_its_own_name() -> None:
    assert {"LoadAwareScheduling", "NodeResourcesFit", "DefaultBinder"} <= set(installed())
    assert all(cls.name == name for name, cls in installed().items())


def test_a_plugin_with_neither_form_of_a_point_cannot_be_defined() -> None:
    with pytest.raises(TypeError, match="must define filter or filter_nodes"):
        type("Half", (Plugin, Filter), {"name": "Half"})


def test_every_plugin_declares_what_it_implements() -> None:
    """A method of a role that a plugin does not inherit is never called."""
    roles = [
        each
        for each in vars(interface).values()
        if inspect.isclass(each)
        and each.__module__.startswith(interface.__name__)
        and not getattr(each, "_is_protocol", False)
    ]
    plugins = installed()
    assert "ElasticQuota" in plugins
    for name, plugin in plugins.items():
        declared = {method for role in roles if issubclass(plugin, role) for method in _methods(role)}
        for role in roles:
            own = _methods(role) - declared
            assert not own or not own <= set(dir(plugin)), f"{name} does not inherit {role.__name__}"


def _methods(role: type) -> set[str]:
    return {name for name, value in vars(role).items() if inspect.isfunction(value) and name[0] != "_"}
