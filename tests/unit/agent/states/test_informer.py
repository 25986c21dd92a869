from koordpy.agent.interface import CgroupLayout
from koordpy.agent.states.informer import StatesInformer
from koordpy.api.core import Node, Pod
from koordpy.api.scheme import decode
from koordpy.testing.cluster import cluster


def test_what_is_known_before_is_seen_without_an_error(caplog) -> None:
    node = decode(Node, {"metadata": {"name": "n1"}})
    pod = decode(Pod, {"metadata": {"name": "p", "uid": "u"}, "spec": {"nodeName": "n1"}})
    known = cluster(node, pod)
    states = StatesInformer(known, "n1", CgroupLayout(systemd=True))
    assert [meta.pod.metadata.uid for meta in states.pods()] == ["u"]
    assert caplog.records == []


def test_pods_are_worked_out_anew_after_a_change() -> None:
    known = cluster()
    states = StatesInformer(known, "n1", CgroupLayout(systemd=True))
    assert states.pods() == []
    pod = {"metadata": {"name": "p", "namespace": "d", "uid": "u"}, "spec": {"nodeName": "n1"}}
    known.store(Pod).apply(decode(Pod, pod))
    assert len(states.pods()) == 1
    states.pods().clear()
    assert len(states.pods()) == 1
    known.store(Pod).discard("d/p")
    assert states.pods() == []
