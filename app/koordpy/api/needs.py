"""What a plugin cannot do its work without, beyond what can be seen from outside.

Much is seen by making a plugin: the objects that it follows are the custom resource definitions and the
rights to list and watch that it needs, the extension points that it implements are the verbs that
kube-scheduler must call. What is left is declared here, once, and read by `koordpy doctor`, which tells what
of it a cluster lacks, and by `docs/features.md`.
"""

from dataclasses import dataclass

from .meta import KubeObject


@dataclass(frozen=True, order=True)
class Right:
    """One verb on one resource of the API server; `pods/binding` is a resource with its subresource.

    With `name` it is about the object of that name alone, with `namespace` about objects in there.
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
    """The needs of a plugin that do not show in its class.

    `rights` are those beyond listing and watching what the plugin follows. `later` are types that it follows
    only once it comes to need them, so that making it does not show them. `longest_wait` is the longest, in
    seconds, that a Permit plugin lets a pod wait; None where it does not say. `leads` says that something
    of it runs in one of several processes alone, which holds the lease. `elsewhere` says in words what has
    to be set or has to run besides.
    """

    rights: tuple[Right, ...] = ()
    later: tuple[type[KubeObject], ...] = ()
    longest_wait: float | None = None
    leads: bool = False
    elsewhere: tuple[str, ...] = ()


@dataclass(frozen=True)
class Lack:
    """Something that a plugin needs and a cluster does not have: what it is, and how to mend it."""

    what: str
    fix: str
