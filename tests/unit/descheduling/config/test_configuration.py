from collections.abc import Callable
from typing import Any

import pytest

from koordpy.api.config_model import ConfigError
from koordpy.descheduling.catalogue import installed
from koordpy.descheduling.config import defaulting
from koordpy.descheduling.config.configuration import (
    DeschedulerConfiguration,
    LeaderElection,
    PluginConfig,
    Plugins,
    Profile,
)
from koordpy.descheduling.config.decoding import DecodingError, Problem
from koordpy.descheduling.config.loading import load
from koordpy.descheduling.config.plugin_set import PluginSet
from koordpy.descheduling.config.validation import validate
from koordpy.lib import duration
from koordpy_plugins.descheduling.lownodeload.args import LowNodeLoadArgs

BARE = """
apiVersion: descheduler/v1alpha2
kind: DeschedulerConfiguration
deschedulingInterval: 10s
maxNoOfPodsToEvictPerNode: 5
nodeSelector: {matchLabels: {pool: online}}
profiles:
- name: koord-descheduler
  plugins:
    deschedule: {disabled: [{name: "*"}]}
    balance: {enabled: [{name: LowNodeLoad}]}
  pluginConfig:
  - name: LowNodeLoad
    args: {lowThresholds: {cpu: 45}}
"""


def wrapped(text: str) -> str:
    inner = "".join(f"    {line}\n" for line in text.strip().splitlines())
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n  koord-descheduler-config: |\n"
    return head + inner


@pytest.mark.parametrize("form", [str, wrapped], ids=["bare", "ConfigMap"])
def test_a_document_is_read_bare_or_from_a_config_map(form: Callable[[str], str]) -> None:
    config = load(form(BARE))
    assert config.descheduling_interval == 10 * duration.SECOND
    assert config.max_no_of_pods_to_evict_per_node == 5
    assert config.max_no_of_pods_to_evict_total is None
    assert config.profiles[0].plugins is not None
    assert config.profiles[0].plugins.balance.names == ["LowNodeLoad"]
    assert config.profiles[0].plugins.evict.names == ["MigrationController"]
    assert config.profiles[0].plugins.filter.names == ["MigrationController"]
    args = config.profiles[0].plugin_config[0].args
    assert isinstance(args, LowNodeLoadArgs)
    assert args.low_thresholds == {"cpu": 45}


def set_defaults(config: DeschedulerConfiguration) -> DeschedulerConfiguration:
    return defaulting.set_defaults(config, installed())


