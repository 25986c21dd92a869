import pytest

from koordpy.agent.cgroups import values
from koordpy.agent.cgroups.table import RESOURCES, Version, resource
from koordpy.agent.interface import InvalidValueError, UnsupportedError

V1, V2 = Version.V1, Version.V2
QOS = "253:16 enable=1 ctrl=user rpct=95 rlat=3000 wpct=95 wlat=4000"
MODEL = "253:16 ctrl=user rbps=3 rseqiops=1 rrandiops=3 wbps=2 wseqiops=3 wrandiops=3"


@pytest.mark.parametrize(
    ("name", "version", "value"),
    [
        ("cpu.shares", V1, "2"),
        ("cpu.shares", V2, "262144"),
        ("cpu.cfs_quota_us", V2, "-1"),
        ("cpu.cfs_burst_us", V2, "100000001"),
        ("cpu.bvt_warp_ns", V1, "-1"),
        ("memory.high", V2, "max"),
        ("memory.wmark_min_adj", V1, "-25"),
        ("blkio.throttle.read_iops_device", V1, "253:16 0"),
        ("blkio.cost.weight", V1, "253:16 100"),
        ("blkio.cost.qos", V1, QOS),
        ("blkio.cost.qos", V1, "253:16 enable=0"),
        ("blkio.cost.model", V1, MODEL),
        ("blkio.cost.model", V1, "253:16 ctrl=auto"),
        ("net_cls.classid", V1, "0x00010002"),
        ("oom_score_adj", V2, "-1000"),
        ("resctrl.schemata", V2, "MB:0=100;1=90"),
        ("vm.watermark_scale_factor", V2, "400"),
        ("sched_features", V2, "NO_ID_IDLE_AVG"),
    ],
)
def test_accepts(name, version, value):
    values.validate(resource(name), version, value)


@pytest.mark.parametrize(
    ("name", "version", "value"),
    [
        ("cpu.shares", V1, "1"),
        ("cpu.cfs_burst_us", V1, "100000001"),
        ("cpu.bvt_warp_ns", V2, "3"),
        ("cpu.stat", V1, "1"),
        ("cpuset.cpus", V1, "3-1"),
        ("memory.min", V2, ""),
        ("memory.priority", V1, "13"),
        ("blkio.throttle.read_iops_device", V1, "2048"),
        ("blkio.throttle.read_iops_device", V1, "253:16 x"),
        ("blkio.cost.weight", V1, "253:16 101"),
        ("blkio.cost.weight", V1, "253:16 0"),
        ("blkio.cost.model", V1, MODEL.replace("rbps=3", "rbps=0")),
        ("net_cls.classid", V1, "0x100000000"),
        ("oom_score_adj", V2, "1001"),
        ("resctrl.schemata", V2, "100"),
        ("vm.min_free_kbytes", V2, "10239"),
        ("sched_features", V2, "ID IDLE"),
    ],
)
def test_refuses(name, version, value):
    with pytest.raises(InvalidValueError):
        values.validate(resource(name), version, value)


@pytest.mark.parametrize(
    ("name", "version", "current", "text"),
    [
        ("cpu.cfs_quota_us", V2, "max 100000", "max"),
        ("cpu.cfs_period_us", V2, "max 50000", "max 50000"),
        ("cpuset.cpus", V1, "0,1,2", "0-2"),
        ("memory.high", V2, "max", "9223372036854775807"),
        ("memory.limit_in_bytes", V1, "9223372036854771712", "-1"),
        ("blkio.throttle.read_bps_device", V1, "8:0 5\n253:16 2048", "253:16 2048"),
        ("blkio.throttle.read_bps_device", V1, "8:0 5", "253:16 0"),
        ("resctrl.schemata", V2, "    MB:0=100;1=100\n    L3:0=00f;1=fff", "L3:0=f;1=fff"),
        ("sched_features", V2, "GENTLE NO_ID_IDLE_AVG", "NO_ID_IDLE_AVG"),
        ("net_cls.classid", V1, "65538", "0x00010002"),
    ],
)
def test_same_values_have_different_texts(name, version, current, text):
    assert values.same(resource(name), version, current, text)


@pytest.mark.parametrize(
    ("name", "current", "text"),
    [
        ("cpu.cfs_quota_us", "5000 100000", "max"),
        ("blkio.throttle.read_bps_device", "253:16 1", "253:16 0"),
        ("resctrl.schemata", "L3:0=f;1=f", "L3:0=f;1=ff"),
        ("sched_features", "ID_IDLE_AVG", "NO_ID_IDLE_AVG"),
        ("memory.high", "max", "4096"),
    ],
)
def test_different_values_are_not_the_same(name, current, text):
    assert not values.same(resource(name), V2, current, text)


def test_a_part_of_a_file_is_found_for_its_device_or_line():
    read_bps = resource("blkio.throttle.read_bps_device")
    assert values.part(read_bps, "253:16 2048") == "253:16"
    assert values.part_of(read_bps, V1, "8:0 5\n253:16 7", "253:16") == "253:16 7"
    assert values.part_of(read_bps, V1, "8:0 5", "253:16") == "253:16 0"
    schemata = resource("resctrl.schemata")
    assert values.part_of(schemata, V1, "    MB:0=100\n    L3:0=f", "L3") == "L3:0=f"


def test_a_period_keeps_the_quota_of_the_same_file_on_v2():
    assert values.to_text(resource("cpu.cfs_period_us"), V2, "50000", "7000 100000") == "7000 50000"


@pytest.mark.parametrize("shares", [2, 100, 1024, 262144])
def test_shares_survive_the_way_through_a_weight(shares):
    back = values.weight_to_shares(values.shares_to_weight(shares))
    assert abs(back - shares) <= 27


def test_resources_of_the_other_version_are_unsupported():
    with pytest.raises(UnsupportedError):
        resource("blkio.cost.weight").file(V2)
    with pytest.raises(UnsupportedError):
        resource("memory.pagecache_limit.size").file(V1)
    assert all(line.file(V1) or line.file(V2) for line in RESOURCES.values() if line.v1_file and line.v2_file)
