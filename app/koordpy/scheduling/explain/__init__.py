"""Who listens to scheduling attempts, remembers them, and tells what became of pods.

`observers` puts them together, `settings` are what configuration files say of them. `decisions` are the last
attempts, in the words of `explained`; `decision_stream` is the same as it goes on. `history` has the lives of
pods, `causes` why one waits, `reservation_causes` which Reservation has to do with it. The others write what
they see: `attempt_log` to the log, `explanations` to ScheduleExplanations, `reservation_event` to events,
`monitor` and `auditor` to metrics.
"""
