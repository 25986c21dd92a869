"""Eviction of pods from a node for its resources: what CPU eviction and memory eviction have in common.

A feature that finds too little of a resource left makes an `EvictionTask`; all tasks of a round are worked
off together, so that no pod is evicted twice, and what one task releases counts for the next.

Source: Koordinator, `pkg/koordlet/qosmanager/plugins/util/evict.go`, and what `cpuevict` and `memoryevict`
both do.
"""
