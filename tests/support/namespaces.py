"""Processes that are the first of a namespace, as in a container."""

import shutil
import subprocess
from typing import Final

UNSHARE: Final = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")


def can_unshare() -> bool:
    """Tell whether a PID namespace can be made here, which takes Linux and root."""
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode == 0
