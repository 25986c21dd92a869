"""The cluster as we know it: informers, indexed stores, the node table, writes."""
