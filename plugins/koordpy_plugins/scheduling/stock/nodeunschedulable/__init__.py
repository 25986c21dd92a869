"""NodeUnschedulable: cordoned nodes take only pods that tolerate it."""
