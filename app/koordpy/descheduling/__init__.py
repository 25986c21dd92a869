"""The descheduler framework: profiles of Deschedule, Balance and evictor plugins."""
