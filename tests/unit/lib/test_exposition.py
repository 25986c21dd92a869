"""The text of metrics."""

from prometheus_client import Gauge

from koordpy.lib.exposition import exposition, written_aside

GAUGE = Gauge("koordpy_test_exposition", "A gauge of this test.", ["name"])


async def test_text_that_is_written_aside_is_the_same() -> None:
    GAUGE.labels("a").set(3)
    text = await written_aside(("koordpy_test_exposition",))
    assert 'koordpy_test_exposition{name="a"} 3.0' in text.decode()
    assert text == exposition(("koordpy_test_exposition",))


def test_metrics_are_selected_by_prefix() -> None:
    GAUGE.labels("b").set(1)
    assert b"koordpy_test_exposition" not in exposition(("koordpy_",), without=("koordpy_test_exposition",))
    assert b"koordpy_test_exposition" not in exposition(("other_",))
