"""The ConfigMap of templates is read as a whole, or not at all."""

import pytest

from koordpy.api.core import ConfigMap
from koordpy.api.quantity import parse as quantity
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy_plugins.scheduling.deviceshare.templates import GPUSharedResourceTemplates, parse

TEXT = """
huawei-Ascend-310P:
  vir01: {koordinator.sh/gpu-memory: 3Gi, huawei.com/npu-core: 1}
  vir02: {koordinator.sh/gpu-memory: 6Gi, huawei.com/npu-core: "2"}
"""
VIR02 = {"koordinator.sh/gpu-memory": quantity("6Gi"), "huawei.com/npu-core": quantity("2")}


def config_map(text, name="templates"):
    return decode(ConfigMap, {"metadata": {"name": name, "namespace": "k"}, "data": {"data.yaml": text}})


def test_templates_match_amounts_exactly():
    cluster = Cluster()
    templates = cluster.shared(GPUSharedResourceTemplates, "k", "templates")
    store = cluster.store(ConfigMap)
    assert templates.matching(VIR02) == {}
    store.apply(config_map(TEXT))
    assert templates.matching(VIR02) == {"huawei-Ascend-310P": {"vir02"}}
    assert templates.matching({**VIR02, "x": quantity("1")}) == {}
    store.apply(config_map("[", name="other"))
    store.apply(config_map("huawei: {a: [b]}"))
    assert templates.matching(VIR02) == {"huawei-Ascend-310P": {"vir02"}}
    store.discard("k/templates")
    assert templates.matching(VIR02) == {}


def test_only_the_one_config_map_is_followed():
    cluster = Cluster()
    cluster.shared(GPUSharedResourceTemplates, "k", "templates")
    (store,) = cluster.stores
    assert (store.selector.namespace, store.selector.fields) == ("k", "metadata.name=templates")


@pytest.mark.parametrize("text", ["[1]", "a: 1", "a: {b: 1}", "a: {b: {c: x}}", "a: {b: {c: true}}"])
def test_what_is_no_table_of_templates_is_refused(text):
    with pytest.raises(ValueError, match="expected"):
        parse(text)
