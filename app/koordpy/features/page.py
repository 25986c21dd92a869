"""`docs/features.md`: which feature needs which part, written from the features themselves."""

from collections.abc import Iterable, Iterator, Sequence

from koordpy.api.needs import Right
from koordpy.api.scheme import Resource
from koordpy.settings import Settings

from .catalog import features, frame_follows
from .feature import Feature, Part
from .parts import PARTS, rights

_HEAD = """\
# What each feature needs

This page is written by `koordpy features --markdown > docs/features.md` from the plugins that are installed,
and a test keeps it. With plugins of others in the environment, `koordpy features` lists theirs too: what a
plugin follows and inherits shows by itself, the rest it declares in its `needs`. [The doctor](doctor.md)
compares a cluster with the same facts and says what is missing for what.

## The parts

Each part can be deployed alone: it follows, and has rights for, what it needs itself, and misses none of the
others. The debug API (`--parts extender,debug`, say) goes with every part, is always there in a worker and an
agent, and needs nothing of its own; beyond loopback it has tokens and access reviewed, for which it needs the
rights to create tokenreviews.authentication.k8s.io and subjectaccessreviews.authorization.k8s.io.
"""

_TITLES = {
    Part.ADMISSION: ("Admission webhooks", "changes and judges pods, quotas, nodes when they are written"),
    Part.EXTENDER: ("Scheduler extender", "filters, scores and binds pods for kube-scheduler"),
    Part.CONTROLLERS: ("Controllers", "bring existing objects to what profiles say"),
    Part.DESCHEDULER: ("Descheduler", "moves pods off nodes that are busy"),
    Part.AGENT: ("QoS manager", "enforces QoS on the node that it runs on"),
}

_LEGEND = """
`verbs` are those of kube-scheduler's `extenders` entry without which the feature is not asked. Light mode
(`extender.mode: light`, an entry without `bindVerb`) is for chains in which every feature says yes; see
[the extender](extender.md). Features that are off run when a KubeSchedulerConfiguration names them; those
that are kube-scheduler's own plugins are there for what-ifs, reservations and the embedded scheduler.
"""


def page() -> str:
    """Return the page. Raises ConfigError."""
    found = features()
    lines = [*_HEAD.splitlines(), *_parts()]
    for part in Part:
        title, what = _TITLES[part]
        lines += ["", f"## {title}", "", f"{what[0].upper()}{what[1:]}."]
        if part is Part.EXTENDER:
            lines += _LEGEND.splitlines()
        lines += ["", *_matrix(part, [feature for feature in found if feature.part is part])]
    return "\n".join(lines) + "\n"


def _parts() -> Iterator[str]:
    yield ""
    yield from _table(
        ("part", "alone", "called by", "always lists and watches", "further rights", "settings"),
        (
            (
                _TITLES[part][0],
                f"`{facts.command}`",
                facts.called_by,
                _resources(frame_follows(part)),
                _rights(rights(part, _in_cluster())),
                facts.settings,
            )
            for part, facts in PARTS.items()
        ),
    )


def _in_cluster() -> Settings:
    """Return the settings of a deployment, whose webhooks have their certificate in a Secret."""
    return Settings.model_validate({"admission": {"certificates": {"mode": "secret"}}})


def _matrix(part: Part, rows: Sequence[Feature]) -> Iterator[str]:
    given = ("definitions", "lists and watches", "further rights", "elsewhere")
    yield from _table(
        ("feature", "on by default", *_EXTRA[part], *given),
        (
            (
                f"`{feature.name}`",
                {True: "yes", False: "no", None: "by configuration"}[feature.on_by_default],
                *_extra(feature),
                _codes(feature.definitions),
                _resources(feature.follows),
                _rights(feature.rights),
                "; ".join(feature.elsewhere) or "-",
            )
            for feature in rows
        ),
    )


_EXTRA: dict[Part, tuple[str, ...]] = {
    Part.ADMISSION: ("webhook", "gates"),
    Part.EXTENDER: ("verbs", "light mode"),
    Part.CONTROLLERS: ("gates",),
    Part.DESCHEDULER: (),
    Part.AGENT: ("gates",),
}


def _extra(feature: Feature) -> Iterator[str]:
    for column in _EXTRA[feature.part]:
        if column == "webhook":
            yield _codes(feature.webhooks)
        elif column == "gates":
            yield _codes(f"{gate[1:]}=false" if gate.startswith("-") else gate for gate in feature.gates)
        elif column == "verbs":
            yield ", ".join(feature.verbs) or "-"
        else:
            yield "yes" if feature.in_light_mode else "no"


def _codes(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "-"


def _resources(resources: Iterable[Resource]) -> str:
    return ", ".join(resource.plural for resource in resources) or "-"


def _rights(given: Iterable[Right]) -> str:
    """Join rights that differ in their verb alone."""
    verbs: dict[str, list[str]] = {}
    for right in given:
        what = str(right).removeprefix(f"{right.verb} ")
        verbs.setdefault(what, []).append(right.verb)
    return "; ".join(f"{', '.join(some)} {what}" for what, some in verbs.items()) or "-"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'|'.join('---' for _ in head)}|"
    for row in rows:
        yield f"| {' | '.join(row)} |"
