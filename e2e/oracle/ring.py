# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Records the kernel's trace events raw, in a trace instance of its own, and decodes the pages of its ring buffers.

Everything here is the kernel's own recorder (ftrace): no eBPF, no code and no layout of Surefoot's. tracefs is mounted in
a private mount namespace where it is not mounted; the instance is removed at the end, also one that a killed run left.
The rings are large enough for the whole recording and are read after it, so that recording wakes nobody.
"""

import ctypes
import os
import re
import struct
import tempfile
from pathlib import Path

CLONE_NEWNS, MS_REC, MS_PRIVATE, MNT_DETACH = 0x20000, 0x4000, 1 << 18, 2
INSTANCE = "oracle-"
LIBC = ctypes.CDLL(None, use_errno=True)


class NotHere(Exception):
    """This machine cannot record; the text says why."""


def call(result, what):
    if result != 0:
        raise NotHere(f"{what}: {os.strerror(ctypes.get_errno())}")


def mounted_tracefs():
    """The folder of tracefs: where it is mounted, else in a mount namespace of this process's own."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        if line.split()[2] == "tracefs":
            return Path(line.split()[1])
    call(LIBC.unshare(CLONE_NEWNS), "a mount namespace of its own")
    call(LIBC.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None), "making the mounts private")
    folder = Path(tempfile.mkdtemp(prefix="oracle-tracefs-"))
    call(LIBC.mount(b"nodev", str(folder).encode(), b"tracefs", 0, None), "mounting tracefs")
    return folder


class Instance:
    """A trace instance with a ring per core, as a context manager."""

    def __init__(self, events, bytes_per_core):
        self.top = mounted_tracefs()
        self.own_mount = self.top.name.startswith("oracle-tracefs-")
        self.folder = self.top / "instances" / f"{INSTANCE}{os.getpid()}"
        self.events, self.bytes_per_core = events, bytes_per_core
        self.missing = []

    def __enter__(self):
        try:
            self.remove_stale()
            self.folder.mkdir()
            self.write("tracing_on", "0")
            self.write("trace_clock", "mono")
            self.write("buffer_size_kb", str(self.bytes_per_core >> 10))
            for event in self.events:
                enable = self.folder / "events" / event / "enable"
                if enable.exists():
                    enable.write_text("1")
                else:
                    self.missing.append(event)
        except OSError as error:
            self.__exit__()
            raise NotHere(f"a trace instance: {error}") from error
        return self

    def attach_again(self):
        """Whoever attaches to a tracepoint last is called last there."""
        for event in self.events:
            if event not in self.missing:
                self.write(f"events/{event}/enable", "0")
                self.write(f"events/{event}/enable", "1")

    def __exit__(self, *_):
        if self.folder.exists():
            self.write("tracing_on", "0")
            self.write("events/enable", "0")
            self.folder.rmdir()
        if self.own_mount:
            LIBC.umount2(str(self.top).encode(), MNT_DETACH)
            self.top.rmdir()

    def remove_stale(self):
        """Takes away what a run that was killed has left."""
        for left in (self.top / "instances").glob(f"{INSTANCE}*"):
            if not Path(f"/proc/{left.name.removeprefix(INSTANCE)}").exists():
                (left / "events/enable").write_text("0")
                left.rmdir()

    def write(self, name, text):
        (self.folder / name).write_text(text)

    def switch(self, on):
        self.write("tracing_on", "1" if on else "0")

    def stats(self):
        """Events of all cores that the rings could not hold."""
        lost = 0
        for stats in self.folder.glob("per_cpu/cpu*/stats"):
            fields = dict(line.split(": ") for line in stats.read_text().splitlines() if ": " in line)
            lost += int(fields["overrun"]) + int(fields["dropped events"]) + int(fields["commit overrun"])
        return lost

    def formats(self):
        """Of each event its number and the places of its fields."""
        found = {}
        for event in self.events:
            if event not in self.missing:
                found[event] = Format((self.folder / "events" / event / "format").read_text())
        return found

    def pages(self, cpu):
        """The pages of a core's ring, oldest first; reading consumes them."""
        size = os.sysconf("SC_PAGE_SIZE")
        ring = os.open(self.folder / f"per_cpu/cpu{cpu}/trace_pipe_raw", os.O_RDONLY | os.O_NONBLOCK)
        try:
            while True:
                try:
                    page = os.read(ring, size)
                except BlockingIOError:
                    return
                if not page:
                    return
                yield page
        finally:
            os.close(ring)

    def cores(self):
        return sorted(int(folder.name[3:]) for folder in self.folder.glob("per_cpu/cpu*"))


class Format:
    """Where the fields of an event's records are, from its format file."""

    FIELD = re.compile(r"field:(.*?)([A-Za-z_]\w*)(\[\w*\])?;\s*offset:(\d+);\s*size:(\d+);\s*signed:(\d);")

    def __init__(self, text):
        self.number = int(re.search(r"^ID: (\d+)$", text, re.M).group(1))
        self.fields = {}
        for kind, name, length, offset, size, signed in self.FIELD.findall(text):
            self.fields[name] = (int(offset), int(size), signed == "1", "__data_loc" in kind, bool(length))

    def reader(self, names):
        """A function from a record to the values of these fields."""
        parts = [self.part(*self.fields[name]) for name in names]
        return lambda data, at: [part(data, at) for part in parts]

    @staticmethod
    def part(offset, size, signed, elsewhere, is_array):
        if elsewhere:
            def text(data, at):
                place, = struct.unpack_from("<I", data, at + offset)
                begin = at + (place & 0xFFFF)
                return data[begin:begin + (place >> 16)].split(b"\0")[0].decode(errors="replace")
            return text
        if is_array:
            return lambda data, at: data[at + offset:at + offset + size].split(b"\0")[0].decode(errors="replace")
        letter = {1: "b", 2: "h", 4: "i", 8: "q"}[size]
        number = struct.Struct("<" + (letter if signed else letter.upper())).unpack_from
        return lambda data, at: number(data, at + offset)[0]


# The kinds of entry of a ring's page that are no event (the kernel's include/linux/ring_buffer.h).
PADDING, TIME_EXTEND, TIME_STAMP = 29, 30, 31
PAGE_HEADER, COMMIT_MASK, MISSED = 16, (1 << 30) - 1, 1 << 31


def records(page):
    """The time and place of each record of a page, as (nanoseconds, offset). Raises where the ring lost some before it."""
    now, commit = struct.unpack_from("<QQ", page)
    if commit & MISSED:
        raise NotHere("the ring lost events")
    at, end = PAGE_HEADER, PAGE_HEADER + (commit & COMMIT_MASK)
    while at < end:
        head, = struct.unpack_from("<I", page, at)
        kind, delta = head & 31, head >> 5
        at += 4
        if kind == TIME_EXTEND:
            now += delta + (struct.unpack_from("<I", page, at)[0] << 27)
            at += 4
        elif kind == TIME_STAMP:
            now = (now & ~((1 << 59) - 1)) | (delta + (struct.unpack_from("<I", page, at)[0] << 27))
            at += 4
        elif kind == PADDING:
            if not delta:
                return
            at += struct.unpack_from("<I", page, at)[0]
            now += delta
        else:
            now += delta
            begin, length = at, kind * 4
            if not kind:
                length, begin = struct.unpack_from("<I", page, at)[0], at + 4
            yield now, begin
            at += length
