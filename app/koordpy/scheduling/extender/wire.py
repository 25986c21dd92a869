"""The bodies of extender calls (`k8s.io/kube-scheduler/extender/v1`), from bytes and to bytes.

kube-scheduler spells the members exactly as Go does; other clients may not, and Go's decoder ignores case, so
this one does too: the exact spelling takes the fast path, everything else a slower one.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from koordpy.api.core import Pod
from koordpy.api.scheme import MALFORMED, without_nulls


class BadBody(ValueError):
    """A body does not have the expected shape; the message says where and what was expected."""


class PodIdentity(msgspec.Struct):
    """As much of a pod as prioritize needs when the attempt is known."""

    class Meta(msgspec.Struct):
        """The pod's identity."""

        uid: str = ""
        name: str = ""
        namespace: str = ""

    metadata: Meta = msgspec.field(default_factory=Meta)


class NodeList(msgspec.Struct):
    """Full Node objects, returned unchanged."""

    items: list[msgspec.Raw] = []


class ExtenderArgs(msgspec.Struct):
    """The body of filter and prioritize."""

    pod: Pod | None = msgspec.field(default=None, name="Pod")
    nodes: NodeList | None = msgspec.field(default=None, name="Nodes")
    node_names: msgspec.Raw = msgspec.field(default=msgspec.Raw(), name="NodeNames")


class PrioritizeArgs(msgspec.Struct):
    """The body of prioritize, without the pod's spec."""

    pod: PodIdentity | None = msgspec.field(default=None, name="Pod")
    node_names: msgspec.Raw = msgspec.field(default=msgspec.Raw(), name="NodeNames")


class VictimPods(msgspec.Struct):
    """Victims on a node, as full pods."""

    pods: list[Pod] = msgspec.field(default=[], name="Pods")
    pdb_violations: int = msgspec.field(default=0, name="NumPDBViolations")


class MetaPod(msgspec.Struct):
    """A victim by UID."""

    uid: str = msgspec.field(default="", name="UID")


class MetaVictims(msgspec.Struct):
    """Victims on a node, by UID."""

    pods: list[MetaPod] = msgspec.field(default=[], name="Pods")
    pdb_violations: int = msgspec.field(default=0, name="NumPDBViolations")


class PreemptionArgs(msgspec.Struct):
    """The body of preempt. With nodeCacheCapable kube-scheduler sends the second map."""

    pod: Pod | None = msgspec.field(default=None, name="Pod")
    victims: dict[str, VictimPods] | None = msgspec.field(default=None, name="NodeNameToVictims")
    meta_victims: dict[str, MetaVictims] | None = msgspec.field(default=None, name="NodeNameToMetaVictims")


class BindingArgs(msgspec.Struct):
    """The body of bind."""

    pod_name: str = msgspec.field(default="", name="PodName")
    pod_namespace: str = msgspec.field(default="", name="PodNamespace")
    pod_uid: str = msgspec.field(default="", name="PodUID")
    node: str = msgspec.field(default="", name="Node")


T = TypeVar("T", bound=msgspec.Struct)


class BodyDecoder(Generic[T]):
    """Decodes one kind of body. Raises BadBody."""

    def __init__(self, type_: type[T]) -> None:
        self._type = type_
        self._decoder = msgspec.json.Decoder(type_)
        self._spelling: _Spelling | None = None

    def decode(self, body: bytes, required: str) -> T:
        """Decode a body; `required` is a mandatory member: without it the spelling must be another one."""
        try:
            args = self._decoder.decode(body)
            if getattr(args, required):
                return args
        except msgspec.ValidationError:
            pass
        except MALFORMED as error:
            raise BadBody(f"not JSON: {error}") from None
        return self._decode_slowly(body, required)

    def _decode_slowly(self, body: bytes, required: str) -> T:
        try:
            document = msgspec.json.decode(body)
        except MALFORMED as error:
            raise BadBody(f"not JSON: {error}") from None
        if not isinstance(document, dict):
            raise BadBody(f"expected an object, got {type(document).__name__}")
        if self._spelling is None:
            self._spelling = _Spelling(self._type)
        respelled = self._spelling.apply(without_nulls(document))
        try:
            args = self._decoder.decode(msgspec.json.encode(respelled))
        except msgspec.ValidationError as error:
            raise BadBody(str(error)) from None
        if not getattr(args, required):
            name = next(f.encode_name for f in msgspec.structs.fields(self._type) if f.name == required)
            raise BadBody(f"member {name!r} is missing or empty")
        return args


EXTENDER_ARGS = BodyDecoder(ExtenderArgs)
PRIORITIZE_ARGS = BodyDecoder(PrioritizeArgs)
PREEMPTION_ARGS = BodyDecoder(PreemptionArgs)
BINDING_ARGS = BodyDecoder(BindingArgs)

