"""What a job of the demo does with a file; all of it lets other threads run."""

import bz2
import hashlib
import lzma
import zlib
from typing import Final, TypedDict

# The least that LZMA takes. A dictionary larger than the file only costs memory.
LEAST_DICTIONARY: Final = 4_096


class Packed(TypedDict):
    """What came out."""

    sha256: str
    size: int
    packed: int
    by: str


def pack(data: bytes) -> Packed:
    """Hash the data, compress it in three ways, and say which way is the smallest."""
    lzma2 = {
        "id": lzma.FILTER_LZMA2,
        "preset": 6,
        "dict_size": max(LEAST_DICTIONARY, len(data)),
    }
    sizes = {
        "zlib": len(zlib.compress(data, 9)),
        "bz2": len(bz2.compress(data, 9)),
        "lzma": len(lzma.compress(data, filters=[lzma2])),
    }
    best = min(sizes, key=lambda name: sizes[name])
    digest = hashlib.sha256(data).hexdigest()
    return Packed(sha256=digest, size=len(data), packed=sizes[best], by=best)
