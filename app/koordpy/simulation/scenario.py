"""The kind `Scenario`: the input of a simulation. `docs/simulation.md` describes it for users.

Files that a scenario names are relative to it. Amounts are Kubernetes quantities, times are durations since
the start (`90s`, `1h30m`, or a number of seconds).
"""

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, model_validator

from koordpy.api import config_document, config_file, config_model, quantity
from koordpy.api.config_model import ConfigError, ConfigModel
from koordpy.api.meta import parse_time
from koordpy.embedded.kubelet.curves import Curve, Interval, Moment
from koordpy.lib.counting import counted

from .setup import API_VERSION as API_VERSION
from .setup import SchedulerSetup, Source

KIND: Final = "Scenario"

Document = dict[str, Any]


def _amounts(given: dict[str, int | float | str]) -> dict[str, int | float | str]:
    for name, amount in given.items():
        try:
            quantity.from_wire(amount)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    return given


Amounts = Annotated[dict[str, int | float | str], AfterValidator(_amounts)]
"""Quantities by resource."""


# --- what pods use ---------------------------------------------------------------------------------


Usage = dict[Literal["cpu", "memory"], Curve]


class UsageReports(ConfigModel):
    """How koordlets report usage."""

    enabled: bool = True
    interval: Interval = 60.0
    refresh: Interval | None = None
    """How long a node without changes may skip reports; by default `interval`."""
    aggregate: tuple[Interval, ...] = Field(default=(), strict=False)
    """Windows over which percentiles are reported."""
    default: Usage = {}
    """The default usage of pods; half of their cpu request, 0.6 of memory if not set."""


# --- nodes -----------------------------------------------------------------------------------------


class NodeColumns(ConfigModel):
    """The columns of a table of nodes."""

    name: str = "name"
    amounts: dict[str, str] = {"cpu": "cpu", "memory": "memory"}
    """By resource, the column: `cpu_milli*m` multiplies by a unit (m, k, Ki, Mi, Gi), or a number."""
    labels: dict[str, str] = {}


class NodeGroup(ConfigModel):
    """Equal nodes, or a table of nodes."""

    name: str | None = None
    """The first part of the names `NAME-0`, `NAME-1` ...; of a single node all of it."""
    count: int = Field(default=1, ge=0)
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    taints: tuple[Document, ...] = Field(default=(), strict=False)
    allocatable: Amounts = {}
    table: str | None = None
    """A CSV file (`.gz` too) or a file of JSON lines with a node each."""
    columns: NodeColumns = NodeColumns()
    system_usage: Amounts = {}
    """The constant usage of the node itself."""
    joins: Moment = 0.0
    every: Moment = 0.0
    """The interval between joining nodes."""
    leaves: Moment | None = None
    """When the nodes leave, with their pods."""

    @model_validator(mode="after")
    def _consistent(self) -> "NodeGroup":
        if (self.name is None) == (self.table is None):
            raise ValueError("expected either name or table")
        if self.name is not None and not self.allocatable:
            raise ValueError("expected allocatable")
        if self.leaves is not None and self.leaves <= self.joins:
            raise ValueError("expected leaves to be later than joins")
        return self


# --- workloads -------------------------------------------------------------------------------------


class Arrivals(ConfigModel):
    """When pods are created: at a fixed interval from a time on, or at random with that mean interval."""

    at: Moment = 0.0
    every: Moment = 0.0
    random: bool = False


class Gang(ConfigModel):
    """Gangs that the pods of a workload form, in the order of their creation."""

    size: int = Field(ge=1)
    min: int | None = Field(default=None, ge=1)
    """By default all."""
    every: Moment = 0.0
    """The interval at which the members of one gang are created."""
    mode: Literal["Strict", "NonStrict"] = "Strict"
    match_policy: Literal["once-satisfied", "only-waiting", "waiting-and-running"] | None = None
    """By default that of Coscheduling."""
    waiting_time: Interval | None = None
    group: str | None = Field(default=None, min_length=1)
    """The first gangs of all workloads with this group form a group of gangs, the second ones another, ..."""

    @model_validator(mode="after")
    def _possible(self) -> "Gang":
        if self.min is not None and self.min > self.size:
            raise ValueError(f"min: got {self.min}, expected at most the size, {self.size}")
        return self


class Pods(ConfigModel):
    """Equal pods that run for some time, as those of a Job.

    Pods of a gang run for equally long, once their gang is whole: `arrivals` and `spread` are about gangs.
    """

    count: int = Field(ge=0)
    arrivals: Arrivals = Arrivals()
    duration: Interval | None = None
    """How long each runs; None: to the end."""
    spread: float = Field(default=0.0, ge=0, le=1, strict=False)
    """Durations are drawn from `duration * (1 ± spread)`."""
    gang: Gang | None = None
    template: Document | None = None
    """A pod template: metadata and spec."""
    requests: Amounts = {}
    """Instead of a template: one container that requests this."""

    @model_validator(mode="after")
    def _one(self) -> "Pods":
        if (self.template is None) == (not self.requests):
            raise ValueError("expected either template or requests")
        if self.gang is not None and self.count % self.gang.size:
            raise ValueError(f"count: got {self.count}, expected a multiple of gang.size, {self.gang.size}")
        return self


class Scale(ConfigModel):
    """A new number of replicas from a time on."""

    at: Moment
    replicas: int = Field(ge=0)


class Deployment(ConfigModel):
    """A Deployment: its pods are replaced when they are gone."""

    source: Source
    at: Moment = 0.0
    scale: tuple[Scale, ...] = Field(default=(), strict=False)


