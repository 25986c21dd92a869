"""Keep what is allocated to a bound pod as the scheduler wrote it."""
