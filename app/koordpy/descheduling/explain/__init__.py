"""The rounds of the descheduler, recorded and explained."""
