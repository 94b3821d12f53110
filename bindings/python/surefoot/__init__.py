# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Checkpoints that survive: arrays to memory at memory speed, and to the SSD as often as its endurance allows.

    with surefoot.Checkpoint("train", durable="/ssd") as job:
        job.protect("weights", weights)
        if job.restart() is None:
            begin(weights)
        while training:
            step(weights)
            if job.need():
                job.save()

The arrays stay where they are and are copied once, into the checkpoint. A failed save is a warning and no end of the
program, unless asked for.
"""

from ._checkpoint import Checkpoint
from ._errors import (
    ArgumentError,
    BusyError,
    DamagedError,
    GroupError,
    InternalError,
    LibraryError,
    NoRoomError,
    NothingIntactError,
    OptionError,
    OtherRankError,
    OtherRanksError,
    SaveFailed,
    ShapeError,
    StorageError,
    SurefootError,
    UnsupportedError,
)
from ._groups import Group
from ._resized import Resized
from ._tensors import DTensorPart
from ._told import Restored, Saved
from ._version import VERSION as __version__

__all__ = [
    "ArgumentError",
    "BusyError",
    "Checkpoint",
    "DTensorPart",
    "DamagedError",
    "Group",
    "GroupError",
    "InternalError",
    "LibraryError",
    "NoRoomError",
    "NothingIntactError",
    "OptionError",
    "OtherRankError",
    "OtherRanksError",
    "Resized",
    "Restored",
    "SaveFailed",
    "Saved",
    "ShapeError",
    "StorageError",
    "SurefootError",
    "UnsupportedError",
    "__version__",
]