_NAMES = msgspec.json.Decoder(list[str])
_ENCODER = msgspec.json.Encoder()


def node_names(text: bytes) -> list[str]:
    """Read the list of node names. Raises BadBody."""
    try:
        return _NAMES.decode(text)
    except MALFORMED as error:
        raise BadBody(f"NodeNames: {error}") from None


def node_name_of(raw: msgspec.Raw) -> str:
    """Read the name out of a full Node object. Raises BadBody."""
    try:
        name = _IDENTITY.decode(raw).metadata.name
    except MALFORMED as error:
        raise BadBody(f"Nodes.items: {error}") from None
    if not name:
        raise BadBody("Nodes.items: a node without metadata.name")
    return name


_IDENTITY = msgspec.json.Decoder(PodIdentity)


def encode_names(names: Sequence[str]) -> bytes:
    """Write a list of names."""
    return _ENCODER.encode(names)


def filter_result(
    kept: bytes,
    failed: Mapping[str, str],
    unresolvable: Mapping[str, str],
    *,
    full_nodes: bool = False,
) -> bytes:
    """Write an ExtenderFilterResult; `kept` is JSON: names, or with `full_nodes` Node objects."""
    member = b'"Nodes":{"items":' + kept + b"}" if full_nodes else b'"NodeNames":' + kept
    if not failed and not unresolvable:
        return b"{" + member + b',"FailedNodes":{},"FailedAndUnresolvableNodes":{},"Error":""}'
    return b"".join(
        (
            b"{",
            member,
            b',"FailedNodes":',
            _ENCODER.encode(failed),
            b',"FailedAndUnresolvableNodes":',
            _ENCODER.encode(unresolvable),
            b',"Error":""}',
        )
    )


def error_result(message: str) -> bytes:
    """Write a result whose `Error` fails the attempt (filter, bind)."""
    return _ENCODER.encode({"Error": message})


BOUND = b'{"Error":""}'
"""The ExtenderBindingResult of a pod that is bound."""


def host_priorities(names: Sequence[str], scores: Sequence[int]) -> bytes:
    """Encode a HostPriorityList."""
    if not names:
        return b"[]"
    if _ENCODER.encode(names).count(b"\\"):
        return _ENCODER.encode(
            [{"Host": name, "Score": score} for name, score in zip(names, scores, strict=True)]
        )
    parts = [""] * (2 * len(names))
    parts[::2] = names
    if min(scores) >= 0 and max(scores) < len(_BETWEEN):
        parts[1::2] = map(_BETWEEN.__getitem__, scores)
    else:
        spelled = {score: _between(score) for score in set(scores)}  # some hundred nodes have the same
        parts[1::2] = map(spelled.__getitem__, scores)
    text = "".join(parts)
    return ('[{"Host":"' + text[: -len(_NEXT_HOST)] + "}]").encode()


_NEXT_HOST = '},{"Host":"'


def _between(score: int) -> str:
    return f'","Score":{score}{_NEXT_HOST}'


_BETWEEN = [_between(score) for score in range(2048)]
"""The JSON between a host's name and the next one, for common scores."""


def preemption_result(victims: Mapping[str, tuple[Sequence[str], int]]) -> bytes:
    """Encode an ExtenderPreemptionResult from UIDs and PDB violations by node name."""
    return _ENCODER.encode(
        {
            "NodeNameToMetaVictims": {
                node: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": violations}
                for node, (uids, violations) in victims.items()
            }
        }
    )


class _Spelling:
    """The spelling of the members of one kind of object, and of objects within them."""

    def __init__(self, type_: type[Any]) -> None:
        self.names: dict[str, str] = {}
        self.below: dict[str, _Spelling] = {}
        for member in msgspec.structs.fields(type_):
            self.names[member.encode_name.lower()] = member.encode_name
            inner = _INSIDE.get(member.encode_name)
            if inner is not None and inner is not type_:
                self.below[member.encode_name] = _Spelling(inner)

    def apply(self, members: Mapping[str, Any]) -> dict[str, Any]:
        """Rename an object's members, recursively, to Go's spelling."""
        spelled = {self.names.get(key.lower(), key): value for key, value in members.items()}
        for name, below in self.below.items():
            value = spelled.get(name)
            if isinstance(value, list):
                spelled[name] = [below.apply(item) if isinstance(item, dict) else item for item in value]
            elif isinstance(value, dict):
                spelled[name] = {
                    key: below.apply(item) if isinstance(item, dict) else item for key, item in value.items()
                }
        return spelled


_INSIDE: Mapping[str, type[Any]] = {
    "NodeNameToVictims": VictimPods,
    "NodeNameToMetaVictims": MetaVictims,
}
"""Members that are maps of extender structs; Kubernetes objects already have the API's spelling."""
