"""The selector of a store: the union of its readers' selectors."""

import pytest

from koordpy.api.core import Pod
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.selector import EVERYTHING, Selector

HERE = Selector(fields="spec.nodeName=n1")
THERE = Selector(fields="spec.nodeName=n2")


def test_equal_selectors_are_not_widened() -> None:
    cluster = Cluster()
    assert cluster.store(Pod, selector=HERE) is cluster.store(Pod, selector=HERE)
    assert cluster.store(Pod, selector=HERE).selector == HERE


@pytest.mark.parametrize("wanted", [(HERE, EVERYTHING), (EVERYTHING, HERE), (HERE, THERE)])
def test_different_selectors_select_everything(wanted: tuple[Selector, Selector]) -> None:
    cluster = Cluster()
    for selector in wanted:
        store = cluster.store(Pod, selector=selector)
    assert store.selector == EVERYTHING


def test_different_selectors_of_a_namespace_select_the_namespace() -> None:
    cluster = Cluster()
    named = [Selector(namespace="a", fields=f"metadata.name={name}") for name in ("x", "y")]
    for selector in named:
        store = cluster.store(Pod, selector=selector)
    assert store.selector == Selector(namespace="a")
    store.is_followed = True
    assert cluster.store(Pod, selector=named[0]) is store
    with pytest.raises(RuntimeError, match=r"namespace='b'.* is wanted"):
        cluster.store(Pod, selector=Selector(namespace="b"))


def test_a_type_is_optional_only_if_no_reader_depends_on_it() -> None:
    cluster = Cluster()
    assert cluster.store(Pod, optional=True).optional
    assert not cluster.store(Pod).optional
    assert not cluster.store(Pod, optional=True).optional


def test_a_late_reader_does_not_delay_readiness_unless_another_reader_does() -> None:
    cluster = Cluster()
    assert cluster.late_store(Pod).late
    assert not cluster.store(Pod).late
    assert not cluster.late_store(Pod).late


def test_more_than_is_followed_cannot_be_requested() -> None:
    cluster = Cluster()
    store = cluster.store(Pod, selector=HERE)
    store.is_followed = True
    assert cluster.store(Pod, selector=HERE) is store
    with pytest.raises(RuntimeError, match=r"Pod: .*is wanted, but only .*spec.nodeName=n1.* is followed"):
        cluster.store(Pod)


def test_less_than_is_followed_is_available_at_once() -> None:
    cluster = Cluster()
    store = cluster.store(Pod)
    store.is_followed = True
    assert cluster.store(Pod, selector=HERE) is store
    assert store.selector == EVERYTHING
