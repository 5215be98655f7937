"""The ``qworker`` command as ``python -m slotq_app``."""

from slotq_app.start import main

main()
