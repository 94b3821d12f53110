#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""An oracle for the ledger: rebuilds each core's time line from the kernel's own trace, and holds `stall report` to it.

    oracle.py --surefoot FILE --actor FILE --truth FILE [--case NAME] [--seconds N] [--report OPTIONS] [--called-last]
        [--json FILE]

Prints a table for people; with --json one JSON object per row as well. Exit code 0: compared (not: equal), 2: wrong use or a
failure, 3: this machine cannot record, and why.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from heapq import merge
from pathlib import Path

from idle import IdleThreads
from loads import CASES
from ring import Instance, NotHere, records
from timeline import Record

VECTORS = ["local_timer", "reschedule", "call_function", "call_function_single", "irq_work", "x86_platform_ipi",
           "error_apic", "spurious_apic", "thermal_apic", "threshold_apic", "deferred_error_apic"]
# What is kept of each event, beside the time and the current task.
EVENTS = {
    "sched/sched_switch": ["prev_pid", "prev_comm", "prev_state", "next_pid", "next_comm"],
    "sched/sched_wakeup": ["pid", "target_cpu"],
    "sched/sched_wakeup_new": ["pid", "target_cpu"],
    "sched/sched_migrate_task": ["pid", "dest_cpu"],
    "sched/sched_process_fork": ["parent_pid", "child_pid"],
    "irq/softirq_entry": ["vec"], "irq/softirq_exit": ["vec"],
    "irq/irq_handler_entry": ["irq", "name"], "irq/irq_handler_exit": ["irq"],
    "csd/csd_function_entry": ["func", "csd"], "csd/csd_function_exit": ["func", "csd"],
    "ipi/ipi_send_cpu": ["cpu"],
    **{f"irq_vectors/{vector}_{end}": [] for vector in VECTORS for end in ("entry", "exit")},
}
# Raw tracepoints of the idle threads, each with the number of the argument that is kept: the next task, the task, the function.
IDLE_TRACEPOINTS = {"sched_switch": 2, "sched_wakeup": 0, "csd_function_entry": 0, "csd_function_exit": 0}
PF_KTHREAD = 0x00200000
# How long before the start that a report names its first reading of a core can lie.
READING_NS = 3_000_000
# What a report needs to attach its programs, and more.
ATTACHING_SECONDS = 1.5


def kernel_threads():
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            number, rest = stat.read_text().split(" (", 1)
        except OSError:
            continue
        if int(rest.rsplit(") ", 1)[1].split()[6]) & PF_KTHREAD:
            found.add(int(number))
    return found


def run_delays():
    """Of each thread what the kernel itself says that it has waited; and when it was asked."""
    delays = {}
    for schedstat in Path("/proc").glob("[0-9]*/task/[0-9]*/schedstat"):
        try:
            delays[int(schedstat.parent.name)] = (time.monotonic_ns(), int(schedstat.read_text().split()[1]))
        except (OSError, IndexError):
            continue
    return delays


def function_names(addresses):
    names = {}
    for line in open("/proc/kallsyms", encoding="ascii", errors="replace"):
        address, _, name = line.split()[:3]
        if int(address, 16) in addresses:
            names.setdefault(int(address, 16), name)
    return names


def decoded(instance, cpu):
    """The events of a core as tuples, in their order."""
    readers = {}
    for event, form in instance.formats().items():
        if event != "ipi/ipi_send_cpu":
            readers[form.number] = (event.split("/")[1], form.reader(EVENTS[event]))
    pid = next(iter(instance.formats().values())).reader(["common_type", "common_pid"])
    for page in instance.pages(cpu):
        for now, at in records(page):
            number, current = pid(page, at)
            if number in readers:
                name, read = readers[number]
                yield now, cpu, current, name, read(page, at)


