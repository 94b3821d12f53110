# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the idle threads do in process context, from raw tracepoints.

Some kernels deliver no such event to ftrace or perf for the idle thread of a core (seen: of core 1 of a virtual machine,
Linux 6.18), while programs on raw tracepoints get them. This is such a program, put together by hand and loaded with
bpf(2): it writes down time and argument when the current task is the idle thread, and decides nothing.
"""

import ctypes
import mmap
import os
import platform
import struct

from ring import LIBC, NotHere

SYS_BPF = {"x86_64": 321, "aarch64": 280}.get(platform.machine())
MAP_CREATE, PROG_LOAD, RAW_TRACEPOINT_OPEN = 0, 5, 17
ARRAY, MMAPABLE, RAW_TRACEPOINT = 2, 1 << 10, 17
LOOKUP, KTIME, CPU, CURRENT = 1, 5, 8, 14  # helpers of the kernel
ENTRY = struct.Struct("<QQ")


def bpf(command, *attributes):
    buffer = ctypes.create_string_buffer(b"".join(attributes), 128)
    fd = LIBC.syscall(SYS_BPF, command, buffer, len(buffer))
    if fd < 0:
        raise NotHere(f"bpf({command}): {os.strerror(ctypes.get_errno())}")
    return fd


def instruction(code, dst=0, src=0, off=0, imm=0):
    return struct.pack("<BBhi", code, dst | src << 4, off, imm)


def address_of_map(dst, fd):
    return instruction(0x18, dst, 1, 0, fd) + instruction(0)


def program(counters, entries, slots, argument):
    """entries[cpu * slots + counters[cpu]++ % slots] = (now, argument) if the idle thread is current."""
    move, load, store, store32, call, leave = 0xBF, 0x79, 0x7B, 0x63, 0x85, 0x95
    to_end = 0x15  # jump if equal to the number
    body = [
        instruction(load, 9, 1, 8 * argument),               # r9 = the tracepoint's argument
        instruction(call, imm=CURRENT),
        ("unless zero",),
        instruction(call, imm=KTIME), instruction(move, 6, 0),
        instruction(call, imm=CPU), instruction(move, 8, 0), instruction(store32, 10, 8, -4),
        address_of_map(1, counters), instruction(move, 2, 10), instruction(0x07, 2, imm=-4), instruction(call, imm=LOOKUP),
        ("if zero",),
        instruction(move, 7, 0), instruction(load, 1, 7, 0), instruction(move, 2, 1),
        instruction(0x07, 2, imm=1), instruction(store, 7, 2, 0),   # counters[cpu] + 1
        instruction(0x57, 1, imm=slots - 1), instruction(0x27, 8, imm=slots), instruction(0x0F, 8, 1),
        instruction(store32, 10, 8, -8),
        address_of_map(1, entries), instruction(move, 2, 10), instruction(0x07, 2, imm=-8), instruction(call, imm=LOOKUP),
        ("if zero",),
        instruction(store, 0, 6, 0), instruction(store, 0, 9, 8),
    ]
    length = sum(1 if isinstance(part, tuple) else len(part) // 8 for part in body)
    code, at = b"", 0
    for part in body:
        if isinstance(part, tuple):
            part = instruction(to_end if part == ("if zero",) else 0x55, 0, 0, length - at - 1)
        code += part
        at += len(part) // 8
    return code + instruction(0xB7, 0) + instruction(leave)


class IdleThreads:
    """Records these tracepoints, given with the number of the argument to keep, where an idle thread is current."""

    def __init__(self, tracepoints, cores, slots):
        if SYS_BPF is None:
            raise NotHere("the number of bpf(2) is not known for this processor")
        self.tracepoints, self.cores, self.slots, self.files, self.rings = tracepoints, cores, slots, [], {}

    def __enter__(self):
        for name, argument in self.tracepoints.items():
            self.rings[name] = (self.array(8, self.cores), self.array(ENTRY.size, self.cores * self.slots))
            code = program(self.rings[name][0][0], self.rings[name][1][0], self.slots, argument)
            code_buffer, licence = ctypes.create_string_buffer(code), ctypes.create_string_buffer(b"Dual MIT/GPL")
            words = ctypes.create_string_buffer(name.encode())
            loaded = bpf(PROG_LOAD, struct.pack("<IIQQ", RAW_TRACEPOINT, len(code) // 8, ctypes.addressof(code_buffer),
                                                ctypes.addressof(licence)))
            self.files += [loaded, bpf(RAW_TRACEPOINT_OPEN, struct.pack("<QI", ctypes.addressof(words), loaded))]
        return self

    def array(self, value_bytes, count):
        fd = bpf(MAP_CREATE, struct.pack("<IIIII", ARRAY, 4, value_bytes, count, MMAPABLE))
        self.files.append(fd)
        page = os.sysconf("SC_PAGE_SIZE")
        return fd, mmap.mmap(fd, -(-value_bytes * count // page) * page, mmap.MAP_SHARED, mmap.PROT_READ)

    def __exit__(self, *_):
        for fd in reversed(self.files):
            os.close(fd)
        self.files = []

    def events(self, name, cpu):
        """What was recorded of a tracepoint on a core: (nanoseconds, argument)."""
        (_, counters), (_, entries) = self.rings[name]
        count, = struct.unpack_from("<Q", counters, 8 * cpu)
        if count > self.slots:
            raise NotHere("the record of the idle threads was too small")
        return [ENTRY.unpack_from(entries, ENTRY.size * (cpu * self.slots + at)) for at in range(count)]
