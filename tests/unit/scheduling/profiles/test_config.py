import pytest

from koordpy.api.config_model import ConfigError
from koordpy.scheduling.profiles import config

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

PROFILE = """profiles:
- schedulerName: koord-scheduler
  plugins:
    score:
      enabled:
      - {name: LoadAwareScheduling, weight: 3}
  pluginConfig:
  - name: LoadAwareScheduling
    args: {kind: LoadAwareSchedulingArgs, usageThresholds: {cpu: 50}}
"""


def problems(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        config.parse(text)
    return str(caught.value)


def test_a_bare_configuration_has_one_default_profile() -> None:
    assert [profile.scheduler_name for profile in config.parse(HEAD).profiles] == ["default-scheduler"]


def test_a_profile_is_read_from_a_bare_file_and_from_a_config_map() -> None:
    bare = config.parse(HEAD + PROFILE)
    indented = "".join(f"    {line}\n" for line in (HEAD + PROFILE).splitlines())
    wrapped = config.parse(
        f"kind: ConfigMap\napiVersion: v1\ndata:\n  notes: hello\n  any-key: |\n{indented}"
    )
    assert wrapped == bare
    score = bare.profiles[0].plugins
    assert score is not None
    assert [(ref.name, ref.weight) for ref in score.score.enabled] == [("LoadAwareScheduling", 3)]


def test_a_config_map_without_a_configuration_is_refused() -> None:
    assert "expected one KubeSchedulerConfiguration among its keys (a), found 0" in problems(
        "kind: ConfigMap\ndata: {a: 'kind: Other'}"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("profiles: [{pluginz: {}}]", "profiles[0].pluginz: unknown field"),
        ("parallelism: 0", "parallelism: got 0"),
        ("parallelism: many", 'parallelism: got "many"'),
        (
            "profiles: [{plugins: {filter: {enabled: [{name: 5}]}}}]",
            "profiles[0].plugins.filter.enabled[0].name",
        ),
        ("profiles: [{schedulerName: a}, {schedulerName: a}]", "profiles[1].schedulerName: Duplicate value"),
        (
            "profiles: [{pluginConfig: [{name: A}, {name: A}]}]",
            "profiles[0].pluginConfig[1]: repeated config for plugin A",
        ),
        ("profiles: []", "profiles: Required value"),
        ("extenders: [{urlPrefix: 'http://x', prioritizeVerb: p}]", "extenders[0].weight"),
        (
            "extenders: [{urlPrefix: a, bindVerb: b}, {urlPrefix: a, bindVerb: b}]",
            "found 2 extenders implementing bind",
        ),
        ("extenders: [{urlPrefix: a, httpTimeout: soon}]", "extenders[0].httpTimeout"),
        (
            "extenders: [{urlPrefix: a, managedResources: [{name: memory}]}]",
            'extenders[0].managedResources[0].name: Invalid value: "memory": is an invalid extended',
        ),
        (
            "extenders: [{urlPrefix: a, managedResources: [{name: a.io/x}]}, "
            "{urlPrefix: b, managedResources: [{name: a.io/x}]}]",
            'extenders[1].managedResources[0].name: Invalid value: "a.io/x": '
            "duplicate extender managed resource name",
        ),
        ("podInitialBackoffSeconds: 20", "podMaxBackoffSeconds"),
    ],
)
def test_wrong_fields_are_refused_with_their_path(text: str, expected: str) -> None:
    assert expected in problems(HEAD + text)


@pytest.mark.parametrize("text", ["", "[]", "a: b: c", "kind: KubeSchedulerConfiguration"])
def test_an_invalid_document_is_rejected(text: str) -> None:
    assert problems(text)


def test_durations_are_read_in_seconds() -> None:
    extenders = config.parse(HEAD + "extenders: [{urlPrefix: a, httpTimeout: 1m30s}]").extenders
    assert extenders[0].http_timeout == 90
