from koordpy_plugins.collectors.pagecache.plugin import PageCache
from tests.unit.plugins.collectors.node_files import BEST_EFFORT, NodeFiles, pod

POD = f"{BEST_EFFORT}/kubepods-besteffort-podu.slice"


def test_usage_contains_page_cache(tmp_path):
    node = NodeFiles(tmp_path, PageCache, pod("u", "c1"), flags={"enable-pagecache-collector": True})
    assert node.collector.idle_reason() is None
    node.write(node.proc / "meminfo", "MemTotal: 1000 kB\nMemFree: 300 kB\nMemAvailable: 400 kB\n")
    node.memory(POD, 10)
    node.memory(f"{POD}/cri-containerd-c1.scope", 20)
    node.collect()
    assert node.values("node_memory_usage_with_page_cache") == 700 * 1024
    assert node.values("pod_memory_usage_with_page_cache", pod_uid="u") == 316
    assert node.values("container_memory_usage_with_page_cache", container_id="containerd://c1") == 326


def test_it_is_off_by_default(tmp_path):
    node = NodeFiles(tmp_path, PageCache)
    assert node.collector.idle_reason() == "--enable-pagecache-collector is false"
