"""The ``qworker`` command as ``python -m slotq_app``."""

from slotq_app.cli import main

main()
