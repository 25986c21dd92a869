"""Validation of pods. Source: Kubernetes, `pkg/apis/core/validation`."""

import re
from collections.abc import Iterator
from typing import Any

from koordpy.api import labels as label_syntax
from koordpy.api import quantity
from koordpy.api.field_cause import Cause, duplicate, forbidden_field, invalid_value, required, unsupported
from koordpy.api.object_names import dns_label, dns_subdomain, validate_labels

Document = dict[str, Any]

_RESTART = ("Always", "OnFailure", "Never")
_DNS = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_NATIVE = re.compile(
    r"(cpu|memory|ephemeral-storage|storage|pods|(requests|limits)\..*|hugepages-.*|[^/]*kubernetes\.io/.*)"
)


def validate(pod: Document) -> Iterator[Cause]:
    """Yield the errors in a pod."""
    yield from validate_spec(pod.get("spec", {}), "spec")


def validate_spec(spec: Document, path: str) -> Iterator[Cause]:
    """Yield the errors in a pod spec."""
    names: set[str] = set()
    volumes: set[str] = set()
    for index, volume in enumerate(spec.get("volumes") or ()):
        at, name = f"{path}.volumes[{index}].name", volume.get("name", "")
        if not name:
            yield required(at)
        elif problem := dns_label(name):
            yield invalid_value(at, name, problem)
        elif name in volumes:
            yield duplicate(at, name)
        volumes.add(name)
    if not spec.get("containers"):
        yield required(f"{path}.containers")
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            yield from _validate_container(container, f"{path}.{field}[{index}]", names, volumes)
    if spec.get("restartPolicy") not in _RESTART:
        yield unsupported(f"{path}.restartPolicy", spec.get("restartPolicy", ""), _RESTART)
    if spec.get("dnsPolicy") not in _DNS:
        yield unsupported(f"{path}.dnsPolicy", spec.get("dnsPolicy", ""), _DNS)
    if (seconds := spec.get("activeDeadlineSeconds")) is not None and not 1 <= seconds <= 2**31 - 1:
        yield invalid_value(
            f"{path}.activeDeadlineSeconds", seconds, "must be between 1 and 2147483647, inclusive"
        )
    yield from validate_labels(spec.get("nodeSelector") or {}, f"{path}.nodeSelector")
    for field in ("nodeName", "serviceAccountName"):
        if (name := spec.get(field)) and (problem := dns_subdomain(name)):
            yield invalid_value(f"{path}.{field}", name, problem)
    for field in ("hostname", "subdomain"):
        if (name := spec.get(field)) and (problem := dns_label(name)):
            yield invalid_value(f"{path}.{field}", name, problem)
    yield from validate_tolerations(spec.get("tolerations") or [], f"{path}.tolerations")
    yield from _validate_gates(spec, path)
    for name, value in (spec.get("overhead") or {}).items():
        yield from _validate_amount(name, value, f"{path}.overhead[{name}]")


def _validate_container(
    container: Document, path: str, names: set[str], volumes: set[str]
) -> Iterator[Cause]:
    name = container.get("name", "")
    if not name:
        yield required(f"{path}.name")
    elif problem := dns_label(name):
        yield invalid_value(f"{path}.name", name, problem)
    elif name in names:
        yield duplicate(f"{path}.name", name)
    names.add(name)
    image = container.get("image", "")
    if not image:
        yield required(f"{path}.image")
    elif image != image.strip():
        yield invalid_value(f"{path}.image", image, "must not have leading or trailing whitespace")
    if (policy := container.get("imagePullPolicy")) not in ("Always", "IfNotPresent", "Never"):
        yield unsupported(f"{path}.imagePullPolicy", policy, ("Always", "IfNotPresent", "Never"))
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        at = f"{path}.volumeMounts[{index}]"
        if not mount.get("name"):
            yield required(f"{at}.name")
        elif mount["name"] not in volumes:
            yield Cause(f"{at}.name", "FieldValueNotFound", f'Not found: "{mount["name"]}"')
        if not mount.get("mountPath"):
            yield required(f"{at}.mountPath")
    for index, variable in enumerate(container.get("env") or ()):
        if not variable.get("name"):
            yield required(f"{path}.env[{index}].name")
    for index, port in enumerate(container.get("ports") or ()):
        number = port.get("containerPort", 0)
        at = f"{path}.ports[{index}].containerPort"
        if not number:
            yield required(at)
        elif not 1 <= number <= 65535:
            yield invalid_value(at, number, "must be between 1 and 65535, inclusive")
    yield from _validate_resources(container.get("resources") or {}, f"{path}.resources")


def _validate_resources(resources: Document, path: str) -> Iterator[Cause]:
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    for field, amounts in (("limits", limits), ("requests", requests)):
        for name, value in amounts.items():
            yield from _validate_amount(name, value, f"{path}.{field}[{name}]")
    for name, request in requests.items():
        limit = limits.get(name)
        overcommittable = _NATIVE.fullmatch(name) is not None and not name.startswith("hugepages-")
        if limit is not None:
            asked, most = quantity.from_wire(request), quantity.from_wire(limit)
            if asked != most and not overcommittable:
                told = f"must be equal to {name} limit of {limit}"
                yield invalid_value(f"{path}.requests", request, told)
            elif asked > most:
                told = f"must be less than or equal to {name} limit of {limit}"
                yield invalid_value(f"{path}.requests", request, told)
        elif not overcommittable:
            yield required(f"{path}.limits", "Limit must be set for non overcommitable resources")


