from collections.abc import Callable
from typing import Any

import pytest

from koordpy.api.config_model import ConfigError
from koordpy.descheduling.config.configuration import (
    DeschedulerConfiguration,
    LeaderElection,
    Plugins,
    Profile,
    load,
    set_defaults,
    validate,
)
from koordpy.descheduling.config.plugin_set import PluginSet
from koordpy.lib import duration

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
    assert config.profiles[0].plugin_config[0].args == {"lowThresholds": {"cpu": 45}}


def test_an_empty_configuration_gets_one_profile_that_runs_once() -> None:
    config = load("{apiVersion: descheduler/v1alpha2, kind: DeschedulerConfiguration}")
    assert [profile.name for profile in config.profiles] == ["koord-descheduler"]
    assert config.descheduling_interval == 0
    assert config.leader_election.lease_duration == 15 * duration.SECOND
    assert (config.client_connection.qps, config.client_connection.burst) == (50, 100)
    assert config.client_connection.content_type == "application/vnd.kubernetes.protobuf"
    assert config.enable_contention_profiling is True


@pytest.mark.parametrize(
    ("given", "expected"),
    [(None, "0.0.0.0:10251"), (":1", "0.0.0.0:1"), ("10.0.0.1", "10.0.0.1:10251"), ("a:b:c", "a:b:c")],
)
def test_addresses_are_completed(given: str | None, expected: str) -> None:
    config = set_defaults(DeschedulerConfiguration(healthz_bind_address=given))
    assert config.healthz_bind_address == expected


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("profiles:", "profilez:", "profilez: unknown field"),
        ("pool: online", "pool: online}, matchLabel: {", "nodeSelector.*unknown field 'matchLabel'"),
        ("10s", "10", "deschedulingInterval: got 10, expected a duration"),
        ("10s", "-1s", "deschedulingInterval: Invalid value"),
        ("PerNode: 5", "PerNode: -5", "maxNoOfPodsToEvictPerNode: got -5, expected greater"),
        ("PerNode: 5", "PerNode: '5'", 'maxNoOfPodsToEvictPerNode: got "5", expected a valid integer'),
        ("deschedulingInterval", "dryRun: true\ndryRun", "field 'dryRun' is given twice"),
        ("deschedulingInterval", "descheduling_interval", "descheduling_interval: unknown field"),
        ("v1alpha2", "v1", 'apiVersion: got "descheduler/v1", expected "descheduler/v1alpha2"'),
        ("kind: Desch", "kind: D", 'kind: got "DedulerConfiguration", expected "DeschedulerConfiguration"'),
        ("pool: online", "'-': online", "nodeSelector: Invalid value"),
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
    times: dict[str, Any] = {"lease_duration": "0s", "renew_deadline": "0s"}
    election = LeaderElection(**times, resource_name="")
    paths = [
        error.path for error in validate(set_defaults(DeschedulerConfiguration(leader_election=election)))
    ]
    assert paths == [
        "leaderElection.leaseDuration",
        "leaderElection.renewDeadline",
        "leaderElection.leaseDuration",
        "leaderElection.resourceName",
    ]
    off = election.model_copy(update={"leader_elect": False})
    assert validate(set_defaults(DeschedulerConfiguration(leader_election=off))) == []


def test_defaulting_leaves_the_given_configuration_alone() -> None:
    given = DeschedulerConfiguration(profiles=[Profile(plugins=Plugins(evict=PluginSet.of(["X"])))])
    set_defaults(given)
    assert given.profiles[0].name == ""
    assert given.profiles[0].plugins == Plugins(evict=PluginSet.of(["X"]))