class TraceColumns(ConfigModel):
    """The columns of a table of pods. Times are seconds since the start."""

    name: str = "name"
    namespace: str | None = None
    arrival: str = "arrival"
    duration: str | None = "duration"
    end: tuple[str, ...] | None = Field(default=None, strict=False)
    """Instead of `duration`: the column of the end, then those of the begin, of which the first that is not
    empty counts."""
    requests: dict[str, str] = {"cpu": "cpu", "memory": "memory"}
    """By resource, the column: `cpu_milli*m` multiplies by a unit (m, k, Ki, Mi, Gi), a number or another
    column. Amounts of 0 are left out."""
    labels: dict[str, str] = {}
    node_affinity: dict[str, str] = {}
    """By node label, the column with the allowed values, joined by `|`; an empty cell allows all."""


class Trace(ConfigModel):
    """Pods from a table: CSV with a heading line, or JSON lines as `koordpy record` writes them."""

    file: str
    columns: TraceColumns = TraceColumns()
    namespace: str = "default"
    limit: int | None = Field(default=None, ge=1)
    """Only the first rows."""
    template: Document = {}
    """Common metadata and spec of all pods, as a pod template that each pod of the table is merged over."""


class Workload(ConfigModel):
    """Pods from one source."""

    name: str = Field(min_length=1, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    namespace: str = "default"
    pods: Pods | None = None
    deployment: Deployment | None = None
    trace: Trace | None = None
    usage: Usage = {}
    when_evicted: Literal["restart", "lost"] = "restart"
    """What happens to a pod that is evicted or loses its node: it is created again (with its whole duration),
    or it is gone. Those of a Deployment are always created again."""

    @model_validator(mode="after")
    def _one(self) -> "Workload":
        if sum(kind is not None for kind in (self.pods, self.deployment, self.trace)) != 1:
            raise ValueError("expected one of pods, deployment, trace")
        return self


# --- objects and schedulers ------------------------------------------------------------------------


class Objects(Source):
    """Objects of any served kind, created at a time and deleted at another one."""

    at: Moment = 0.0
    until: Moment | None = None


class Sampling(ConfigModel):
    """The measurements for the report."""

    interval: Interval | None = None
    """The interval; by default a four-hundredth of the duration."""
    hot: dict[str, float] = Field(default={"cpu": 65.0, "memory": 95.0}, strict=False)
    """The usage, in percent of allocatable, from which on a node is hot."""
    repeated_within: Interval = 3600.0
    """An eviction is repeated if the pod took the place of one that was evicted less than this ago."""


class Scenario(ConfigModel):
    """A whole simulation."""

    api_version: Literal["simulation.koordpy.dev/v1alpha1"]
    kind: Literal["Scenario"]
    name: str = Field(min_length=1)
    description: str = ""
    start: datetime = Field(default=datetime.fromisoformat("2026-01-01T00:00:00+00:00"), strict=False)
    duration: Interval | None = None
    """The duration; None: until no pod runs or waits."""
    seed: int = Field(default=0, ge=0)
    nodes: tuple[NodeGroup, ...] = Field(strict=False, min_length=1)
    objects: tuple[Objects, ...] = Field(default=(), strict=False)
    workloads: tuple[Workload, ...] = Field(default=(), strict=False)
    usage: UsageReports = UsageReports()
    sampling: Sampling = Sampling()
    schedulers: tuple[SchedulerSetup, ...] = Field(default=(SchedulerSetup(),), strict=False, min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _read_start(cls, given: Any) -> Any:
        if isinstance(given, dict) and isinstance(given.get("start"), str):
            try:
                return {**given, "start": parse_time(given["start"])}
            except ValueError:
                raise ValueError(
                    f"start: got {given['start']!r}, expected a time such as 2026-01-01T00:00:00Z"
                ) from None
        return given

    @model_validator(mode="after")
    def _distinct(self) -> "Scenario":
        for what, names in (
            ("schedulers", [setup.name for setup in self.schedulers]),
            ("workloads", [workload.name for workload in self.workloads]),
        ):
            twice = next((name for name in names if names.count(name) > 1), None)
            if twice is not None:
                raise ValueError(f"{what}: the name {twice!r} is given twice")
        _check_groups(self.workloads)
        if self.start.tzinfo is None:
            raise ValueError("start: expected a time with a zone, such as 2026-01-01T00:00:00Z")
        if self.duration is None and any(w.deployment is not None for w in self.workloads):
            raise ValueError("duration: expected one, because Deployments never end")
        return self


def _check_groups(workloads: Iterable[Workload]) -> None:
    """Check that workloads of one group of gangs have equally many gangs. Raises ValueError."""
    counts: dict[str, tuple[str, int]] = {}
    for workload in workloads:
        pods = workload.pods
        if pods is None or pods.gang is None or pods.gang.group is None:
            continue
        count = pods.count // pods.gang.size
        other, expected = counts.setdefault(pods.gang.group, (workload.name, count))
        if count != expected:
            raise ValueError(
                f"workloads: {workload.name!r} has {counted(count, 'gang')}, {other!r} of the same group "
                f"{pods.gang.group!r} has {expected}"
            )


def load(path: Path) -> Scenario:
    """Read a scenario. Raises ConfigError naming the file, the path and what was expected; OSError."""
    try:
        document = config_document.parse(config_file.read(path), KIND)
        config_model.check_type(document, API_VERSION, KIND)
        return config_model.read(Scenario, document)
    except ConfigError as error:
        raise error.under(path) from None
