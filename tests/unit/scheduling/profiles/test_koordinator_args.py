"""Files written for a koord-scheduler load unchanged, and errors in them are named."""

import json

import pytest

from koordpy.api.config_model import ConfigError
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.plugin import API_VERSION
from koordpy.scheduling.profiles import config
from koordpy.scheduling.profiles.profiles import Profiles
from koordpy.scheduling.profiles.registry import Place, build

from ..worlds import world

FILE = """
apiVersion: v1
kind: ConfigMap
metadata: {name: koord-scheduler-config}
data:
  koord-scheduler-config: |
    apiVersion: kubescheduler.config.k8s.io/v1
    kind: KubeSchedulerConfiguration
    leaderElection: {leaderElect: true, resourceLock: leases, resourceName: koord-scheduler}
    profiles:
    - schedulerName: koord-scheduler
      pluginConfig:
      - name: LoadAwareScheduling
        args:
          apiVersion: kubescheduler.config.k8s.io/v1
          kind: LoadAwareSchedulingArgs
          filterExpiredNodeMetrics: false
          usageThresholds: {cpu: 70, memory: 90}
          aggregated: {usageThresholds: {cpu: 60}, usageAggregationType: p95, usageAggregatedDuration: 5m0s}
      - name: ElasticQuota
        args: {kind: ElasticQuotaArgs, quotaGroupNamespace: quotas, delayEvictTime: 2m}
      - name: Coscheduling
        args: {kind: CoschedulingArgs, enablePreemption: true, awareNetworkTopology: true}
      - name: DeviceShare
        args: {kind: DeviceShareArgs, gpuShareUnsupportedModels: [{vendor: huawei, model: Duo}]}
      - name: NodeNUMAResource
        args: {kind: NodeNUMAResourceArgs, defaultCPUBindPolicy: SpreadByPCPUs}
      plugins:
        preEnqueue: {enabled: [{name: Coscheduling}]}
        queueSort: {disabled: [{name: "*"}], enabled: [{name: PrioritySort}]}
        preFilter: {enabled: [{name: SchedulingHint}, {name: NodeNUMAResource}, {name: ElasticQuota}]}
        filter: {enabled: [{name: LoadAwareScheduling}, {name: NodeNUMAResource}, {name: DeviceShare}]}
        postFilter: {disabled: [{name: "*"}], enabled: [{name: Coscheduling}, {name: DefaultPreemption}]}
        score: {enabled: [{name: LoadAwareScheduling, weight: 2}, {name: DeviceShare, weight: 1}]}
        reserve: {enabled: [{name: LoadAwareScheduling}, {name: ElasticQuota}]}
        permit: {enabled: [{name: Coscheduling}]}
        preBind: {enabled: [{name: NodeNUMAResource}, {name: DefaultPreBind}]}
        bind: {disabled: [{name: "*"}], enabled: [{name: DefaultBinder}]}
        postBind: {enabled: [{name: Coscheduling}]}
"""


def load(text: str) -> Profiles:
    cluster = world([])
    return build(
        config.parse(text),
        lambda _: Handle(cluster),
        place=Place.EXTENDER,
        skip_missing=True,
    )


def test_a_file_for_a_whole_koord_scheduler_loads_with_all_its_plugins() -> None:
    profiles = load(FILE)
    framework = profiles.frameworks["koord-scheduler"]
    enabled = {
        point: [plugin.name for plugin in plugins]
        for point, plugins in framework.enabled.enabled.items()
        if plugins
    }
    assert enabled == {
        "queue_sort": ["PrioritySort"],
        "pre_enqueue": ["Coscheduling"],
        "pre_filter": ["NodeResourcesFit", "SchedulingHint", "NodeNUMAResource", "ElasticQuota"],
        "filter": ["NodeResourcesFit", "LoadAwareScheduling", "NodeNUMAResource", "DeviceShare"],
        "post_filter": ["Coscheduling", "DefaultPreemption"],
        "score": ["LoadAwareScheduling", "DeviceShare"],
        "reserve": ["LoadAwareScheduling", "ElasticQuota"],
        "permit": ["Coscheduling"],
        "pre_bind": ["NodeNUMAResource", "DefaultPreBind"],
        "bind": ["DefaultBinder"],
        "post_bind": ["Coscheduling"],
    }
    assert framework.weights == {"LoadAwareScheduling": 2, "DeviceShare": 1}
    assert not profiles.missing


@pytest.mark.parametrize(
    ("right", "wrong", "problem"),
    [
        ("delayEvictTime: 2m", "delayEvictTime: soon", "[1].args.delayEvictTime: got"),
        ("delayEvictTime: 2m", "delayEvictTime: -1s", "[1].args.delayEvictTime: Invalid value"),
        ("kind: CoschedulingArgs", "kind: GangArgs", '[2].args.kind: got "GangArgs", expected "Cosch'),
        ("enablePreemption: true", "preempts: true", "[2].args.preempts: unknown field"),
        ("[{vendor: huawei, model: Duo}]", "Duo", "[3].args.gpuShareUnsupportedModels: got"),
        ("SpreadByPCPUs", "Pack", "must specified CPU bind policy FullPCPUs or SpreadByPCPUs"),
        ("cpu: 70", "cpu: 101", "resource Threshold of cpu should be less than 100, got 101"),
    ],
)
def test_wrong_arguments_are_refused_with_their_path(right: str, wrong: str, problem: str) -> None:
    assert right in FILE
    with pytest.raises(ConfigError) as caught:
        load(FILE.replace(right, wrong))
    assert problem in str(caught.value)
    assert "profiles[0].pluginConfig" in str(caught.value)


def test_every_wrong_plugin_is_named_at_once() -> None:
    text = FILE.replace("cpu: 70", "cpu: -1").replace("SpreadByPCPUs", "Pack")
    with pytest.raises(ConfigError) as caught:
        load(text)
    assert len(caught.value.problems) == 2


def test_a_file_may_be_json() -> None:
    document = {
        "apiVersion": API_VERSION,
        "kind": config.KIND,
        "profiles": [{"pluginConfig": [{"name": "ElasticQuota", "args": {"hookPlugins": [{"key": "k"}]}}]}],
    }
    assert "default-scheduler" in load(json.dumps(document)).frameworks
