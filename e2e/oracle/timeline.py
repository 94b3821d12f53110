# SPDX-License-Identifier: Apache-2.0 OR MIT
"""From raw events to each core's time line, and to what each task waited.

Each kind of context becomes a list of intervals by itself: an interrupt from its entry to its exit, a softirq, a called
function, a task from its switch in to its switch out. Then one sweep over all intervals of a core gives each moment to
the interval that began last. Nothing is carried from one event to the next but what is open.
"""

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field

SOFTIRQS = ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"]
IDLE = 0
RUNNABLE = 0xFF     # of sched_switch's prev_state; 0x100 says that the task was preempted


@dataclass
class Waits:
    """What a task waited: runnable, and not running."""
    comm: str = ""
    followed: bool = False  # whether the recorder was told of each of its switches
    runs_on: int = None
    since: int = None
    on: int = None
    began_unseen: int = 0   # when a wait ended last whose beginning was not reported
    spans: list = field(default_factory=list)   # (start, end, core, whether it then ran there)

    def begin(self, now, core):
        if self.since is None:
            self.since, self.on = now, core

    def end(self, now, runs=True):
        if self.since is not None:
            self.spans.append((self.since, now, self.on, runs))
            self.since = None
        else:
            self.began_unseen = now

    def ended(self, start, end):
        """The waits that ended within a stretch, whole."""
        return sum(until - since for since, until, _, _ in self.spans if start <= until < end)

    def ended_with(self, core, start, end):
        """The waits that ended with this core within a stretch, whole."""
        return sum(until - since for since, until, on, runs in self.spans if runs and on == core and start <= until < end)


class Core:
    """One core's intervals while they are collected, and its time line once they are."""

    def __init__(self):
        self.above, self.bases, self.open = [], [], {}
        self.unpaired, self.unseen = [], 0
        self.first = self.last = self.running = None

    def enter(self, key, cause, now):
        if key in self.open:
            self.unpaired.append((now, "no end of", cause))
        self.open[key] = (now, cause)

    def leave(self, key, now):
        if key in self.open:
            self.above.append((self.open[key][0], now, self.open.pop(key)[1]))
        elif self.above or self.open or self.bases:
            # The very first event may be the end of something.
            self.unpaired.append((now, "no start of", key))

    def in_interrupt(self):
        return any(key[0] in ("vector", "device") for key in self.open)

    def sweep(self):
        """Gives each moment to the interval that began last; what is below all of them is the task."""
        self.above += [(since, self.last, cause) for since, cause in self.open.values()]
        bases = [(start, number, cause) for number, (start, cause) in enumerate(self.bases)]
        ends = [start for start, *_ in bases[1:]] + [self.last]
        spans = [(start, end, cause) for (start, _, cause), end in zip(bases, ends)] + self.above
        # A task never lies above an interrupt, also not one that was switched to inside of it.
        rank = [0] * len(bases) + [1] * len(self.above)
        lasting = [number for number, span in enumerate(spans) if span[0] < span[1]]
        points = [(spans[number][0], 1, -spans[number][1], number) for number in lasting]
        points += [(spans[number][1], 0, 0, number) for number in lasting]
        points.sort()
        active, self.times, self.causes = [], [], []
        for now, begins, _, number in points:
            if begins:
                active.append(number)
            else:
                active.remove(number)
            inner = max(active, key=lambda number: (rank[number], spans[number][0], -spans[number][1]), default=None)
            self.times.append(now)
            self.causes.append(None if inner is None else spans[inner][2])
        self.sums, running = {}, defaultdict(int)
        for at, cause in enumerate(self.causes[:-1]):
            running[cause] += self.times[at + 1] - self.times[at]
            self.sums.setdefault(cause, ([], []))
            self.sums[cause][0].append(self.times[at + 1])
            self.sums[cause][1].append(running[cause])
        self.ended = defaultdict(list)
        for _, end, cause in sorted(self.above, key=lambda span: span[1]):
            self.ended[cause].append(end)
        for (_, _, cause), end in zip(bases, ends):
            self.ended[cause].append(end)

    def until(self, cause, now):
        """How much of a cause there was up to a moment."""
        if cause not in self.sums:
            return 0
        at = bisect_right(self.times, now) - 1
        ends, sums = self.sums[cause]
        done = bisect_right(ends, now)
        total = sums[done - 1] if done else 0
        inside = at >= 0 and self.causes[at] == cause
        return total + (now - self.times[at] if inside else 0)

    def took(self, cause, start, end):
        return self.until(cause, end) - self.until(cause, start)

    def count(self, cause, start, end):
        ends = self.ended[cause]
        return bisect_right(ends, end) - bisect_right(ends, start)


