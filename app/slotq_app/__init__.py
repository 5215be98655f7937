"""The command line of slotq, and its demo."""
