"""Observers that record scheduling attempts and explain what became of pods.

`observers` composes them, `settings` configures them. `decisions` are the latest attempts, rendered by
`explained`; `decision_stream` streams them live. `history` records the lives of pods, `causes` explains why a
pod waits, `reservation_causes` which Reservations are involved. The others export what they observe:
`attempt_log` to the log, `explanations` to ScheduleExplanations, `reservation_event` to events, `monitor` and
`auditor` to metrics.
"""
