"""Requirements of a plugin, beyond those that can be detected.

Much is detected by creating a plugin: the objects that it follows are the custom resource definitions and the
rights to list and watch that it needs, the extension points that it implements are the verbs that
kube-scheduler must call. The rest is declared here, once, and read by `koordpy doctor`, which reports what a
cluster lacks, and by `docs/features.md`.
"""

from dataclasses import dataclass

from .meta import KubeObject


@dataclass(frozen=True, order=True)
class Right:
    """One verb on one resource of the API server; `pods/binding` is a resource with its subresource.

    With `name` it is limited to the object of that name, with `namespace` to objects in that namespace.
    """

    verb: str
    resource: str
    group: str = ""
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        what = f"{self.resource}.{self.group}" if self.group else self.resource
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.verb} {what}{f' {self.name}' if self.name else ''}{where}"


@dataclass(frozen=True, kw_only=True)
class Needs:
    """The requirements of a plugin that its class does not show.

    `rights` are those beyond listing and watching what the plugin follows. `later` are types that it follows
    only on demand, so that creating it does not show them. `longest_wait` is the longest time, in seconds,
    that a Permit plugin makes a pod wait; None if unknown. `leads` means that part of it runs only in the
    process that holds the Lease. `elsewhere` describes what else must be set or run.
    """

    rights: tuple[Right, ...] = ()
    later: tuple[type[KubeObject], ...] = ()
    longest_wait: float | None = None
    leads: bool = False
    elsewhere: tuple[str, ...] = ()


@dataclass(frozen=True)
class Lack:
    """A requirement that a cluster does not meet, and how to fix that.

    With `is_problem` the feature does not work, otherwise it works with less than it is meant to have.
    """

    what: str
    fix: str
    is_problem: bool = True
