"""The view of the cluster: informers, indexed stores, the node table, writes."""
