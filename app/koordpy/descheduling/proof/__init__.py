"""Proof before eviction: a pod is evicted only if scheduling would find it a better node."""