class Record:
    """All intervals of all cores, and all waits."""

    def __init__(self, kernel_threads, function_names):
        self.kernel_threads, self.function_names = set(kernel_threads), function_names
        self.cores, self.waits = defaultdict(Core), defaultdict(Waits)
        self.pending = defaultdict(list)    # of each core: what its idle thread has done, until it is known to whom
        self.unseen_switches = self.unseen_ns = 0
        self.names, self.unfollowed = {}, set()

    def add(self, events):
        """Takes the events of all cores in the order of time: (time, core, current task, name, values)."""
        for now, cpu, pid, name, values in events:
            core = self.cores[cpu]
            if core.first is None:
                core.first = now
            before, core.last = core.last or now, now
            if not name.startswith("idle/") and core.bases and pid != core.running:
                self.switched_unseen(core, cpu, before, now, pid)
            if name == "sched_switch":
                self.switch(core, cpu, now, *values)
            elif name == "idle/sched_switch":
                self.pending[cpu].append((now, values[0]))
            elif name == "idle/sched_wakeup":
                self.pending[cpu].append((now, values[0]))
            elif name.startswith("idle/csd_function"):
                # In an interrupt of the idle thread the kernel's own recorder has it as well.
                if not core.in_interrupt():
                    self.function(core, name.removeprefix("idle/"), now, values[0])
            elif name.startswith("csd_function"):
                # Without call-single data it runs where it was asked for, as a part of that work.
                if values[1]:
                    self.function(core, name, now, values[0])
            elif name == "softirq_entry":
                core.enter(("softirq",), ("softirq", SOFTIRQS[values[0]]), now)
            elif name == "softirq_exit":
                core.leave(("softirq",), now)
            elif name == "irq_handler_entry":
                core.enter(("device", values[0]), ("device_interrupt", values[1]), now)
            elif name == "irq_handler_exit":
                core.leave(("device", values[0]), now)
            elif name in ("sched_wakeup", "sched_wakeup_new"):
                self.wake(values[0], values[1], now)
            elif name == "sched_migrate_task":
                self.move(values[0], values[1], now)
            elif name == "sched_process_fork":
                if values[0] in self.kernel_threads:
                    self.kernel_threads.add(values[1])
            elif name.endswith("_entry"):
                vector = name.removesuffix("_entry")
                core.enter(("vector", vector), ("vector", vector), now)
            else:
                core.leave(("vector", name.removesuffix("_exit")), now)
        for core in self.cores.values():
            core.bases = [(start, self.cause(pid, self.names.get(pid, ""))) for start, pid in core.bases]
            core.sweep()
        for pid, waits in self.waits.items():
            waits.comm = self.names.get(pid, "")
            waits.followed = pid in self.names and pid not in self.unfollowed

    def function(self, core, name, now, address):
        if name.endswith("entry"):
            core.enter(("function",), ("function", self.function_names.get(address, hex(address))), now)
        else:
            core.leave(("function",), now)

    def cause(self, pid, comm):
        if pid == IDLE:
            return ("idle", "")
        if pid in self.kernel_threads:
            return ("kernel_thread", comm if comm.startswith("irq/") else comm.split("/")[0])
        return ("task", comm)

    def switch(self, core, cpu, now, was, was_comm, state, to, to_comm):
        self.names[was], self.names[to] = was_comm, to_comm
        if not core.bases:
            core.bases.append((core.first, was))
            core.running = was
        if was != IDLE:
            self.waits[was].runs_on = None
            if not state & RUNNABLE:
                self.waits[was].begin(now, cpu)
        self.begin(core, cpu, now, to)

    def begin(self, core, cpu, now, pid):
        core.bases.append((now, pid))
        core.running = pid
        self.pending[cpu].clear()
        if pid != IDLE:
            waits = self.waits[pid]
            waits.runs_on = cpu
            waits.end(now)

    def switched_unseen(self, core, cpu, before, now, pid):
        """No switch to this task was reported, yet it has the core: from when on?"""
        done = self.pending[cpu]
        if core.running == IDLE and done:
            # What the idle thread has done last was to switch; before, it may have woken this task.
            switched, task = done[-1]
            woken = [at for at, other in done[:-1] if other == task]
            if woken:
                self.waits[pid].begin(woken[0], cpu)
            self.begin(core, cpu, switched, pid)
        else:
            # Somewhere between two events.
            self.unseen_switches += 1
            self.unseen_ns += now - before
            core.unseen += now - before
            if core.running != IDLE:
                self.waits[core.running].runs_on = None
                self.unfollowed.add(core.running)
            self.begin(core, cpu, now, pid)

    def wake(self, pid, cpu, now):
        # One that has not left its core yet only stays.
        if self.waits[pid].runs_on is None:
            self.waits[pid].begin(now, cpu)

    def move(self, pid, cpu, now):
        waits = self.waits[pid]
        if waits.since is not None:
            waits.end(now, runs=False)
            waits.begin(now, cpu)
