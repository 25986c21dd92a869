from koordpy_plugins.collectors.resctrl.plugin import Resctrl
from tests.unit.plugins.collectors.node_files import NodeFiles

ON = {"enable-resctrl-collector": True}


def counters(node, qos, domain, **texts):
    for name, text in texts.items():
        node.write(node.sys / f"fs/resctrl/{qos}/mon_data/mon_L3_{domain}/{name}", f"{text}\n")


def test_cache_and_bandwidth_of_the_groups_that_exist(tmp_path):
    node = NodeFiles(tmp_path, Resctrl, flags=ON)
    (node.sys / "fs/resctrl/info/L3_MON").mkdir(parents=True)
    assert node.collector.idle_reason() is None
    counters(node, "LS", "00", llc_occupancy=4096, mbm_local_bytes=100, mbm_total_bytes=300)
    counters(node, "BE", "01", llc_occupancy="Unavailable", mbm_total_bytes=7)
    node.collect()
    assert node.values("resctrl_resource_llc", qos="LS", cache_id="0") == 4096
    assert node.missing("resctrl_resource_llc", qos="BE")
    bandwidth = {"cache_id": "1", "resctrl_mb_type": "mbm_total_bytes"}
    assert node.values("resctrl_resource_mb", qos="BE", **bandwidth) == 7
    assert node.missing("resctrl_resource_mb", qos="LSR")


def test_it_is_idle_without_the_flag_or_counters(tmp_path):
    assert NodeFiles(tmp_path, Resctrl).collector.idle_reason() == "--enable-resctrl-collector is false"
    assert "L3_MON does not exist" in NodeFiles(tmp_path, Resctrl, flags=ON).collector.idle_reason()
