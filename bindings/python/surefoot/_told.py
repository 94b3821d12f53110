# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The result of a save or a restart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional

from ._errors import SurefootError

# By the numbers of the library.
PLACES = ("nowhere", "memory", "both", "durable")


@dataclass(frozen=True)
class Saved:
    """The result of a save. It is true where a checkpoint was taken."""

    generation: Optional[int]
    """The number of the checkpoint, None where none was taken."""
    place: str
    """Where it is: "memory", "durable", "both" (in memory, and on its way to the durable tier), or "nowhere"."""
    payload_bytes: int
    """Bytes of this rank's arrays and files."""
    visible_s: float
    """Seconds that the call took."""
    reasons: tuple[str, ...]
    """Why it went there, the deciding reason first."""
    error: Optional[SurefootError] = None
    """Why it failed."""

    def __bool__(self) -> bool:
        return self.generation is not None


@dataclass(frozen=True)
class Restored:
    """A checkpoint that was brought back."""

    generation: int
    """Its number."""
    taken_realtime_ns: int
    """When it was taken, nanoseconds since 1970."""
    report: tuple[str, ...]
    """What was read, repaired or refused."""
    state: Any = None
    """The state that was saved with it, None where there was none."""
