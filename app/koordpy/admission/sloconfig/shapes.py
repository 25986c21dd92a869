"""Which fields the configurations have, of which type, and what values they may take.

A field is `json name`, `type` and checks; the name in messages is the Go name, which follows from the JSON
name. Source: Koordinator, `apis/configuration/slo_controller_config.go`, `apis/slo/v1alpha1/nodeslo.go` and
`pkg/util/sloconfig/validator.go`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

Number = int | float


class Kind(Enum):
    """How a JSON value is read. INT_OR_QUANTITY is a percentage or an amount."""

    BOOL = "bool"
    INT = "int64"
    INT32 = "int32"
    FLOAT = "float64"
    STRING = "string"
    QUANTITY = "quantity"
    INT_OR_STRING = "int or string"
    BOOLS = "object of booleans"
    OBJECT = "object"
    LIST = "list"


@dataclass(frozen=True)
class Field:
    """A field that holds a value. `above` and `below` name the field that bounds it, both or none set."""

    name: str
    kind: Kind = Kind.INT
    minimum: Number | None = None
    maximum: Number | None = None
    greater_than: Number | None = None
    above: str = ""
    below: str = ""

    @property
    def go_name(self) -> str:
        """The name in messages."""
        return go_name(self.name)


@dataclass(frozen=True)
class Shape:
    """An object: its fields, and the objects in it. `path` is what its fields' paths have in front."""

    fields: Mapping[str, Field]
    shapes: Mapping[str, "Shape"] = field(default_factory=dict)
    path: str = ""


@dataclass(frozen=True)
class ConfigKind:
    """A key of the ConfigMap: the label and the root of its messages, and where its strategies are.

    `cluster` is empty where the cluster's strategy is the configuration itself.
    """

    key: str
    label: str
    root: str
    shape: Shape
    cluster: str
    nodes: str
    cluster_path: str
    nodes_path: str
    strategy_path: str


_UPPER: Final = ("cpu", "cat", "mba", "cfs")


def go_name(name: str) -> str:
    """Return the Go name of a JSON name."""
    prefix = next((prefix for prefix in _UPPER if name.startswith(prefix)), name[:1])
    return prefix.upper() + name[len(prefix) :]


def _fields(*fields: Field) -> dict[str, Field]:
    return {item.name: item for item in fields}


def _percent(name: str, **checks: str) -> Field:
    return Field(name, minimum=0, maximum=100, above=checks.get("above", ""), below=checks.get("below", ""))


def _plain(kind: Kind, *names: str) -> tuple[Field, ...]:
    return tuple(Field(name, kind) for name in names)


def _at_least(minimum: int, *names: str) -> tuple[Field, ...]:
    return tuple(Field(name, minimum=minimum) for name in names)


COLOCATION: Final = Shape(
    _fields(
        *_plain(Kind.BOOL, "enable"),
        *_plain(
            Kind.STRING,
            "metricMemoryCollectPolicy",
            "cpuCalculatePolicy",
            "memoryCalculatePolicy",
            "midReclaimMode",
        ),
        *_plain(Kind.OBJECT, "metricAggregatePolicy", "extensions"),
        *_at_least(
            1,
            "metricAggregateDurationSeconds",
            "metricReportIntervalSeconds",
            "degradeTimeMinutes",
            "updateTimeThresholdSeconds",
        ),
        *_at_least(
            0,
            "cpuReclaimThresholdPercent",
            "memoryReclaimThresholdPercent",
            "batchCPUThresholdPercent",
            "batchMemoryThresholdPercent",
        ),
        Field("resourceDiffThreshold", Kind.FLOAT, greater_than=0, maximum=1),
        *map(
            _percent,
            (
                "midCPUThresholdPercent",
                "midMemoryThresholdPercent",
                "midUnallocatedPercent",
                "midStaticCPUReservedPercent",
                "midStaticMemoryReservedPercent",
            ),
        ),
    )
)

THRESHOLD: Final = Shape(
    _fields(
        *_plain(Kind.BOOL, "enable"),
        *_plain(Kind.STRING, "cpuSuppressPolicy", "cpuEvictPolicy"),
        *_plain(Kind.INT32, "evictEnabledPriorityThreshold"),
        _percent("cpuSuppressThresholdPercent"),
        _percent("cpuSuppressMinPercent"),
        _percent("memoryEvictThresholdPercent", above="memoryEvictLowerPercent"),
        _percent("memoryEvictLowerPercent", below="memoryEvictThresholdPercent"),
        Field(
            "memoryAllocatableEvictThresholdPercent", minimum=0, above="memoryAllocatableEvictLowerPercent"
        ),
        Field(
            "memoryAllocatableEvictLowerPercent", minimum=0, below="memoryAllocatableEvictThresholdPercent"
        ),
        _percent("cpuEvictBESatisfactionUpperPercent", above="cpuEvictBESatisfactionLowerPercent"),
        _percent("cpuEvictBESatisfactionLowerPercent", below="cpuEvictBESatisfactionUpperPercent"),
        _percent("cpuEvictBEUsageThresholdPercent"),
        Field("cpuEvictTimeWindowSeconds", greater_than=0),
        _percent("cpuEvictThresholdPercent", above="cpuEvictLowerPercent"),
        _percent("cpuEvictLowerPercent", below="cpuEvictThresholdPercent"),
        Field("cpuAllocatableEvictThresholdPercent", minimum=0, above="cpuAllocatableEvictLowerPercent"),
        Field("cpuAllocatableEvictLowerPercent", minimum=0, below="cpuAllocatableEvictThresholdPercent"),
        Field("allocatableEvictPriorityThreshold", Kind.INT32, minimum=0, maximum=7999),
    )
)

