"""ScarceResourceAvoidance: leave nodes with rare resources to the pods that need these."""
