"""ScarceResourceAvoidance: keep nodes with scarce resources for the pods that need them."""
