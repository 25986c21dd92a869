"""The Secret that replicas share, on an API server of this process."""

import asyncio
import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from koordpy.admission.serving import generator
from koordpy.admission.serving.artifacts import OVERLAP, Artifacts
from koordpy.admission.serving.certificate_secret import CertificateSecret
from koordpy.api.core import Namespace, Secret
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.errors import Conflict
from koordpy.embedded.apiserver import ApiServer, Fault
from koordpy.lib.clock import FakeClock
from koordpy.simulation.inprocess import ServerChannel

NOW = datetime(2026, 8, 31, 12, tzinfo=UTC)
DNS = "koordinator-webhook-service.koordinator-system.svc"
SECRETS = resource_of(Secret)
SIX = {"ca-key.pem", "ca-cert.pem", "key.pem", "tls.key", "cert.pem", "tls.crt"}


class Scene:
    """An API server, and replicas that each have a client of their own."""

    def __init__(self) -> None:
        self.clock = FakeClock(NOW)
        self.server = ApiServer(clock=self.clock)
        self.client = Client(ServerChannel(self.server))

    async def begin(self) -> "Scene":
        await self.server.load()
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}}
        await self.client.create_raw(resource_of(Namespace), "", namespace)
        return self

    def replica(self) -> CertificateSecret:
        return CertificateSecret(Client(ServerChannel(self.server)), "ns", "certs", DNS, self.clock)

    def methods(self) -> list[str]:
        """Return the methods of all requests from now on, as they come."""
        seen: list[str] = []
        self.server.faults = lambda method, path: seen.append(method)
        return seen

    async def document(self) -> dict[str, Any]:
        return await self.client.get_raw(SECRETS, "ns", "certs")

    async def stored(self) -> Artifacts:
        data = (await self.document())["data"]
        return Artifacts.of({name: base64.b64decode(text) for name, text in data.items()})

    async def store(self, artifacts: Artifacts) -> None:
        data = {name: base64.b64encode(content).decode() for name, content in artifacts.data().items()}
        await self.client.patch_raw(SECRETS, "ns", "certs", {"data": data})

    async def replace(self) -> Artifacts:
        """Write certificates of another authority, as an administrator may."""
        foreign = generator.generate(DNS, self.clock.now())
        await self.store(foreign)
        return foreign


async def test_the_first_replica_makes_the_secret_and_the_others_read_it() -> None:
    it = await Scene().begin()
    made = await it.replica().obtain(None)
    assert generator.problem(made, DNS, NOW) == ""
    assert await it.stored() == made
    assert set((await it.document())["data"]) == SIX
    version = (await it.document())["metadata"]["resourceVersion"]
    assert await it.replica().obtain(None) == made
    assert await it.replica().obtain(made) == made
    assert (await it.document())["metadata"]["resourceVersion"] == version


async def test_a_replica_that_comes_second_takes_what_the_first_has_made() -> None:
    it = await Scene().begin()
    made = await it.replica().obtain(None)
    reads = iter([Fault(status=404)])
    it.server.faults = lambda method, path: (
        next(reads, None) if method == "GET" and path.endswith("/secrets/certs") else None
    )
    assert await it.replica().obtain(None) == made


async def test_a_renewed_certificate_has_the_same_authority_while_that_lasts() -> None:
    it = await Scene().begin()
    made = await it.replica().obtain(None)
    await it.store(Artifacts(made.ca_key, made.ca_cert, b"", b""))
    renewed = await it.replica().obtain(made)
    assert generator.problem(renewed, DNS, NOW) == ""
    assert renewed.cert != made.cert
    assert renewed.ca_cert == made.ca_cert
    assert renewed.trusted(NOW) == made.ca_cert
    assert await it.stored() == renewed


async def test_a_replaced_authority_is_trusted_for_a_while_if_it_is_still_good() -> None:
    it = await Scene().begin()
    made = await it.replica().obtain(None)
    it.clock.advance(timedelta(days=3650 - 100).total_seconds())
    now = it.clock.now()
    renewed = await it.replica().obtain(None)
    assert renewed.ca_cert != made.ca_cert
    assert renewed.trusted(now) == renewed.ca_cert + made.ca_cert
    assert await it.stored() == renewed
    assert renewed.trusted(now + OVERLAP) == renewed.ca_cert


async def test_an_authority_that_has_ended_is_not_trusted_any_longer() -> None:
    it = await Scene().begin()
    made = await it.replica().obtain(None)
    it.clock.advance(timedelta(days=3651).total_seconds())
    renewed = await it.replica().obtain(made)
    assert renewed.trusted(it.clock.now()) == renewed.ca_cert


async def test_an_authority_that_was_written_over_stays_trusted_while_a_replica_serves_it() -> None:
    it = await Scene().begin()
    made = await it.replica().obtain(None)
    foreign = await it.replace()
    taken = await it.replica().obtain(made)
    assert taken.cert == foreign.cert
    assert taken.trusted(NOW) == foreign.ca_cert + made.ca_cert
    assert await it.stored() == taken
    version = (await it.document())["metadata"]["resourceVersion"]
    assert await it.replica().obtain(made) == taken
    assert (await it.document())["metadata"]["resourceVersion"] == version


async def test_an_authority_whose_secret_was_deleted_stays_trusted_while_a_replica_serves_it() -> None:
    it = await Scene().begin()
    made = await it.replica().obtain(None)
    await it.client.delete_raw(SECRETS, "ns", "certs")
    methods = it.methods()
    again = await it.replica().obtain(made)
    assert methods == ["GET", "POST"]  # no other replica reads a Secret that does not know of it yet
    assert again.ca_cert != made.ca_cert
    assert again.trusted(NOW) == again.ca_cert + made.ca_cert
    assert await it.stored() == again


async def test_of_replicas_that_renew_together_one_wins_and_the_others_hear_of_a_conflict() -> None:
    it = await Scene().begin()
    made = await it.replica().obtain(None)
    await it.store(Artifacts(made.ca_key, made.ca_cert, b"", b""))
    found = await asyncio.gather(*(it.replica().obtain(made) for _ in range(3)), return_exceptions=True)
    won = [one for one in found if isinstance(one, Artifacts)]
    assert won == [await it.stored()]
    assert sum(isinstance(one, Conflict) for one in found) == 2


async def test_labels_and_foreign_keys_survive_a_renewal() -> None:
    it = await Scene().begin()
    metadata = {"name": "certs", "labels": {"app": "x"}}
    document = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"mine": "bWluZQ=="}}
    await it.client.create_raw(SECRETS, "ns", document)
    made = await it.replica().obtain(None)
    found = await it.document()
    assert found["metadata"]["labels"] == {"app": "x"}
    assert found["data"]["mine"] == "bWluZQ=="
    assert set(found["data"]) == SIX | {"mine"}
    assert await it.stored() == made


@pytest.mark.parametrize("data", [{}, None])
async def test_a_secret_without_data_is_filled(data: dict[str, str] | None) -> None:
    it = await Scene().begin()
    document = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "certs"}, "data": data}
    await it.client.create_raw(SECRETS, "ns", document)
    made = await it.replica().obtain(None)
    assert await it.stored() == made