def _validate_amount(name: str, value: Any, path: str) -> Iterator[Cause]:
    if problem := label_syntax.key_error(name):
        yield invalid_value(path, name, problem)
        return
    if "/" not in name and not re.fullmatch(r"cpu|memory|ephemeral-storage|hugepages-.*", name):
        yield invalid_value(path, name, "must be a standard resource type or fully qualified")
        yield invalid_value(path, name, "must be a standard resource for containers")
        return
    amount = quantity.from_wire(value)
    if amount.sign < 0:
        yield invalid_value(path, value, "must be greater than or equal to 0")
    elif _NATIVE.fullmatch(name) is None and amount.milli_value() % 1000:
        yield invalid_value(path, value, "must be an integer")


def validate_tolerations(tolerations: list[Document], path: str) -> Iterator[Cause]:
    """Yield the errors in tolerations."""
    for index, toleration in enumerate(tolerations):
        at = f"{path}[{index}]"
        key, operator = toleration.get("key", ""), toleration.get("operator", "")
        value, effect = toleration.get("value", ""), toleration.get("effect", "")
        if key and (problem := label_syntax.key_error(key)):
            yield invalid_value(f"{at}.key", key, problem)
        if not key and operator != "Exists":
            told = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            yield invalid_value(f"{at}.operator", operator, told)
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            told = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            yield invalid_value(f"{at}.effect", effect, told)
        if operator in ("", "Equal"):
            if problem := label_syntax.value_error(value):
                yield invalid_value(f"{at}.operator", value, problem)
        elif operator == "Exists":
            if value:
                yield invalid_value(
                    f"{at}.operator", toleration, "value must be empty when `operator` is 'Exists'"
                )
        else:
            yield unsupported(f"{at}.operator", operator, ("Equal", "Exists"))
        if effect and effect not in _EFFECTS:
            yield unsupported(f"{at}.effect", effect, _EFFECTS)


def _validate_gates(spec: Document, path: str) -> Iterator[Cause]:
    seen: set[str] = set()
    gates = spec.get("schedulingGates") or []
    for index, gate in enumerate(gates):
        at, name = f"{path}.schedulingGates[{index}]", gate.get("name", "")
        if problem := label_syntax.key_error(name):
            yield invalid_value(f"{at}.name", name, problem)
        if name in seen:
            yield duplicate(at, name)
        seen.add(name)
    if gates and spec.get("nodeName"):
        yield forbidden_field(f"{path}.nodeName", "cannot be set until all schedulingGates have been cleared")


_MUTABLE_TOLD = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def validate_update(new: Document, old: Document) -> Iterator[Cause]:
    """Yield forbidden changes of a pod update: nearly all of the spec."""
    before, after = old.get("spec", {}), new.get("spec", {})
    if before == after:
        return
    gates_before = {gate.get("name", "") for gate in before.get("schedulingGates") or ()}
    gates_after = {gate.get("name", "") for gate in after.get("schedulingGates") or ()}
    if gates_after - gates_before:
        names = sorted(gates_after - gates_before)
        yield forbidden_field(
            "spec.schedulingGates",
            f"only deletion is allowed, but found new scheduling gates '{','.join(names)}'",
        )
    kept = before.get("tolerations") or []
    given = after.get("tolerations") or []
    for toleration in kept:
        if toleration not in given and not any(_extends(item, toleration) for item in given):
            yield forbidden_field(
                "spec.tolerations", "existing toleration can not be modified except its tolerationSeconds"
            )
            break
    if _fixed(after, gated=bool(gates_before)) != _fixed(before, gated=bool(gates_before)):
        yield forbidden_field("spec", _MUTABLE_TOLD)
    elif gates_before:
        yield from _validate_gated_change(before, after)


def _extends(given: Document, kept: Document) -> bool:
    same = ("key", "operator", "value", "effect")
    return all(given.get(name) == kept.get(name) for name in same)


def _fixed(spec: Document, gated: bool) -> Document:
    """The immutable part of a spec; a gated pod may still have its node affinity and selector narrowed."""
    fixed = {
        name: value
        for name, value in spec.items()
        if name
        not in ("activeDeadlineSeconds", "tolerations", "schedulingGates", "containers", "initContainers")
    }
    if gated:
        fixed.pop("nodeSelector", None)
        affinity = {**(fixed.pop("affinity", None) or {})}
        affinity.pop("nodeAffinity", None)
        if affinity:
            fixed["affinity"] = affinity
    for field in ("containers", "initContainers"):
        fixed[field] = [
            {name: value for name, value in container.items() if name != "image"}
            for container in spec.get(field) or ()
        ]
    return fixed


def _validate_gated_change(before: Document, after: Document) -> Iterator[Cause]:
    old, new = before.get("nodeSelector") or {}, after.get("nodeSelector") or {}
    if any(new.get(key) != value for key, value in old.items()):
        yield invalid_value("spec.nodeSelector", new, "only additions to spec.nodeSelector are allowed")
