"""LoadAwareScheduling: keep pods off nodes that are already hot."""
