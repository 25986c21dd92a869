"""Building profiles, the evictor that plugins see, and whole cycles, with small plugins."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar, Self

import pytest
from prometheus_client import REGISTRY
from pydantic import BaseModel

from koordpy.api.catalogue import Catalogue
from koordpy.api.config_model import ConfigError
from koordpy.api.core import Node, NodeSpec, NodeStatus, Pod, PodSpec
from koordpy.api.meta import Condition, LabelSelector, ObjectMeta
from koordpy.cluster.cluster import Cluster
from koordpy.descheduling.args import PluginArgs
from koordpy.descheduling.config.configuration import (
    DeschedulerConfiguration,
    PluginConfig,
    Plugins,
    Profile,
)
from koordpy.descheduling.config.plugin_set import PluginSet
from koordpy.descheduling.engine.descheduler import Descheduler
from koordpy.descheduling.engine.evictor import EvictorProxy
from koordpy.descheduling.engine.framework import GROUP
from koordpy.descheduling.engine.limiter import EvictionLimiter
from koordpy.descheduling.explain.decisions import Decisions, Outcome, Round
from koordpy.descheduling.interface import (
    SUCCESS,
    BalancePlugin,
    DeschedulePlugin,
    EvictOptions,
    EvictPlugin,
    FilterPlugin,
    Handle,
    Plugin,
    Refusal,
    Status,
)
from koordpy.lib.clock import FakeClock
from koordpy.lib.feature_gates import FeatureGates, FeatureSpec, Stage
from tests.eventually import PATIENCE

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Evictor(EvictPlugin, FilterPlugin):
    name = "Evictor"
    made: ClassVar[list["Evictor"]] = []

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self.calls: list[tuple[str, EvictOptions]] = []
        Evictor.made.append(self)

    def filter(self, pod: Pod) -> bool:
        return pod.metadata.namespace != "kube-system"

    def pre_eviction_filter(self, pod: Pod) -> bool:
        return pod.metadata.name != "kept"

    async def evict(self, pod: Pod, options: EvictOptions) -> bool | Refusal:
        self.calls.append((pod.metadata.key, options))
        return pod.metadata.name != "stuck"


class Raising(Evictor):
    """Raises for pods with the name of a point."""

    name = "Raising"

    def filter(self, pod: Pod) -> bool:
        return self._fail_for(pod, "filter")

    def pre_eviction_filter(self, pod: Pod) -> bool:
        return self._fail_for(pod, "now")

    async def evict(self, pod: Pod, options: EvictOptions) -> bool | Refusal:
        return self._fail_for(pod, "evict")

    @staticmethod
    def _fail_for(pod: Pod, name: str) -> bool:
        if pod.metadata.name == name:
            raise KeyError("boom")
        return True


class Args(PluginArgs):
    pods: list[str] = []
    error: str = ""
    interval: int = 0

    def adapted_to_interval(self, interval: int) -> Self:
        return self.model_copy(update={"interval": interval})


class Said(BaseModel):
    words: str


class Greedy(DeschedulePlugin, BalancePlugin):
    """Evicts the pods that its arguments name, at both points."""

    name = "Greedy"
    args: Args
    log: ClassVar[list[str]] = []

    def __init__(self, args: Args, handle: Handle) -> None:
        if "refuse" in args.error:
            raise ValueError("pods: Invalid value")
        super().__init__(args, handle)
        self.seen: list[str] = []
        self.answers: list[bool] = []

    async def deschedule(self, nodes: Sequence[Node]) -> Status:
        return await self._run("deschedule", nodes)

    async def balance(self, nodes: Sequence[Node]) -> Status:
        return await self._run("balance", nodes)

    async def _run(self, point: str, nodes: Sequence[Node]) -> Status:
        Greedy.log.append(f"{self.name} {point} {' '.join(node.metadata.name for node in nodes)}")
        self.handle.report(Said(words=f"{len(nodes)} nodes"))
        for key in self.args.pods:
            pod = self.handle.cluster.store(Pod).by_key(key)
            assert pod is not None
            if self.handle.evictor.filter(pod) and self.handle.evictor.pre_eviction_filter(pod):
                self.answers.append(await self.handle.evictor.evict(pod, EvictOptions(reason="greed")))
        if self.args.error:
            raise RuntimeError(self.args.error)
        return SUCCESS


class Other(Greedy):
    name = "Other"


CATALOGUE = Catalogue.of(GROUP, Plugin, [Evictor, Greedy, Other, Raising])


@pytest.fixture(autouse=True)
def _fresh() -> None:
    Evictor.made.clear()
    Greedy.log.clear()


def profile(name: str = "a", *, args: dict[str, Any] | None = None, **points: list[str]) -> Profile:
    sets = {"evict": ["Evictor"], "filter": ["Evictor"], **points}
    return Profile(
        name=name,
        plugins=Plugins(**{point: PluginSet.of(names) for point, names in sets.items()}),
        plugin_config=[PluginConfig(name=name, args=value) for name, value in (args or {}).items()],
    )


def node(name: str, *, ready: str | None = "True", labels: dict[str, str] | None = None) -> Node:
    conditions = [] if ready is None else [Condition(type="Ready", status=ready)]
    return Node(
        metadata=ObjectMeta(name=name, labels=labels or {}),
        spec=NodeSpec(unschedulable=name == "cordoned"),
        status=NodeStatus(conditions=conditions),
    )


def cluster_of(*nodes: Node, pods: Sequence[str] = ()) -> Cluster:
    cluster = Cluster(FakeClock(NOW))
    for item in nodes or (node("n1"), node("n2")):
        cluster.store(Node).apply(item)
    for key in pods:
        namespace, name = key.split("/")
        cluster.store(Pod).apply(
            Pod(metadata=ObjectMeta(namespace=namespace, name=name), spec=PodSpec(node_name="n1"))
        )
    return cluster


def descheduler(
    *profiles: Profile,
    cluster: Cluster | None = None,
    **settings: Any,
) -> Descheduler:
    config = DeschedulerConfiguration(profiles=list(profiles), **settings)
    return Descheduler(config, CATALOGUE, cluster or cluster_of())


def run(target: Descheduler) -> Round:
    return asyncio.run(target.run_once())


# --- building ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("built", "message"),
    [
        (
            profile(balance=["Nobody"]),
            r'^creating profile for descheduler name a: BalancePlugin "Nobody" does not exist; '
            r'got "Nobody", .*; expected one of Evictor, Greedy, Other, Raising$',
        ),
        (profile(balance=["Evictor"]), 'plugin "Evictor" does not extend BalancePlugin plugin'),
        (profile(evict=["Greedy"]), 'plugin "Greedy" does not extend EvictPlugin plugin'),
        (profile(balance=["Greedy"] * 2), 'plugin "Greedy" already registered as "BalancePlugin"'),
        (profile(evict=[]), "no evict plugin is enabled"),
        (
            profile(balance=["Greedy"], args={"Greedy": {"error": "refuse"}}),
            r'^creating profile for descheduler name a: initializing plugin "Greedy": plugin "Greedy" of .* '
            r"cannot be created: pods: Invalid value$",
        ),
        (
            profile(balance=["Greedy"], args={"Greedy": {"pod": []}}),
            'initializing plugin "Greedy": pod: unknown field',
        ),
        (
            profile(balance=["Greedy"], args={"Greedy": {"pods": 1}}),
            'initializing plugin "Greedy": pods: got 1,',
        ),
        (
            profile(balance=["Greedy"], args={"Greedy": {"kind": "OtherArgs"}}),
            'initializing plugin "Greedy": kind: got "OtherArgs", expected "GreedyArgs"',
        ),
        (Profile(name="a"), 'plugins required for profile with descheduler name "a"'),
        (profile(""), "descheduler name is needed"),
    ],
)
def test_a_profile_that_cannot_run_says_why(built: Profile, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        descheduler(built)


def test_two_profiles_of_one_name_and_none_at_all_are_refused() -> None:
    with pytest.raises(ConfigError, match='duplicate profile with descheduler name "a"'):
        descheduler(profile(), profile())
    with pytest.raises(ConfigError, match="at least one profile is required"):
        descheduler()


def test_repeated_arguments_of_a_plugin_are_refused() -> None:
    twice = [PluginConfig(name="Greedy"), PluginConfig(name="Greedy")]
    repeated = profile().model_copy(update={"plugin_config": twice})
    with pytest.raises(ConfigError, match=r"name a: repeated config for plugin Greedy$"):
        descheduler(repeated)


def test_a_plugin_at_several_points_is_made_once() -> None:
    framework = descheduler(profile(deschedule=["Greedy"], balance=["Greedy"])).frameworks[0]
    assert len(Evictor.made) == 1
    assert list(framework.deschedule_plugins) == list(framework.balance_plugins)


def test_the_interval_reaches_the_arguments() -> None:
    built = descheduler(profile(balance=["Greedy"]), descheduling_interval="7ns")
    plugin = built.frameworks[0].balance_plugins[0]
    assert isinstance(plugin, Greedy)
    assert plugin.args.interval == 7


class Gated(Greedy):
    name = "Gated"
    feature = "Gating"
    feature_gates: ClassVar[dict[str, FeatureSpec]] = {"Gating": FeatureSpec(False, Stage.ALPHA)}


def test_a_plugin_whose_gate_is_off_cannot_be_enabled() -> None:
    config = DeschedulerConfiguration(profiles=[profile(balance=["Gated"])])
    known = CATALOGUE.including(Gated)
    specs = known.feature_gates({})
    with pytest.raises(ConfigError, match="Gated is enabled, and its feature gate Gating is off"):
        Descheduler(config, known, cluster_of(), gates=FeatureGates(specs))
    built = Descheduler(config, known, cluster_of(), gates=FeatureGates(specs, {"Gating": True}))
    assert [plugin.name for plugin in built.frameworks[0].balance_plugins] == ["Gated"]


def test_a_profile_with_an_invalid_selector_of_nodes_ends_every_cycle() -> None:
    bad = LabelSelector(match_labels={"-": "x"})
    target = descheduler(
        profile("a", deschedule=["Greedy"]),
        profile("b", deschedule=["Greedy"]).model_copy(update={"node_selector": bad}),
        profile("c", deschedule=["Greedy"]),
        cluster=cluster_of(),
    )
    current = run(target)
    assert [made.profile for made in current.runs] == ["a"]
    assert current.error is not None
    assert current.error.startswith('profile b: invalid nodeSelector: key: Invalid value: "-": name part')


class Curious(Greedy):
    """Records pods by node, and the nodes of its profile."""

    name = "Curious"

    async def _run(self, point: str, nodes: Sequence[Node]) -> Status:
        self.handle.report(Said(words=" ".join(node.metadata.name for node in self.handle.nodes())))
        for node in nodes:
            names = [pod.metadata.name for pod in self.handle.pods.active_on(node.metadata.name)]
            self.handle.report(Said(words=f"{node.metadata.name}: {' '.join(names)}"))
        return SUCCESS


def test_the_handle_knows_the_profiles_nodes_and_their_pods() -> None:
    pool = LabelSelector(match_labels={"pool": "x"})
    narrow = profile(balance=["Curious"]).model_copy(update={"node_selector": pool})
    marked = {"pool": "x"}
    nodes = (node("n1", labels=marked), node("n2", labels=marked, ready="False"), node("n3"))
    cluster = cluster_of(*nodes, pods=["a/2", "a/1"])
    current = run(
        Descheduler(DeschedulerConfiguration(profiles=[narrow]), CATALOGUE.including(Curious), cluster)
    )
    words = [detail.words for detail in current.runs[0].details if isinstance(detail, Said)]
    assert words == ["n1 n2", "n1: 1 2"]


# --- evicting ------------------------------------------------------------------------------------


def test_the_filters_of_all_profiles_are_asked_about_a_pod_that_waits_for_a_node() -> None:
    target = descheduler(profile("a", balance=["Greedy"]), profile("b", balance=["Greedy"]))
    waiting = Pod(metadata=ObjectMeta(namespace="kube-system", name="p"))
    assert [(each.profile, each.evictable, each.by) for each in target.verdicts(waiting)] == [
        ("a", False, "Evictor"),
        ("b", False, "Evictor"),
    ]


def outcomes(current: Round) -> list[tuple[str, Outcome]]:
    return [(item.pod, item.outcome) for item in current.evictions]


def greedy(*pods: str, error: str = "") -> Profile:
    return profile(balance=["Greedy"], args={"Greedy": {"pods": list(pods), "error": error}})


def test_evictions_carry_the_plugin_and_its_reason() -> None:
    run(descheduler(greedy("a/1"), cluster=cluster_of(pods=["a/1"])))
    assert Evictor.made[0].calls == [("a/1", EvictOptions(plugin_name="Greedy", reason="greed"))]


def test_filters_limits_and_rejections_are_distinguished() -> None:
    pods = ["kube-system/1", "a/kept", "a/stuck", "a/1", "a/2"]
    target = descheduler(greedy(*pods), cluster=cluster_of(pods=pods), max_no_of_pods_to_evict_total=1)
    current = run(target)
    assert outcomes(current) == [
        ("a/stuck", Outcome.REFUSED),
        ("a/1", Outcome.EVICTED),
        ("a/2", Outcome.LIMITED),
    ]
    assert [item.detail for item in current.evictions] == [
        "Evictor did not evict it, and gave no reason",
        "",
        "maxNoOfPodsToEvictTotal=1 is reached",
    ]
    [plugin] = target.frameworks[0].balance_plugins
    assert isinstance(plugin, Greedy)
    assert plugin.answers == [False, True, False]
    assert outcomes(run(target))[1] == ("a/1", Outcome.EVICTED)


def test_candidates_that_filters_refuse_are_recorded_with_their_reasons() -> None:
    pods = ["kube-system/1", "a/kept", "a/1"]
    [record] = run(descheduler(greedy(*pods), cluster=cluster_of(pods=pods))).runs
    assert [(item.pod, item.node, item.by, item.reason) for item in record.not_evicted] == [
        ("kube-system/1", "n1", "Evictor", "Evictor does not allow it"),
        ("a/kept", "n1", "Evictor", "Evictor does not allow it now"),
    ]
    assert [(item.outcome, item.by, item.pods) for item in record.not_evicted_counts] == [
        ("filtered", "Evictor", 2)
    ]
    assert [(item.outcome, item.pods) for item in record.attempts] == [("evicted", 1)]


class Reluctant(Evictor):
    name = "Reluctant"

    async def evict(self, pod: Pod, options: EvictOptions) -> bool | Refusal:
        return Refusal(f"maxMigratingPerNode is reached on {pod.spec.node_name}")


def test_the_reason_of_the_evict_plugin_is_recorded() -> None:
    reluctant = profile(evict=["Reluctant"], balance=["Greedy"], args={"Greedy": {"pods": ["a/1"]}})
    config = DeschedulerConfiguration(profiles=[reluctant])
    [attempt] = run(Descheduler(config, CATALOGUE.including(Reluctant), cluster_of(pods=["a/1"]))).evictions
    assert (attempt.outcome, attempt.detail) == ("refused", "maxMigratingPerNode is reached on n1")


def test_an_exception_of_a_filter_or_evict_plugin_refuses_that_pod_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pods = ["a/filter", "a/now", "a/evict", "a/1"]
    raising = profile(
        balance=["Greedy"], args={"Greedy": {"pods": pods}}, evict=["Raising"], filter=["Raising"]
    )
    target = descheduler(raising, cluster=cluster_of(pods=pods))
    current = run(target)
    [greedy_run] = current.runs
    assert greedy_run.error == current.error == ""
    assert outcomes(current) == [("a/evict", Outcome.REFUSED), ("a/1", Outcome.EVICTED)]
    assert current.evictions[0].detail == "running Evict plugin \"Raising\": KeyError: 'boom'"
    assert [(item.pod, item.reason) for item in greedy_run.not_evicted] == [
        ("a/filter", "running Filter plugin \"Raising\": KeyError: 'boom'"),
        ("a/now", "running PreEvictionFilter plugin \"Raising\": KeyError: 'boom'"),
    ]
    pod = target.pod("a/filter")
    assert pod is not None
    [verdict] = target.verdicts(pod)
    assert (verdict.evictable, verdict.by) == (False, "Raising")
    assert "KeyError: 'boom'" in verdict.reason
    assert [record.getMessage() for record in caplog.records if record.exc_info] == [
        f"profile a: pod {key}: running {point} plugin \"Raising\": KeyError: 'boom'"
        for key, point in (("a/filter", "Filter"), ("a/now", "PreEvictionFilter"), ("a/evict", "Evict"))
    ]


def test_dry_run_writes_nothing_and_counts_against_the_limits() -> None:
    pods = ["a/stuck", "a/1"]
    target = descheduler(
        greedy(*pods), cluster=cluster_of(pods=pods), dry_run=True, max_no_of_pods_to_evict_per_node=1
    )
    current = run(target)
    assert outcomes(current) == [("a/stuck", Outcome.DRY_RUN), ("a/1", Outcome.LIMITED)]
    assert current.dry_run
    assert Evictor.made[0].calls == []
    [plugin] = target.frameworks[0].balance_plugins
    assert isinstance(plugin, Greedy)
    assert plugin.answers == [True, False]


async def test_an_eviction_before_the_profile_is_ready_is_an_error() -> None:
    proxy = EvictorProxy(EvictionLimiter(), Decisions(), dry_run=True)
    pod = Pod(metadata=ObjectMeta(namespace="a", name="p"))
    with pytest.raises(RuntimeError, match=r"^pod a/p: eviction was requested before .* was ready$"):
        await proxy.evict(pod, EvictOptions())


def evicted_metric(result: str) -> float:
    labels = {"result": result, "strategy": "Greedy", "namespace": "a", "node": "n1"}
    return REGISTRY.get_sample_value("descheduler_pods_evicted", labels) or 0.0


@pytest.mark.parametrize(
    ("limit", "result"),
    [
        ("max_no_of_pods_to_evict_per_node", "maximum number of pods per node reached"),
        ("max_no_of_pods_to_evict_per_namespace", "maximum number of pods per namespace reached"),
        ("max_no_of_pods_to_evict_total", "maximum number of pods in total reached"),
    ],
)
@pytest.mark.parametrize("dry_run", [False, True])
def test_limits_are_counted_as_results_of_evictions_except_in_dry_runs(
    limit: str, result: str, dry_run: bool
) -> None:
    pods, before = ["a/1", "a/2"], evicted_metric(result)
    settings: dict[str, Any] = {limit: 1, "dry_run": dry_run}
    run(descheduler(greedy(*pods), cluster=cluster_of(pods=pods), **settings))
    assert evicted_metric(result) - before == (0 if dry_run else 1)


def test_candidates_are_counted_by_outcome() -> None:
    def counted() -> dict[str, float]:
        name = "koordpy_descheduler_candidates_total"
        return {
            outcome: REGISTRY.get_sample_value(name, {"plugin": "Greedy", "outcome": outcome}) or 0.0
            for outcome in ("evicted", "refused", "filtered", "limited")
        }

    pods, before = ["kube-system/1", "a/kept", "a/stuck", "a/1", "a/2"], counted()
    run(descheduler(greedy(*pods), cluster=cluster_of(pods=pods), max_no_of_pods_to_evict_total=1))
    assert {outcome: number - before[outcome] for outcome, number in counted().items()} == {
        "evicted": 1,
        "refused": 1,
        "filtered": 2,
        "limited": 1,
    }


# --- cycles --------------------------------------------------------------------------------------


def test_deschedule_plugins_of_all_profiles_run_before_any_balance_plugin() -> None:
    both: dict[str, Any] = {"deschedule": ["Other", "Greedy"], "balance": ["Greedy"]}
    run(descheduler(profile("b", **both), profile("a", balance=["Other"])))
    assert Greedy.log == [
        "Other deschedule n1 n2",
        "Greedy deschedule n1 n2",
        "Greedy balance n1 n2",
        "Other balance n1 n2",
    ]


def test_a_failing_plugin_ends_the_cycle_after_the_others_of_its_profile_and_point() -> None:
    failing = profile(
        deschedule=["Greedy", "Other"],
        balance=["Other"],
        args={"Greedy": {"error": "first"}, "Other": {"error": "second"}},
    )
    current = run(descheduler(failing, profile("b", deschedule=["Other"])))
    first = 'running Deschedule plugin "Greedy": RuntimeError: first'
    second = 'running Deschedule plugin "Other": RuntimeError: second'
    assert [run.error for run in current.runs] == [first, second]
    assert current.error == f"[{first}, {second}]"


def test_a_failing_balance_plugin_keeps_later_profiles_from_balancing() -> None:
    failing = profile(balance=["Greedy", "Other"], args={"Greedy": {"error": "first"}})
    current = run(descheduler(failing, profile("b", deschedule=["Other"], balance=["Other"])))
    assert [(run.profile, run.point) for run in current.runs] == [
        ("b", "Deschedule"),
        ("a", "Balance"),
        ("a", "Balance"),
    ]


def test_a_round_can_be_read_as_json() -> None:
    current = run(descheduler(greedy("a/1"), cluster=cluster_of(pods=["a/1"])))
    shown = current.model_dump(mode="json")
    assert shown["nodes"] == 2
    assert shown["runs"][0]["details"] == [{"words": "2 nodes"}]
    assert shown["runs"][0]["evictions"][0]["outcome"] == "evicted"


def test_only_the_last_rounds_are_kept() -> None:
    target = descheduler(profile())
    for _ in range(25):
        run(target)
    assert [item.number for item in target.decisions.rounds] == list(range(6, 26))


@pytest.mark.parametrize(
    ("settings", "seen"),
    [
        ({}, "cordoned n1 n3 unknown"),
        ({"node_selector": LabelSelector(match_labels={"pool": "x"})}, "n1 n3"),
    ],
)
def test_ready_nodes_are_processed_by_name(settings: dict[str, Any], seen: str) -> None:
    labels = {"pool": "x"}
    cluster = cluster_of(
        node("n3", labels=labels),
        node("n2", ready="Unknown", labels=labels),
        node("unknown", ready=None),
        node("n1", labels=labels),
        node("cordoned"),
    )
    run(descheduler(profile(balance=["Greedy"]), cluster=cluster, **settings))
    assert Greedy.log == [f"Greedy balance {seen}"]


def test_a_profile_sees_the_nodes_that_it_selects() -> None:
    pool = LabelSelector(match_labels={"pool": "x"})
    narrow = profile(balance=["Greedy"]).model_copy(update={"node_selector": pool})
    run(descheduler(narrow, cluster=cluster_of(node("n1"), node("n2", labels={"pool": "x"}))))
    assert Greedy.log == ["Greedy balance n2"]


def test_a_cluster_of_one_node_is_not_descheduled() -> None:
    current = run(descheduler(profile(balance=["Greedy"]), cluster=cluster_of(node("n1"))))
    assert current.error.startswith("cluster size is 0 or 1")
    assert Greedy.log == []


def sleeper(clock: FakeClock, log: list[float]) -> Callable[[float], Any]:
    async def sleep(seconds: float) -> None:
        log.append(seconds)
        if len(log) == 3:
            raise asyncio.CancelledError
        clock.advance(seconds)

    return sleep


class Slow(Greedy):
    """Takes longer from run to run."""

    name = "Slow"

    async def _run(self, point: str, nodes: Sequence[Node]) -> Status:
        self.seen.append(point)
        clock = self.handle.clock
        assert isinstance(clock, FakeClock)
        clock.advance(len(self.seen) * 4)
        return SUCCESS


async def test_the_interval_is_counted_from_start_to_start() -> None:
    cluster = cluster_of()
    times: dict[str, Any] = {"descheduling_interval": "10s"}
    config = DeschedulerConfiguration(profiles=[profile(balance=["Slow"])], **times)
    target = Descheduler(config, Catalogue.of(GROUP, Plugin, [Evictor, Slow]), cluster)
    slept: list[float] = []
    assert isinstance(cluster.clock, FakeClock)
    with pytest.raises(asyncio.CancelledError):
        await target.run(sleeper(cluster.clock, slept))
    assert slept == [6.0, 2.0, 0.0]


async def test_without_an_interval_there_is_one_cycle() -> None:
    target = descheduler(profile())
    await target.serve()
    assert len(target.decisions.rounds) == 1


class Failing(BalancePlugin):
    """Returns an error."""

    name = "Failing"

    async def balance(self, nodes: Sequence[Node]) -> Status:
        return Status("no data")


class Forgetful(BalancePlugin):
    """Returns nothing, as untyped code may."""

    name = "Forgetful"

    async def balance(self, nodes: Sequence[Node]) -> Status:
        return None  # type: ignore[return-value]


def test_statuses_with_errors_are_the_rounds_errors() -> None:
    known = CATALOGUE.including(Failing).including(Forgetful)
    config = DeschedulerConfiguration(profiles=[profile(balance=["Failing", "Forgetful", "Greedy"])])
    current = run(Descheduler(config, known, cluster_of()))
    assert [each.error for each in current.runs] == [
        "no data",
        "the plugin returned None, expected a Status, such as SUCCESS",
        "",
    ]
    assert current.error == f"[no data, {current.runs[1].error}]"


class Keeper(Evictor):
    """Has a loop of its own, and runs the profile's plugins from it."""

    name = "Keeper"
    statuses: ClassVar[list[Status]] = []

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        handle.run_while_leading("keeping", self.keep)

    async def keep(self) -> None:
        Keeper.statuses.append(await self.handle.plugins.run_balance_plugins(self.handle.nodes()))
        await asyncio.Event().wait()


async def test_a_plugins_loop_runs_besides_the_cycles_and_goes_on_after_the_only_one() -> None:
    Keeper.statuses.clear()
    config = DeschedulerConfiguration(profiles=[profile(evict=["Keeper"], balance=["Failing"])])
    target = Descheduler(config, CATALOGUE.including(Failing).including(Keeper), cluster_of())
    assert not target.ends
    serving = asyncio.create_task(target.serve())
    async with asyncio.timeout(PATIENCE):
        while not Keeper.statuses or not target.decisions.rounds:
            await asyncio.sleep(0)
    assert Keeper.statuses == [Status("no data")]
    assert not serving.done()
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
