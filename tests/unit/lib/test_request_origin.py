import pytest

from koordpy.lib.request_origin import is_loopback, names_for, refusal

NONE: frozenset[str] = frozenset()


def headers(**fields: str) -> list[tuple[bytes, bytes]]:
    return [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in fields.items()]


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:10251",
        "localhost.",
        "127.0.0.1:1",
        "127.9.8.7",
        "[::1]:10251",
        "[::1]",
        "localhost:",
    ],
)
def test_loopback_hosts_are_accepted(host):
    assert refusal(headers(host=host), NONE) is None


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:10251",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "localhost@evil.example",
        "localhost:80@evil.example",
        "localhost:port",
        "localhost/x",
        "0.0.0.0:10251",
        "10.0.0.1",
        "[::]",
        "[::1",
        "[fe80::1]:1",
        "",
        " ",
    ],
)
def test_other_hosts_are_refused(host):
    assert "Host" in (refusal(headers(host=host), NONE) or "")


def test_a_request_without_host_is_refused():
    assert refusal(headers(accept="*/*"), NONE) == "the request has no Host header field"


def test_a_second_host_is_refused():
    assert "several" in (refusal([*headers(host="localhost"), *headers(host="localhost")], NONE) or "")


def test_configured_names_are_accepted_with_any_port():
    names = names_for("127.0.0.1", ["Debug.Example"])
    assert refusal(headers(host="debug.example:99"), names) is None
    assert refusal(headers(host="other.example"), names) == (
        "Host is 'other.example', expected localhost, a loopback address or debug.example"
    )


def test_a_listener_beyond_loopback_accepts_every_host():
    assert names_for("0.0.0.0", ["x"]) is None
    assert refusal(headers(host="koordpy.koordinator-system.svc"), None) is None
    assert refusal([], None) is None


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "",
        "http://evil.example",
        "http://localhost:3000",
        "http://localhost",
        "http://127.0.0.1:10251",
        "http://localhost:10251@evil.example",
        "http://localhost:10251/",
        "localhost:10251",
    ],
)
@pytest.mark.parametrize("names", [NONE, None])
def test_a_foreign_origin_is_refused(origin, names):
    assert "Origin" in (refusal(headers(host="localhost:10251", origin=origin), names) or "")


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("localhost:10251", "http://localhost:10251"),
        ("LOCALHOST:10251", "https://localhost:10251"),
        ("localhost", "http://localhost:80"),
        ("localhost:443", "https://localhost"),
        ("[::1]:1", "http://[::1]:1"),
    ],
)
def test_the_own_origin_is_accepted(host, origin):
    assert refusal(headers(host=host, origin=origin), NONE) is None


@pytest.mark.parametrize(("site", "refused"), [("cross-site", True), ("Same-Site", True), ("none", False)])
def test_a_browser_names_requests_of_other_sites(site, refused):
    assert bool(refusal(headers(host="localhost", sec_fetch_site=site), NONE)) is refused


def test_a_message_repeats_no_control_characters_and_no_long_values():
    message = refusal(headers(host="evil\r\n" + "x" * 9999), NONE) or ""
    assert "\n" not in message
    assert len(message) < 250


@pytest.mark.parametrize("address", ["127.0.0.1", "127.1.2.3", "::1", "[::1]", "localhost"])
def test_loopback_addresses(address):
    assert is_loopback(address)


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "", "10.0.0.1", "localhost.example"])
def test_other_addresses(address):
    assert not is_loopback(address)
