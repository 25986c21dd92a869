"""What every feature needs of a cluster: found by making its plugins, shown in `docs/features.md`, and
compared with a real cluster by `koordpy doctor`.
"""
