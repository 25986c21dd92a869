"""The order in which a new authority is trusted and then used."""

import os
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import pytest

from koordpy.admission.serving import generator
from koordpy.admission.serving.artifacts import OVERLAP, Artifacts
from koordpy.admission.serving.certificate_source import Generated, Given
from koordpy.lib.certificates import CertificateError
from koordpy.lib.clock import FakeClock

NOW = datetime(2026, 8, 31, 12, tzinfo=UTC)
DNS = "koordinator-webhook-service.koordinator-system.svc"


@cache
def made(version: int) -> Artifacts:
    """Certificates; those of each version have an authority of their own."""
    return generator.generate(DNS, NOW)


class Shelf:
    """Certificates in memory, as a Secret that all replicas share would keep them."""

    def __init__(self, held: Artifacts) -> None:
        self.held = held
        self.told: list[Artifacts | None] = []

    async def obtain(self, serving: Artifacts | None) -> Artifacts:
        self.told.append(serving)
        return self.held


class Replica:
    """A source whose waits and publications are written down in their order, with what was served then."""

    def __init__(self, directory: Path) -> None:
        self.shelf = Shelf(made(1))
        self.events: list[tuple[str, bytes]] = []
        self._directory = directory
        self.clock = FakeClock(NOW)
        self.source = Generated(
            self.shelf,
            directory,
            self.clock,
            published=lambda: self._note("published"),
            propagation=5.0,
            sleep=self._sleep,
        )

    async def round(self) -> bytes:
        """Run one round, as the controller does; return what clients were told to trust."""
        trusted = await self.source.ensure()
        await self.source.serve()
        return trusted

    async def _sleep(self, seconds: float) -> None:
        self._note(f"waited {seconds:g}s")

    def _note(self, event: str) -> None:
        self.events.append((event, (self._directory / "tls.crt").read_bytes()))


async def test_the_first_certificate_is_served_at_once(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    assert await replica.round() == made(1).ca_cert
    assert replica.events == [("published", made(1).cert)]


async def test_a_new_authority_is_announced_and_has_time_to_spread_before_it_is_used(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    await replica.round()
    replica.events.clear()
    replica.shelf.held = made(2)
    assert await replica.round() == made(2).ca_cert
    assert replica.events == [("waited 5s", made(1).cert), ("published", made(2).cert)]


async def test_a_certificate_of_the_same_authority_is_served_at_once(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    await replica.round()
    replica.events.clear()
    renewed = generator.generate(DNS, NOW, made(1))
    replica.shelf.held = renewed
    await replica.round()
    assert replica.events == [("published", renewed.cert)]
    await replica.round()
    assert [event for event, _ in replica.events] == ["published", "published"]


async def test_the_store_gets_the_serving_certificate(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    await replica.round()
    replica.shelf.held = made(2)
    await replica.round()
    await replica.source.ensure()
    assert replica.shelf.told == [None, made(1), made(2)]


async def test_a_replaced_authority_is_trusted_for_a_while(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    replica.shelf.held = made(2).remembering(made(1).ca_cert, NOW)
    assert await replica.round() == made(2).ca_cert + made(1).ca_cert
    replica.clock.advance(OVERLAP.total_seconds())
    assert await replica.round() == made(2).ca_cert


async def test_certificates_of_others_are_read_and_not_touched(tmp_path: Path) -> None:
    published: list[str] = []
    given = Given(tmp_path, published=lambda: published.append("again"))
    with pytest.raises(CertificateError, match=f"^{tmp_path}: "):
        await given.ensure()
    (tmp_path / "ca.crt").write_bytes(b"theirs")
    assert await given.ensure() == b"theirs"
    assert not published
    await given.serve()
    assert published == ["again"]
    assert os.listdir(tmp_path) == ["ca.crt"]