NETWORK_FIELDS: Final = ("ingressRequest", "ingressLimit", "egressRequest", "egressLimit")

_CLASS: Final = {
    "cpuQOS": Shape(
        _fields(
            *_plain(Kind.BOOL, "enable", "coreExpeller"),
            Field("groupIdentity", minimum=-1, maximum=2),
            Field("schedIdle", minimum=0, maximum=1),
        ),
        path="CPUQOS.CPUQOS.",
    ),
    "memoryQOS": Shape(
        _fields(
            *_plain(Kind.BOOL, "enable"),
            *map(
                _percent,
                (
                    "minLimitPercent",
                    "lowLimitPercent",
                    "throttlingPercent",
                    "wmarkRatio",
                    "pageCacheLimitPercent",
                ),
            ),
            Field("wmarkScalePermill", minimum=1, maximum=1000),
            Field("wmarkMinAdj", minimum=-25, maximum=50),
            Field("priorityEnable", minimum=0, maximum=1),
            Field("priority", minimum=0, maximum=12),
            Field("oomKillGroup", minimum=0, maximum=1),
        ),
        path="MemoryQOS.MemoryQOS.",
    ),
    "resctrlQOS": Shape(
        _fields(
            *_plain(Kind.BOOL, "enable"),
            _percent("catRangeStartPercent", below="catRangeEndPercent"),
            _percent("catRangeEndPercent", above="catRangeStartPercent"),
            _percent("mbaPercent"),
        ),
        path="ResctrlQOS.ResctrlQOS.",
    ),
    "blkioQOS": Shape(_fields(*_plain(Kind.BOOL, "enable"), *_plain(Kind.LIST, "blocks"))),
    "networkQOS": Shape(_fields(*_plain(Kind.BOOL, "enable"), *_plain(Kind.INT_OR_STRING, *NETWORK_FIELDS))),
}

QOS: Final = Shape(
    _fields(*_plain(Kind.OBJECT, "policies")),
    {
        name: Shape({}, _CLASS, path)
        for name, path in (
            ("lsrClass", "LSRClass."),
            ("lsClass", "LSClass."),
            ("beClass", "BEClass."),
            ("systemClass", "SystemClass."),
            ("cgroupRoot", "CgroupRoot."),
        )
    },
)

_BURST: Final = (
    *_plain(Kind.STRING, "policy"),
    Field("cpuBurstPercent", minimum=1, maximum=10000),
    Field("cfsQuotaBurstPercent", minimum=100),
    Field("cfsQuotaBurstPeriodSeconds", minimum=-1),
    _percent("sharePoolThresholdPercent"),
)

CPU_BURST: Final = Shape(_fields(*_BURST))

SYSTEM: Final = Shape(
    _fields(
        Field("minFreeKbytesFactor", greater_than=0),
        Field("watermarkScaleFactor", greater_than=0, maximum=400),
        Field("memcgReapBackGround", minimum=0, maximum=1),
        Field("pageCacheLimitEnabled", minimum=0, maximum=1),
        *_plain(Kind.INT, "schedGroupIdentityEnabled", "schedIdleSaverWmark"),
        *_plain(Kind.BOOLS, "schedFeatures"),
        *_plain(Kind.QUANTITY, "totalNetworkBandwidth"),
    )
)

EMBEDDED_PATHS: Final = {
    "policy": "CPUBurstConfig.",
    "cpuBurstPercent": "CPUBurstConfig.",
    "cfsQuotaBurstPercent": "CPUBurstConfig.",
    "cfsQuotaBurstPeriodSeconds": "CPUBurstConfig.",
}
"""What stands before the names of fields that Go embeds a second time."""


def _with_strategies(key: str, label: str, root: str, shape: Shape, strategy: str) -> ConfigKind:
    return ConfigKind(
        key,
        label,
        root,
        shape,
        cluster="clusterStrategy",
        nodes="nodeStrategies",
        cluster_path="ClusterStrategy.",
        nodes_path="NodeStrategies",
        strategy_path=f"{strategy}.",
    )


COLOCATION_CONFIG: Final = ConfigKind(
    "colocation-config",
    "colocation",
    "ColocationCfg.",
    COLOCATION,
    cluster="",
    nodes="nodeConfigs",
    cluster_path="ColocationStrategy.",
    nodes_path="NodeConfigs",
    strategy_path="ColocationStrategy.",
)
THRESHOLD_CONFIG: Final = _with_strategies(
    "resource-threshold-config",
    "resourceThreshold",
    "ResourceThresholdCfg.",
    THRESHOLD,
    "ResourceThresholdStrategy",
)
QOS_CONFIG: Final = _with_strategies(
    "resource-qos-config", "ResourceQOS", "ResourceQOSCfg.", QOS, "ResourceQOSStrategy"
)
SYSTEM_CONFIG: Final = _with_strategies("system-config", "System", "SystemCfg.", SYSTEM, "SystemStrategy")
CPU_BURST_CONFIG: Final = _with_strategies(
    "cpu-burst-config", "CpuBurst", "CPUBurstCfg.", CPU_BURST, "CPUBurstStrategy"
)

KINDS: Final = (COLOCATION_CONFIG, THRESHOLD_CONFIG, QOS_CONFIG, SYSTEM_CONFIG, CPU_BURST_CONFIG)
"""The kinds of configurations, in the order in which they are checked."""
