# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Settings of a job, as keywords here and as texts in the library."""

from __future__ import annotations

import os
from typing import Mapping, Optional, Union

from ._errors import ArgumentError

PathText = Union[str, "os.PathLike[str]"]
Value = Union[str, int, float, "os.PathLike[str]"]

# Keywords of settings whose name has a point, which a keyword cannot have.
SETTINGS = {
    "memory_slots": "memory.slots",
    "memory_protection": "memory.protection",
    "memory_threads": "memory.threads",
    "memory_ahead_bytes": "memory.ahead_bytes",
    "durable_keep": "durable.keep",
    "durable_queue_depth": "durable.queue_depth",
    "durable_protection": "durable.protection",
    "durable_limit_bytes_per_s": "durable.limit_bytes_per_s",
    "durable_allow_memory": "durable.allow_memory",
    "shared_keep": "shared.keep",
    "shared_queue_depth": "shared.queue_depth",
    "shared_protection": "shared.protection",
    "shared_limit_bytes_per_s": "shared.limit_bytes_per_s",
    "shared_allow_memory": "shared.allow_memory",
    "shared_staleness_max_s": "shared.staleness_max_s",
    "shared_every": "shared.every",
    "endurance_rated_bytes": "endurance.rated_bytes",
    "endurance_written_bytes": "endurance.written_bytes",
    "endurance_remaining_years": "endurance.remaining_years",
    "endurance_wa_factor": "endurance.wa_factor",
}


def settings_of(
    memory: Optional[PathText], durable: Optional[PathText], policy: Optional[str], settings: Mapping[str, Value]
) -> dict[str, str]:
    """What is said to the library, in the order in which it wants to hear it."""
    words = {}
    # What is not said here may be said by a variable or by the host's file of settings.
    if memory is None or memory == "none":
        words["memory"] = "none"
    elif os.fspath(memory):
        words["memory"] = os.path.abspath(memory)
    if durable is not None and not os.fspath(durable):
        raise ArgumentError('durable is an empty path; name a directory, or "none" for no such tier')
    if durable is not None:
        words["durable"] = "none" if durable == "none" else os.path.abspath(durable)
    if policy is not None:
        words["policy"] = policy
    for name, value in settings.items():
        words[SETTINGS.get(name, name)] = _said(value)
    return words


def _said(value: Value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def encoded(text: str, what: str) -> bytes:
    """As the library wants it."""
    if not isinstance(text, str):
        raise ArgumentError(f"the {what} is a {type(text).__name__}, not a text")
    if "\0" in text:
        raise ArgumentError(f"the {what} has a NUL in it")
    try:
        return os.fsencode(text)
    except UnicodeEncodeError:
        raise ArgumentError(f"the {what} has signs that no file name can have") from None
