"""One feature, and what it needs."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from koordpy import data
from koordpy.api.meta import KubeObject
from koordpy.api.needs import Right
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
    """A plugin, and all that has to be there for it to do its work.

    `follows` are the resources that it lists and watches, `rights` what it may do beyond that. `webhooks` are
    the paths that kube-apiserver must call, `verbs` the extender verbs that kube-scheduler must call. `gates`
    must be as they are written (`-NAME`: off); `on_by_default` is None where a configuration has to name it.
    `leads` tells that something of it is done by one process of several, `elsewhere` says in words what else
    must run or be set. `in_light_mode` says whether it can do without the bind call; None where there is no
    such question.
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
    in_light_mode: bool | None = None

    @property
    def definitions(self) -> tuple[str, ...]:
        """The custom resource definitions that it needs, by name."""
        return definitions(self.follows)


def definitions(resources: Iterable[Resource]) -> tuple[str, ...]:
    """Return the names of those resources that are custom ones which koordpy ships a definition of."""
    shipped = shipped_definitions()
    names = sorted({definition_name(resource) for resource in resources})
    return tuple(name for name in names if name in shipped)


def definition_name(resource: Resource) -> str:
    """Return the name that a CustomResourceDefinition of a resource has."""
    return f"{resource.plural}.{resource.group}"


def shipped_definitions() -> frozenset[str]:
    """Return the names of the definitions in `deploy/crds`, which are the names of the files."""
    return frozenset(file.stem for file in data.deploy("crds").glob("*.yaml"))


def followed(types: Iterable[type[KubeObject]]) -> tuple[Resource, ...]:
    """Return where objects of these types live, by name."""
    return tuple(
        sorted((resource_of(type_) for type_ in types), key=lambda found: (found.group, found.plural))
    )


def following(resources: Iterable[Resource]) -> tuple[Right, ...]:
    """Return the rights that following resources takes."""
    return tuple(
        Right(verb, resource.plural, resource.group) for resource in resources for verb in ("list", "watch")
    )
