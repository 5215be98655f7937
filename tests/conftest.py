"""Hypothesis profiles: HYPOTHESIS_PROFILE picks one, CI picks its own."""

import os
import signal

from hypothesis import HealthCheck, settings

# A slow example says that the machine is busy, not that the code is wrong.
settings.register_profile(
    "base", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
BASE = settings.get_profile("base")

settings.register_profile("dev", BASE, max_examples=50)
# The same examples in every run: a red build is red for its change, not by luck.
settings.register_profile("ci", BASE, max_examples=200, derandomize=True, database=None)
settings.register_profile("soak", BASE, max_examples=2_000, stateful_step_count=100)

settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if "CI" in os.environ else "dev"))

# What a shell starts in the background ignores interrupts, and so would all that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
