"""One feature, and what it needs."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from koordpy import data
from koordpy.api.meta import KubeObject
from koordpy.api.needs import PrivilegeNeed, Right
from koordpy.api.scheme import Resource, resource_of


class Part(StrEnum):
    """The parts of koordpy that can be deployed alone. Features of a part run in its processes."""

    ADMISSION = "admission"
    EXTENDER = "extender"
    CONTROLLERS = "controllers"
    DESCHEDULER = "descheduler"
    AGENT = "agent"


@dataclass(frozen=True, kw_only=True)
class Feature:
    """A plugin, and everything that it needs to work.

    `follows` are the resources that it lists and watches, `rights` what it may do beyond that. `webhooks` are
    the paths that kube-apiserver must call, `verbs` the extender verbs that kube-scheduler must call. `gates`
    must be as listed (`-NAME`: off); `on_by_default` is None where a configuration has to name it.
    `leads` is set if some of its work is done by the leader alone; `elsewhere` describes what else
    must run or be set. `privileges` are what its container must have on a node. `in_light_mode`: whether it
    works without the bind call; None where that does not apply.
    """

    part: Part
    name: str
    follows: tuple[Resource, ...] = ()
    rights: tuple[Right, ...] = ()
    webhooks: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    gates: tuple[str, ...] = ()
    on_by_default: bool | None = True
    leads: bool = False
    elsewhere: tuple[str, ...] = ()
    privileges: tuple[PrivilegeNeed, ...] = ()
    in_light_mode: bool | None = None

    @property
    def definitions(self) -> tuple[str, ...]:
        """The names of the CustomResourceDefinitions that it needs."""
        return definitions(self.follows)


def definitions(resources: Iterable[Resource]) -> tuple[str, ...]:
    """Return the names of those resources that are custom resources with a definition shipped by koordpy."""
    shipped = shipped_definitions()
    names = sorted({definition_name(resource) for resource in resources})
    return tuple(name for name in names if name in shipped)


def definition_name(resource: Resource) -> str:
    """Return the name of a resource's CustomResourceDefinition."""
    return f"{resource.plural}.{resource.group}"


def shipped_definitions() -> frozenset[str]:
    """Return the names of the definitions in `deploy/crds`, which are the names of the files."""
    return frozenset(file.stem for file in data.deploy("crds").glob("*.yaml"))


def followed(types: Iterable[type[KubeObject]]) -> tuple[Resource, ...]:
    """Return the resources of these types, by name."""
    return tuple(
        sorted((resource_of(type_) for type_ in types), key=lambda found: (found.group, found.plural))
    )


def following(resources: Iterable[Resource]) -> tuple[Right, ...]:
    """Return the rights that are needed to follow resources."""
    return tuple(
        Right(verb, resource.plural, resource.group) for resource in resources for verb in ("list", "watch")
    )
