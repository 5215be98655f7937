"""The demo: real work under limits by tenant, and a check of what it recorded.

``app`` holds the queue and its task, as a user of slotq would write them; ``plan`` chooses the
work, ``fleet`` starts the workers, ``history`` judges, ``watch`` and ``report`` show.
"""