def test_an_empty_configuration_gets_one_profile_that_runs_once() -> None:
    config = load('{"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerConfiguration"}')
    assert [profile.name for profile in config.profiles] == ["koord-descheduler"]
    assert config.descheduling_interval == 0
    assert config.leader_election.lease_duration == 15 * duration.SECOND
    assert (config.client_connection.qps, config.client_connection.burst) == (50, 100)
    assert config.client_connection.content_type == "application/vnd.kubernetes.protobuf"
    assert config.enable_contention_profiling is True


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, "0.0.0.0:10251"),
        (":1", "0.0.0.0:1"),
        ("10.0.0.1", "10.0.0.1:10251"),
        ("::1", "[::1]:10251"),
        ("[::1]:80", "[::1]:80"),
        ("a:b:c", "a:b:c"),
        ("", ""),
    ],
)
def test_addresses_are_completed(given: str | None, expected: str) -> None:
    config = set_defaults(DeschedulerConfiguration(healthz_bind_address=given))
    assert config.healthz_bind_address == expected


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("profiles:", "profilez:", "profilez: unknown field"),
        ("pool: online", "pool: online}, matchLabel: {", r"nodeSelector\.matchLabel: unknown field"),
        ("10s", "10", "deschedulingInterval: got 10, expected a duration"),
        ("10s", "null", "deschedulingInterval: got null, expected a duration"),
        ("PerNode: 5", "PerNode: -5", "maxNoOfPodsToEvictPerNode: got -5, expected greater"),
        ("PerNode: 5", "PerNode: '5'", 'maxNoOfPodsToEvictPerNode: got "5", expected a valid integer'),
        (
            "deschedulingInterval",
            "dryRun: true\ndryRun: true\ndeschedulingInterval",
            "field 'dryRun' is given twice",
        ),
        ("deschedulingInterval", "descheduling_interval", "descheduling_interval: unknown field"),
        ("v1alpha2", "v1", 'apiVersion: got "descheduler/v1", expected "descheduler/v1alpha2"'),
        ("kind: Desch", "kind: D", 'kind: got "DedulerConfiguration", expected "DeschedulerConfiguration"'),
        ("pool: online", "'-': online", 'key: Invalid value: "-": name part must consist'),
        ("name: koord-descheduler", "name: ''\n- name: b", r"profiles\[0\]\.name: Required value"),
        ("profiles:", "profiles: [", "not YAML"),
    ],
)
def test_a_wrong_field_is_named_with_its_value(old: str, new: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(BARE.replace(old, new, 1))


def test_a_config_map_must_hold_one_configuration() -> None:
    with pytest.raises(ConfigError, match="ConfigMap 'c': expected one DeschedulerConfiguration"):
        load("{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {a: b}}")


def test_all_errors_are_collected() -> None:
    config = set_defaults(
        DeschedulerConfiguration(
            profiles=[Profile(name="a"), Profile(name="a")],
            healthz_bind_address="0.0.0.0:111:222",
            metrics_bind_address="0.0.0.0:",
        )
    )
    assert [str(error).split(":")[0] for error in validate(config)] == [
        "profiles[1].name",
        "healthzBindAddress",
        "metricsBindAddress",
    ]


def test_leader_election_times_must_be_positive_and_ordered() -> None:
    times: dict[str, Any] = {"lease_duration": "-1s", "renew_deadline": "-1s"}
    election = LeaderElection(**times, resource_name="")
    paths = [
        error.path for error in validate(set_defaults(DeschedulerConfiguration(leader_election=election)))
    ]
    assert paths == [
        "leaderElection.leaseDuration",
        "leaderElection.renewDeadline",
        "leaderElection.leaseDuration",
    ]
    off = election.model_copy(update={"leader_elect": False})
    assert validate(set_defaults(DeschedulerConfiguration(leader_election=off))) == []


def test_defaulting_leaves_the_given_configuration_alone() -> None:
    given = DeschedulerConfiguration(profiles=[Profile(plugins=Plugins(evict=PluginSet.of(["X"])))])
    set_defaults(given)
    assert given.profiles[0].name == ""
    assert given.profiles[0].plugins == Plugins(evict=PluginSet.of(["X"]))


def test_zero_times_and_empty_names_of_the_leader_election_are_left_out_ones() -> None:
    times: dict[str, Any] = {"lease_duration": "0s", "renew_deadline": "0s"}
    election = LeaderElection(**times, resource_lock="", resource_name="")
    assert (
        set_defaults(DeschedulerConfiguration(leader_election=election)).leader_election == LeaderElection()
    )


def test_a_negative_interval_counts_as_none() -> None:
    config = load(BARE.replace("10s", "-10s"))
    assert config.without_effect == ("deschedulingInterval -10s counts as 0: there is one cycle only",)


def test_arguments_of_plugins_that_do_not_run_are_named() -> None:
    args = "  - {name: LowNodeLoda, args: {}}\n  - {name: RemoveDuplicates, args: {}}\n"
    unknown, disabled = load(BARE + args).without_effect
    assert unknown.startswith("profiles[0].pluginConfig of LowNodeLoda has no effect: it is not installed: ")
    assert "did you mean LowNodeLoad?" in unknown
    assert disabled == (
        "profiles[0].pluginConfig of RemoveDuplicates has no effect: RemoveDuplicates is not enabled"
    )
    assert load(BARE).without_effect == ()


def test_a_configuration_that_enables_nothing_that_evicts_is_named() -> None:
    idle = BARE.replace("balance: {enabled: [{name: LowNodeLoad}]}", 'balance: {disabled: [{name: "*"}]}')
    without_arguments = idle[: idle.index("  pluginConfig")]
    assert load(without_arguments).without_effect == (
        "no profile enables a Deschedule or Balance plugin: rounds evict nothing",
    )


def document(args: str, name: str = "LowNodeLoad") -> str:
    start = BARE[: BARE.index("  - name: LowNodeLoad")]
    return f"{start}  - name: {name}\n    args: {args}\n"


@pytest.mark.parametrize(
    ("text", "problem", "fields"),
    [
        ("", Problem.KIND, ()),
        ("[]", Problem.DECODE, ()),
        ("{apiVersion: descheduler/v1alpha2}", Problem.DECODE, ()),
        ("kind: DeschedulerConfiguration", Problem.KIND, ()),
        ("kind: [x]", Problem.DECODE, ()),
        (BARE.replace("dule: {", "dule: {extra: null, "), Problem.STRICT, ('unknown field "'
         'profiles[0].plugins.deschedule.extra"',)),
        (BARE.replace("kind: DeschedulerConfiguration", "kind: LowNodeLoadArgs"), Problem.STRICT, (
            'unknown field "deschedulingInterval"',
            'unknown field "maxNoOfPodsToEvictPerNode"',
            'unknown field "profiles"',
        )),
        (document("{nodePools: [{Name: x}]}"), Problem.STRICT, ('unknown field "nodePools[0].Name"',)),
        (document("{nodePools: 1, x: 1}"), Problem.DECODE, ()),
        (document("[]"), Problem.DECODE, ()),
        (document("{kind: Bogus}"), Problem.DECODE, ()),
        (document("{kind: MigrationControllerArgs, apiVersion: descheduler/v1}"), Problem.DECODE, ()),
        (document("{kind: ScaleDownBinPackArgs, paused: true}"), Problem.ARGS_TYPE, ()),
        (document("{kind: ScaleDownBinPackArgs, dryRun: true}"), Problem.STRICT, ('unknown field "dryRun"',)),
        (
            '{"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerConfiguration", "b": 1, "a": 2, '
            '"dryRun": true, "dryRun": false}',
            Problem.STRICT,
            ('unknown field "b"', 'unknown field "a"', 'duplicate field "dryRun"'),
        ),
    ],
)  # fmt: skip
def test_errors_have_the_class_and_the_fields_that_kubernetes_finds(
    text: str, problem: Problem, fields: tuple[str, ...]
) -> None:
    with pytest.raises(DecodingError) as refused:
        load(text)
    assert refused.value.kind is problem
    assert refused.value.fields == fields


def test_nulls_are_absent_fields_and_zero_values_in_lists_and_maps() -> None:
    given = document(
        "{nodeFit: null, lowThresholds: {cpu: null}, evictableNamespaces: {include: [null, a]}, "
        "nodeSelector: {matchLabels: {a: null}, matchExpressions: null}, podSelectors: [null]}"
    )
    args = load(given).profiles[0].plugin_config[0].args
    assert isinstance(args, LowNodeLoadArgs)
    assert args.node_fit
    assert args.low_thresholds == {"cpu": 0}
    assert args.evictable_namespaces is not None
    assert args.evictable_namespaces.include == ["", "a"]
    assert args.node_selector is not None
    assert args.node_selector.match_labels == {"a": ""}
    assert len(args.pod_selectors) == 1


def test_arguments_of_plugins_that_are_not_strict_stay_as_they_are() -> None:
    config = load(document("{nodeFit: null, a: [1]}", "DefaultEvictor"))
    assert config.profiles[0].plugin_config[0].args == {"nodeFit": None, "a": [1]}


def test_enabled_plugins_without_arguments_get_the_defaults_in_order_of_their_names() -> None:
    config = load(BARE)
    names = [entry.name for entry in config.profiles[0].plugin_config]
    assert names == ["LowNodeLoad", "MigrationController"]
    given = DeschedulerConfiguration(
        profiles=[
            Profile(
                plugins=Plugins(
                    balance=PluginSet.of(["ScaleDownBinPack", "LowNodeLoad", "FragmentationAware"])
                ),
                plugin_config=[PluginConfig(name="ScaleDownBinPack", args=None)],
            )
        ]
    )
    names = [entry.name for entry in set_defaults(given).profiles[0].plugin_config]
    assert names == ["ScaleDownBinPack", "FragmentationAware", "LowNodeLoad", "MigrationController"]


def test_a_configuration_is_written_with_its_defaults() -> None:
    written = load(BARE.replace("lowThresholds", "kind: LowNodeLoadArgs, lowThresholds")).written()
    assert written["leaderElection"]["leaseDuration"] == "15s"
    assert "dryRun" not in written
    assert "maxNoOfPodsToEvictTotal" not in written
    (profile,) = written["profiles"]
    assert profile["plugins"]["deschedule"] == {}
    assert profile["plugins"]["evict"] == {"enabled": [{"name": "MigrationController"}]}
    args = profile["pluginConfig"][0]["args"]
    assert args["kind"] == "LowNodeLoadArgs"
    assert args["nodePools"] == [
        {
            "name": "__default_node_pool__",
            "lowThresholds": {"cpu": 45},
            "resourceWeights": {"cpu": 1, "memory": 1},
            "anomalyCondition": {
                "timeout": "1m0s",
                "consecutiveAbnormalities": 5,
                "consecutiveNormalities": 3,
            },
        }
    ]