def record(arguments, load):
    """Records while a report runs; returns the report's lines, the events, and what else is known."""
    seconds = arguments.seconds
    megabytes = arguments.ring_megabytes or 16 + 8 * seconds
    with Instance(EVENTS, megabytes << 20) as instance, \
            IdleThreads(IDLE_TRACEPOINTS, os.cpu_count(), 1 << 19) as idle:
        threads = kernel_threads()
        instance.switch(True)
        with load:
            before = run_delays()
            command = [arguments.surefoot, "stall", "report", "--json", "--source", "ebpf", "--duration", f"{seconds}s", *arguments.report]
            # Goes first, so that it reads all cores at one moment.
            report = subprocess.Popen(["chrt", "--rr", "1", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            if arguments.called_last:
                time.sleep(ATTACHING_SECONDS)
                instance.attach_again()
            out, words = report.communicate()
            after = run_delays()
        instance.switch(False)
        if report.returncode not in (0, 1):
            raise RuntimeError(f"{' '.join(command)}: {words}")
        if instance.stats():
            raise NotHere(f"the rings of {megabytes} MiB a core lost {instance.stats()} events")
        events = {cpu: list(decoded(instance, cpu)) for cpu in instance.cores()}
        for cpu, of_core in events.items():
            # Where the kernel's own recorder has what the idle thread does, that is enough.
            if not any(name == "sched_switch" and not values[0] for _, _, _, name, values in of_core):
                of_idle = [(now, cpu, 0, f"idle/{name}", (value,))
                           for name in IDLE_TRACEPOINTS for now, value in idle.events(name, cpu)]
                of_core[:] = sorted(of_core + of_idle, key=lambda event: event[0])
    lines = [json.loads(line) for line in out.splitlines()]
    addresses = {values[0] for of_core in events.values() for *_, name, values in of_core if "csd" in name}
    rebuilt = Record(threads | kernel_threads(), function_names(addresses))
    rebuilt.add(merge(*events.values(), key=lambda event: event[0]))
    delays = {pid: (before[pid], after[pid]) for pid in before if pid in after}
    return lines, rebuilt, delays, sum(map(len, events.values()))


def ours_of(cause):
    """Kind and name of a cause as a report has them."""
    kind, name = cause
    if kind == "function":
        return ("tlb_shootdown" if name == "flush_tlb_func" else "call_function"), name
    if kind != "vector":
        return cause
    if name.startswith("call_function"):
        return "call_function", "interrupt itself"
    kinds = {"local_timer": "timer", "reschedule": "reschedule", "irq_work": "irq_work",
             "threshold_apic": "machine_check", "deferred_error_apic": "machine_check"}
    return kinds.get(name, "other_interrupt"), name


def rows_of(core, cpu, line, start, end):
    """One row per cause of a core: what was rebuilt, and what the report says."""
    wall = line["wall_ns"]
    rebuilt = {}
    for cause in core.sums:
        if cause is not None:
            rebuilt.setdefault(ours_of(cause) if cause[0] not in ("idle", "task") else (cause[0], ""), []).append(cause)
    lost = {(row["kind"], row["name"]): row for row in line["lost"]}
    own = {("idle", ""): {"total_ns": line["idle_ns"]}, ("task", ""): {"total_ns": line["user_ns"] + line["kernel_ns"]}}
    for key, row in lost.items():
        # What no tracepoint shows was taken out of the other two by other evidence.
        if key[0] in ("hypervisor", "smi", "hardware", "preemption"):
            part = min(row.get("while_idle_ns", 0), row["total_ns"])
            own[("idle", "")]["total_ns"] += part
            own[("task", "")]["total_ns"] += row["total_ns"] - part
        else:
            own[key] = row
    for key in sorted(set(rebuilt) | set(own)):
        # The report begins and ends with its readings of the core, at a moment shortly before the one that it names.
        shifts = [(start - late, start - late + wall) for late in range(0, READING_NS + 1, READING_NS // 30)]
        causes = rebuilt.get(key, [])
        totals = [sum(core.took(cause, *shift) for cause in causes) for shift in shifts]
        counts = [sum(core.count(cause, *shift) for cause in causes) for shift in shifts]
        mine = own.get(key, {})
        total = mine.get("total_ns", 0)
        nearest = min(max(total, min(totals)), max(totals))
        yield {"core": cpu, "kind": key[0], "name": key[1], "wall_ns": wall,
               "oracle_ns": nearest, "ours_ns": total, "oracle_edge_ns": max(totals) - min(totals),
               "oracle_count": [min(counts), max(counts)], "ours_count": mine.get("count")}


def waiting_row(rebuilt, cpu, line, start, end):
    """What user tasks waited for a core, where the report says so: each wait whole, when it ended."""
    tasks = [wait for pid, wait in rebuilt.waits.items() if pid not in rebuilt.kernel_threads]
    totals = [sum(wait.ended_with(cpu, start - late, end - late) for wait in tasks) for late in (0, READING_NS)]
    ours = line["waiting"]["total_ns"] + line["waiting"]["throttled_ns"]
    return {"core": cpu, "kind": "waiting", "name": "", "wall_ns": line["wall_ns"],
            "oracle_ns": min(max(ours, min(totals)), max(totals)), "ours_ns": ours,
            "oracle_edge_ns": max(totals) - min(totals), "oracle_count": [0, 0], "ours_count": None}


def compare(arguments):
    load = CASES[arguments.case](arguments.actor, arguments.truth, arguments.seconds)
    lines, rebuilt, delays, events = record(arguments, load)
    host = next(line for line in lines if line["type"] == "host")
    start, end = host["start_ns"], host["end_ns"]
    rows = []
    for line in (line for line in lines if line["type"] == "core"):
        core = rebuilt.cores[line["cpu"]]
        # A core that was gone for a while: the report does not say when its time line was interrupted.
        if core.first is not None and line["wall_ns"] + 100_000_000 > end - start:
            rows += rows_of(core, line["cpu"], line, start, end)
            if line.get("waiting"):
                rows.append(waiting_row(rebuilt, line["cpu"], line, start, end))
    waits = []
    for pid, wait in rebuilt.waits.items():
        if pid in delays:
            (since, was), (until, now) = delays[pid]
            # The kernel counts a wait when it ends, whole.
            total = wait.ended(since, until)
            if max(total, now - was) > 1_000_000:
                waits.append({"pid": pid, "comm": wait.comm, "followed": wait.followed and wait.began_unseen < since, "oracle_ns": total,
                              "schedstat_ns": now - was})
    summary = {"case": arguments.case, "seconds": arguments.seconds, "events": events,
               "unpaired": [(cpu, *alone) for cpu, core in sorted(rebuilt.cores.items()) for alone in core.unpaired],
               "unseen_switches": rebuilt.unseen_switches,
               "unseen_ns": {cpu: core.unseen for cpu, core in rebuilt.cores.items()}, "start_ns": start, "end_ns": end,
               "cost": next((line for line in lines if line["type"] == "cost"), {}),
               "completeness": [line for line in lines if line["type"] == "completeness"]}
    return summary, rows, sorted(waits, key=lambda wait: -wait["schedstat_ns"])


def deviation(row):
    """How far ours is off, in ns and as a share, and whether that is within 1 % or 100 us."""
    off = row["ours_ns"] - row["oracle_ns"]
    share = off / row["oracle_ns"] if row["oracle_ns"] else 0
    return off, share, abs(off) <= max(100_000, row["oracle_ns"] / 100)


def show(summary, rows, waits):
    print(f"case {summary['case']}, {summary['seconds']} s, {summary['events']} events, "
          f"{len(summary['unpaired'])} ends or starts alone, {summary['unseen_switches']} switches unseen, "
          f"{sum(summary['unseen_ns'].values()) / 1e6:.2f} ms around them")
    for cpu, now, what, of in summary["unpaired"][:20]:
        print(f"core {cpu}, {(now - summary['start_ns']) / 1e6:.3f} ms after the start: {what} {of}")
    print("core | cause | count: oracle, ours | time: oracle, ours | off | per occurrence | within 1 % or 100 us")
    for row in rows:
        if max(row["oracle_ns"], row["ours_ns"]) < 20_000:
            continue
        off, share, is_met = deviation(row)
        low, high = row["oracle_count"]
        counts = f"{low}" if low == high else f"{low}..{high}"
        mean = row["oracle_ns"] / high if high else 0
        each = f"{row['ours_ns'] / row['ours_count'] - mean:+.0f} ns of {mean:.0f}" if mean and row["ours_count"] else ""
        print(f"{row['core']} | {row['kind']} {row['name']} | {counts}, {row['ours_count']} | "
              f"{row['oracle_ns'] / 1e6:.3f}, {row['ours_ns'] / 1e6:.3f} ms | {off / 1e3:+.1f} us ({share:+.2%}) | {each} | "
              f"{'yes' if is_met else 'NO'}")
    for wait in waits[:12]:
        print(f"waited: {wait['comm']} ({wait['pid']}): rebuilt {wait['oracle_ns'] / 1e6:.3f} ms, "
              f"schedstat {wait['schedstat_ns'] / 1e6:.3f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--surefoot", required=True)
    parser.add_argument("--actor", required=True)
    parser.add_argument("--truth", required=True)
    parser.add_argument("--case", choices=sorted(CASES), default="mixed")
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--report", default="", type=str.split, help="more options of the report")
    parser.add_argument("--called-last", action="store_true",
                        help="attach to the tracepoints anew after the report: of each some milliseconds are missed, so compare the means")
    parser.add_argument("--ring-megabytes", type=int)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    try:
        summary, rows, waits = compare(arguments)
    except NotHere as why:
        print(f"oracle: {why}", file=sys.stderr)
        return 3
    show(summary, rows, waits)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as out:
            for kind, lines in (("summary", [summary]), ("cause", rows), ("wait", waits)):
                for line in lines:
                    out.write(json.dumps({"type": kind, **line}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
