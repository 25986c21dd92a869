"""LoadAwareScheduling: keep pods off nodes with high usage."""
