"""Validation of a DeschedulerConfiguration that has its defaults.

Source: Koordinator, `pkg/descheduler/apis/config/validation/validation.go`; Kubernetes,
`k8s.io/component-base/config/validation`.
"""

import ipaddress
import re
from collections.abc import Iterator
from typing import Final

from koordpy.api import selector_errors
from koordpy.api.field_error import FieldError, duplicate, invalid, required
from koordpy.descheduling.args import PluginArgs
from koordpy.descheduling.proof.settings import proof_errors
from koordpy.lib import duration, host_port

from .configuration import DeschedulerConfiguration, LeaderElection, Profile

_DNS_NAME: Final = re.compile(
    r"(?=.{1,253}$)(?:[a-z0-9_]([-a-z0-9_]*[a-z0-9_])?\.)*[a-z0-9_]([-a-z0-9_]*[a-z0-9_])?\.?", re.IGNORECASE
)


def validate(config: DeschedulerConfiguration) -> list[FieldError]:
    """Return all errors in a defaulted configuration.

    Of the arguments of plugins only those are checked here that Koordinator checks before it creates plugins.
    """
    errors = []
    if config.client_connection.burst < 0:
        errors.append(
            invalid("clientConnection.burst", config.client_connection.burst, "must be non-negative")
        )
    errors += _election_errors(config.leader_election)
    if not config.profiles:
        errors.append(required("profiles"))
    seen: set[str] = set()
    for index, profile in enumerate(config.profiles):
        path = f"profiles[{index}]"
        errors += _profile_errors(path, profile)
        if profile.name in seen:
            # Koordinator names the place of the other profile, which Kubernetes writes as {}
            errors.append(duplicate(f"{path}.name", {}))
        seen.add(profile.name)
    errors += _address_errors("healthzBindAddress", config.healthz_bind_address)
    errors += _address_errors("metricsBindAddress", config.metrics_bind_address)
    if config.node_selector is not None:
        errors += selector_errors.errors(config.node_selector)
    return errors


def _profile_errors(path: str, profile: Profile) -> Iterator[FieldError]:
    if not profile.name:
        yield required(f"{path}.name")
    yield from proof_errors(f"{path}.proof", profile.proof)
    names: set[str] = set()
    for position, entry in enumerate(profile.plugin_config):
        where = f"{path}.pluginConfig[{position}]"
        if entry.name in names:
            yield duplicate(where, entry.name)
        names.add(entry.name)
        if isinstance(entry.args, PluginArgs) and entry.args.checked_unless_enabled:
            yield from entry.args.problems_under(f"{where}.args")


def _address_errors(path: str, address: str | None) -> Iterator[FieldError]:
    if address is None:
        return
    try:
        host, port = host_port.split(address)
    except ValueError as error:
        yield invalid(path, address, f"must be a valid socket address (host:port), got error: {error}")
        return
    if host and not _is_host(host):
        yield invalid(path, address, f'invalid host "{host}" in socket address')
    elif not port:
        yield invalid(path, address, "port must not be empty in socket address")


def _is_host(host: str) -> bool:
    """Whether a host is an address or could be a name; Koordinator also resolves the name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return _DNS_NAME.fullmatch(host) is not None
    return True


def _election_errors(election: LeaderElection) -> Iterator[FieldError]:
    if not election.leader_elect:
        return
    path = "leaderElection"
    for name, value in (
        ("leaseDuration", election.lease_duration),
        ("renewDeadline", election.renew_deadline),
        ("retryPeriod", election.retry_period),
    ):
        if value <= 0:
            yield invalid(f"{path}.{name}", duration.format(value), "must be greater than zero")
    if election.lease_duration <= election.renew_deadline:
        # the value is that of renewDeadline in Kubernetes too
        yield invalid(
            f"{path}.leaseDuration",
            duration.format(election.renew_deadline),
            "must be greater than `RenewDeadline`",
        )
    for name, text in (
        ("resourceLock", election.resource_lock),
        ("resourceNamespace", election.resource_namespace),
        ("resourceName", election.resource_name),
    ):
        if not text:
            yield invalid(f"{path}.{name}", text, f"{name} is required")
