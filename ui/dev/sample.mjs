// @ts-check
// Made-up but plausible hosts for developing and testing the page. Never part of what users get.
// Seeded, so that a failing browser check shows the same page again.

/** @typedef {import("../src/types.ts").Snapshot} Snapshot */
/** @typedef {import("../src/types.ts").Window} Window */
/** @typedef {import("../src/types.ts").Gap} Gap */
/** @typedef {"small" | "large" | "quiet" | "reduced" | "replay"} Scenario */

/** @param {number} seed */
function randomOf(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** Kind, name, events per second, typical length in nanoseconds, and whether all cores have it. */
const CAUSES = /** @type {const} */ ([
  ["timer", "local_timer", 250, 4200, true],
  ["softirq", "TIMER", 190, 2900, true],
  ["softirq", "SCHED", 160, 3600, true],
  ["softirq", "NET_RX", 420, 9800, false],
  ["softirq", "RCU", 120, 1700, true],
  ["device_interrupt", "virtio0-input.0", 380, 3100, false],
  ["device_interrupt", "nvme0q1", 60, 5200, false],
  ["reschedule", "", 140, 900, true],
  ["tlb_shootdown", "flush_tlb_func", 48, 2600, true],
  ["call_function", "do_sync_core", 2, 1900, true],
  ["irq_work", "", 12, 700, true],
  ["kernel_thread", "kworker/1:2-events", 9, 31_000, true],
  ["kernel_thread", "<img src=x onerror=alert(1)>", 3, 12_000, true],
  ["other_interrupt", "deferred_error", 0.2, 2100, false],
]);

/** @param {Scenario} scenario */
export function makeHost(scenario) {
  const cores = scenario === "large" ? 128 : 2;
  const random = randomOf(7);
  /** @param {number} value */
  const around = (value) => value * (0.6 + 0.8 * random());
  /** Milliseconds of uptime when the sample begins, and the real time that goes with it. */
  const bootNs = 86_400e9;
  const offsetNs = Math.round(Date.now() * 1e6 - bootNs - 900e9);
  /** Longest occurrence of each cause so far. @type {Map<string, number>} */
  const longest = new Map();

  /** @returns {import("../src/types.ts").HostDescription} */
  const host = () => ({
    hostname: scenario === "large" ? "trade-17" : "sf-guest",
    kernel: scenario === "large" ? "6.12.48+deb13-amd64" : "6.18.5",
    processor: scenario === "large" ? "AMD EPYC 9654 96-Core Processor" : "AMD EPYC 7R13 Processor",
    vendor: "amd",
    hypervisor: scenario === "large" ? null : "KVM",
    cpus: Array.from({ length: cores }, (_, cpu) => cpu),
    workload: scenario === "large" ? "--comm matcher" : "",
    gap_threshold_ns: scenario === "large" ? 100_000 : 20_000,
    source: scenario === "reduced" ? "kernel counters" : "eBPF (BTF)",
    missing: scenario === "reduced" ? "no eBPF (not root), so interrupts have counts but no times: run with sudo" : "",
    realtime_offset_ns: offsetNs,
  });

  /** One window of one second that ends at `endNs`. @param {number} endNs @param {number} at @returns {Window} */
  const window = (endNs, at) => {
    const wall = 1e9;
    const list = host().cpus.map((cpu) => {
      const housekeeping = cpu < Math.max(1, cores / 16);
      const busy = scenario === "quiet" ? 0.04 : housekeeping ? 0.55 + 0.15 * Math.sin(at / 40) : 0.8 + 0.15 * random();
      const burst = scenario !== "quiet" && (at % 97 < 6) && (cpu % 5 === 1 || cores <= 2) ? 5 : 1;
      let lostNs = 0;
      const lost = CAUSES.flatMap(([kind, name, rate, length, everywhere]) => {
        if (!everywhere && !housekeeping) return [];
        const quiet = scenario === "large" && !housekeeping ? 0.12 : 1;
        const many = Math.round(around(rate * quiet) * (kind === "softirq" || kind === "tlb_shootdown" ? burst : 1));
        if (many === 0) return [];
        const total = scenario === "reduced" ? 0 : Math.round(many * around(length));
        const key = `${cpu}/${kind}/${name}`;
        const most = Math.max(longest.get(key) ?? 0, Math.round(length * (2 + 10 * random() ** 4)));
        longest.set(key, most);
        lostNs += total;
        return [{ kind, name, count: many, total_ns: total, max_ns: scenario === "reduced" ? 0 : most, while_idle_ns: Math.round(total * (1 - busy) * 0.9) }];
      });
      if (cores === 2 && scenario === "small" && at % 61 === 30) {
        const stolen = Math.round(around(24e6));
        lost.push({ kind: /** @type {any} */ ("hypervisor"), name: /** @type {any} */ ("steal"), count: 2, total_ns: stolen, max_ns: stolen, while_idle_ns: 0 });
        lostNs += stolen;
      }
      lost.sort((a, b) => b.total_ns - a.total_ns);
      const unexplained = Math.round(around(scenario === "quiet" ? 40_000 : 900_000) * (at % 53 === 0 ? 6 : 1));
      const rest = wall - lostNs - unexplained;
      const idle = Math.round(rest * (1 - busy));
      const user = Math.round((rest - idle) * 0.86);
      return { cpu, wall_ns: wall, idle_ns: idle, user_ns: user, kernel_ns: rest - idle - user, lost, unexplained_ns: unexplained };
    });
    const interrupts = list.reduce((sum, core) => sum + (core.lost.find((lost) => lost.kind === "timer")?.count ?? 0), 0);
    return {
      start_ns: endNs - wall,
      end_ns: endNs,
      cores: list,
      untimed: [{ cpu: 0, row: "HYP", name: "Hypervisor callback interrupts", count: at % 3 }],
      completeness:
        scenario === "reduced"
          ? []
          : [
              { row: "LOC", kernel_count: interrupts + (at % 40 === 0 ? 1 : 0), probe_count: interrupts },
              { row: "RES", kernel_count: 140 * cores, probe_count: 140 * cores },
              { row: "CAL", kernel_count: 50 * cores, probe_count: 50 * cores },
              { row: "24", kernel_count: 380, probe_count: 380 },
            ],
      cost: {
        probes:
          scenario === "reduced"
            ? []
            : ["on_softirq_entry", "on_softirq_exit", "on_vector_entry", "on_vector_exit", "on_switch"].map((name, n) => ({
                name,
                count: 900 * cores,
                total_ns: Math.round(900 * cores * (90 + 20 * n)),
                missed: at % 200 === 0 ? 1 : 0,
              })),
        process_cpu_ns: 3_100_000 + 40_000 * cores,
        resident_bytes: 22_400_000 + cores * 60_000,
        map_bytes: 3_100_000,
        dropped: 0,
        torn: at % 300 === 0 ? 1 : 0,
        unreported: 0,
        untraced_interrupts: at % 300 === 0 ? 2 : 0,
        self_interrupts: 0,
      },
    };
  };

  /** Gaps that belong to a window. @param {number} endNs @returns {Gap[]} */
  const gaps = (endNs) => {
    if (scenario === "quiet") return [];
    const many = Math.floor(random() * (cores > 2 ? 6 : 3));
    return Array.from({ length: many }, () => {
      const cpu = Math.floor(random() * cores);
      const start_ns = Math.round(endNs - 1e9 * random());
      if (random() < 0.12) {
        const duration_ns = Math.round(2e6 + 55e6 * random() ** 3);
        const softirq = Math.round(duration_ns * 0.04);
        return {
          cpu,
          source: "sentinel",
          start_ns,
          duration_ns,
          causes: [{ kind: "softirq", name: "NET_RX", duration_ns: softirq }],
          unexplained_ns: duration_ns - softirq,
          verdict: cores === 2 ? "hypervisor_unaccounted" : "hardware_this_core",
          certainty: cores === 2 ? "probable" : "cannot_tell_apart_here",
          evidence: [
            "traced intervals cover 4.0 % of the gap",
            cores === 2 ? "a hypervisor is present (KVM)" : "no hypervisor is present",
            "steal of this core rose by 0 ns in the same window",
            "no other core had a gap within 50 us",
          ],
        };
      }
      const timer = Math.round(8_000 + 60_000 * random() ** 2);
      const softirq = Math.round(12_000 + 160_000 * random() ** 3);
      const unexplained_ns = Math.round(300 + 2_000 * random());
      return {
        cpu,
        source: random() < 0.5 ? "timer_lateness" : "probe",
        start_ns,
        duration_ns: timer + softirq + unexplained_ns,
        causes: /** @type {Gap["causes"]} */ ([
          { kind: "softirq", name: "NET_RX", duration_ns: softirq },
          { kind: "timer", name: "local_timer", duration_ns: timer },
        ]).sort((a, b) => b.duration_ns - a.duration_ns),
        unexplained_ns,
        verdict: "traced",
        certainty: "certain",
        evidence: ["traced intervals cover the gap but for entry and exit", `irq_vectors:local_timer on core ${cpu}`],
      };
    });
  };

  return { host, window, gaps, bootNs, cores };
}

/** The last `seconds` of such a host and what follows. @param {Scenario} scenario @param {number} seconds */
export function makeStream(scenario, seconds) {
  const made = makeHost(scenario);
  /** @type {Window[]} */
  const windows = [];
  /** @type {Gap[]} */
  const gaps = [];
  let at = 0;
  const step = () => {
    at += 1;
    const endNs = Math.round(made.bootNs + 900e9 + (at - seconds) * 1e9);
    const window = made.window(endNs, at);
    const found = made.gaps(endNs);
    windows.push(window);
    gaps.push(...found);
    if (windows.length > 900) windows.shift();
    if (gaps.length > 5000) gaps.shift();
    return { window, gaps: found };
  };
  while (at < seconds) step();
  return { host: made.host(), windows, gaps, step, scenario };
}

/** @param {ReturnType<typeof makeStream>} stream @param {URLSearchParams} query */
function filterOf(stream, query) {
  const rangeS = Number(query.get("range_s") ?? 0);
  const endNs = stream.windows[stream.windows.length - 1]?.end_ns ?? 0;
  const fromNs = rangeS > 0 ? endNs - rangeS * 1e9 : -Infinity;
  const cpus = query.get("cpu");
  const kinds = query.get("kind")?.split(",");
  const wanted = cpus === null ? null : new Set(parse(cpus));
  const minNs = Number(query.get("min_us") ?? 0) * 1000;
  const windows = stream.windows.filter((window) => window.end_ns > fromNs);
  const gaps = stream.gaps
    .filter(
      (gap) =>
        gap.start_ns + gap.duration_ns > fromNs &&
        gap.duration_ns >= minNs &&
        (!wanted || wanted.has(gap.cpu)) &&
        (!kinds || gap.causes.some((cause) => kinds.includes(cause.kind))),
    )
    .sort((a, b) => b.duration_ns - a.duration_ns);
  return { windows, gaps, hasCpu: (/** @type {number} */ cpu) => !wanted || wanted.has(cpu), kinds };
}

/** @param {string} list */
function parse(list) {
  return list.split(",").flatMap((part) => {
    const [first, last = first] = part.split("-").map(Number);
    return Array.from({ length: last - first + 1 }, (_, at) => first + at);
  });
}

/** Raisers are told every five seconds. @param {ReturnType<typeof makeStream>} stream */
export function whoEndNs(stream) {
  const endNs = stream.windows[stream.windows.length - 1]?.end_ns ?? 0;
  return endNs - (endNs % 5e9);
}

/** @param {ReturnType<typeof makeStream>} stream @param {number} ageNs @param {URLSearchParams} query @returns {Omit<Snapshot, "cost" | "headline" | "schema" | "sequence" | "version">} what the page reads of it */
export function snapshotOf(stream, ageNs, query) {
  const kept = filterOf(stream, query);
  const { scenario, windows } = stream;
  const newest = windows.length > 0 ? windows[windows.length - 1].end_ns : 86_400e9;
  return {
    mode: scenario === "replay" ? "replay" : "live",
    recording: scenario === "replay" ? "recordings/troubled host.sfr" : null,
    now_ns: Math.round(newest + ageNs),
    age_ns: windows.length > 0 ? Math.round(ageNs) : null,
    host: stream.host,
    capabilities: [
      { id: "stall.ledger", name: "Ledger of lost time", state: scenario === "reduced" ? "reduced" : "works", reason: scenario === "reduced" ? "no eBPF: CAP_BPF is missing" : "tp_btf programs on 26 tracepoints", remedy: scenario === "reduced" ? "run as root: sudo surefoot watch" : "" },
      { id: "stall.probe", name: "Spinning probe", state: "works", reason: "invariant time-stamp counter at 2.65 GHz", remedy: "" },
      { id: "stall.sentinel", name: "Sentinel on a housekeeping core", state: "reduced", reason: "only 2 cores, so core 0 is shared with the workload", remedy: "name a housekeeping core with --sentinel-cpu" },
      { id: "stall.smi", name: "SMI counter", state: "unsupported", reason: "a virtual machine has no access to ls_smi_rx", remedy: "run on the host" },
    ],
    windows: kept.windows,
    gaps: kept.gaps.slice(0, 200),
    clock_changes: [],
    notices:
      scenario === "quiet"
        ? []
        : [
            { at_ns: newest - 240e9, text: "Core 1 went offline and came back after 3.1 s." },
            { at_ns: newest - 61e9, text: "The history's disk is full; the oldest hour was dropped." },
          ],
    who_end_ns: hasWho(scenario) ? whoEndNs(stream) : null,
    dropped: { queue: 0, history: scenario === "large" ? 12 : 0, live: 0, oversized: 0, health: 0, short_gaps: 0, findings: 0, kernel: 0, torn: 0, sources: 0 },
  };
}

/** @param {ReturnType<typeof makeStream>} stream @param {URLSearchParams} query @returns {Pick<import("../src/types.ts").Report, "causes" | "gaps" | "gap_count">} what the page reads of it */
export function reportOf(stream, query) {
  const kept = filterOf(stream, query);
  /** @type {Map<string, import("../src/types.ts").ReportCause>} */
  const causes = new Map();
  for (const window of kept.windows) {
    for (const core of window.cores) {
      if (!kept.hasCpu(core.cpu)) continue;
      for (const lost of core.lost) {
        if (kept.kinds && !kept.kinds.includes(lost.kind)) continue;
        const key = `${lost.kind}/${lost.name}`;
        const sum = causes.get(key);
        if (!sum) causes.set(key, { ...lost, p50_ns: null, p99_ns: null });
        else {
          sum.count = (sum.count ?? 0) + (lost.count ?? 0);
          sum.total_ns += lost.total_ns;
          sum.max_ns = Math.max(sum.max_ns ?? 0, lost.max_ns ?? 0);
          sum.while_idle_ns += lost.while_idle_ns;
        }
      }
    }
  }
  for (const cause of causes.values()) {
    if (cause.total_ns === 0 || !cause.count || !cause.max_ns) continue;
    cause.p50_ns = Math.round((cause.total_ns / cause.count) * 0.9);
    cause.p99_ns = Math.round(Math.min(cause.max_ns, (cause.total_ns / cause.count) * 3.2));
  }
  return {
    causes: [...causes.values()].sort((a, b) => b.total_ns - a.total_ns),
    gaps: kept.gaps.slice(0, 100),
    gap_count: kept.gaps.length,
  };
}

/** Kernel frames between a system call and a shootdown, innermost first, as a 6.18 kernel shows them. */
const MUNMAP = ["smp_call_function_many_cond", "on_each_cpu_cond_mask", "flush_tlb_mm_range", "tlb_flush_mmu_tlbonly", "tlb_finish_mmu", "vms_clear_ptes.part.0", "vms_complete_munmap_vmas", "do_vmi_align_munmap", "do_vmi_munmap", "__vm_munmap", "__x64_sys_munmap", "do_syscall_64", "entry_SYSCALL_64_after_hwframe"];
const MADVISE = ["smp_call_function_many_cond", "on_each_cpu_cond_mask", "flush_tlb_mm_range", "tlb_finish_mmu", "zap_page_range_single", "madvise_vma_behavior", "do_madvise", "__x64_sys_madvise", "do_syscall_64", "entry_SYSCALL_64_after_hwframe"];
const TIMER = ["enqueue_hrtimer", "hrtimer_start_range_ns", "futex_do_wait", "__futex_wait", "futex_wait", "do_futex", "__x64_sys_futex", "do_syscall_64", "entry_SYSCALL_64_after_hwframe"];
const TICK = ["__smp_call_single_queue", "generic_exec_single", "smp_call_function_single_async", "update_process_times", "tick_nohz_handler", "__hrtimer_run_queues", "hrtimer_interrupt", "sysvec_apic_timer_interrupt", "asm_sysvec_apic_timer_interrupt"];
const WAKE = ["__resched_curr", "wakeup_preempt", "try_to_wake_up", "futex_wake", "do_futex", "__x64_sys_futex", "do_syscall_64", "entry_SYSCALL_64_after_hwframe"];

/**
 * Who interrupted such a host. In `large` one interrupt has 1,200 raisers with a stack of their own.
 * @param {Scenario} scenario @param {number} endNs @returns {import("../src/types.ts").WhoReport}
 */
export function makeWho(scenario, endNs) {
  const random = randomOf(11);
  /** @param {Partial<import("../src/types.ts").Raiser>} given @returns {import("../src/types.ts").Raiser} */
  const raiser = (given) => ({ certainty: "certain", function: "", syscall: "", comm: "(interrupt)", pid: 0, tid: 0, wakee: "", count: 1, kernel_stack: [], user_stack: [], ...given });
  const stats = { comm: "stats", pid: 6370, tid: 6374, function: "flush_tlb_func" };
  /** @param {number} cpu @param {import("../src/types.ts").CauseKind} kind @param {string} name @param {string} handler @param {number} each @param {import("../src/types.ts").Raiser[]} raisers @param {Partial<import("../src/types.ts").Interrupt>} [more] */
  const interrupt = (cpu, kind, name, handler, each, raisers, more = {}) => {
    const count = raisers.reduce((sum, one) => sum + one.count, more.unknown_raisers ?? 0);
    return { cpu, kind, name, handler, count, total_ns: count * each, p50_ns: each * 0.9, p99_ns: each * 2.4, max_ns: each * 6, share_of_lost_ppm: Math.min(900_000, count * each * 0.02), while_idle_ns: 0, entry_exit_ns: count * 5_000, intruders: [], detail: [], raisers, unknown_raisers: 0, advice: [], ...more };
  };
  const shootdowns = [
    raiser({ ...stats, syscall: "munmap", count: 2990, kernel_stack: MUNMAP, user_stack: ["__GI_munmap", "close_counter", "read_counter_by_stdio", "main", "__libc_start_call_main"] }),
    raiser({ ...stats, syscall: "munmap", count: 410, kernel_stack: MUNMAP, user_stack: ["__GI_munmap", "_IO_file_close_it", "fclose", "rotate_log", "main", "__libc_start_call_main"] }),
    raiser({ ...stats, syscall: "madvise", count: 188, kernel_stack: MADVISE, user_stack: ["__madvise", "arena_purge", "free", "std::vector<std::pair<std::string, unsigned long>, std::allocator<std::pair<std::string, unsigned long>>>::~vector()", "publish", "main", "__libc_start_call_main"] }),
    raiser({ ...stats, tid: 6391, comm: "<img src=x onerror=alert(2)>", syscall: "mprotect", count: 61, kernel_stack: MADVISE.slice(0, 4), user_stack: ["<script>alert(3)</script>", "\u202egnp.exe", "0x7f9b93544ad7 (the process is gone)"] }),
  ];
  if (scenario === "large") {
    for (let at = 0; at < 1200; at += 1) {
      const user_stack = Array.from({ length: 8 + Math.floor(random() * 8) }, (_, depth) => `handle_${Math.floor(random() * (depth > 4 ? 3 : 40))}`);
      shootdowns.push(raiser({ ...stats, comm: `worker${at % 24}`, tid: 7000 + (at % 240), syscall: "munmap", count: 1 + Math.floor(60 * random() ** 6), kernel_stack: MUNMAP, user_stack }));
    }
  }
  const interrupts = [
    interrupt(1, "timer", "local_timer", "hrtimer_interrupt", 9_800, [
      raiser({ comm: "(periodic, or armed before)", function: "tick_nohz_handler", count: 1596 }),
      raiser({ comm: "matcher", pid: 812, tid: 840, syscall: "futex", function: "hrtimer_wakeup", count: 214, kernel_stack: TIMER, user_stack: ["syscall", "<std::thread::thread::Thread>::park_timeout", "matcher::feed::poll", "main"] }),
    ], { detail: ["the tick stopped 27 times"], advice: [{ rule: "tick-runs", count: 100, share_ppm: 900_000, remedy: "boot with nohz_full=CORES and rcu_nocbs=CORES, and keep a single runnable task on the core", evidence: "the tick fired 1596 times", source: "the kernel's Documentation/timers/no_hz.rst" }] }),
    interrupt(1, "tlb_shootdown", "flush_tlb_func", "flush_tlb_func", 3_100, shootdowns, { advice: [{ rule: "memory-mapping-beside-a-polling-thread", count: 100, share_ppm: 900_000, remedy: "do not unmap, protect or advise memory in a process that has a polling thread: keep the memory, or move that work into another process; huge pages make each change rarer", evidence: "3400 of 3649 from stats in munmap", source: "mmap(2), madvise(2); the kernel's Documentation/arch/x86/tlb.rst" }] }),
    interrupt(1, "call_function", "nohz_csd_func", "nohz_csd_func", 1_200, [raiser({ function: "nohz_csd_func", count: 28, kernel_stack: TICK })], { unknown_raisers: 3 }),
    interrupt(0, "reschedule", "reschedule", "scheduler_ipi", 700, [raiser({ certainty: "probable", comm: "stats", pid: 6370, tid: 6374, syscall: "futex", wakee: "poller", count: 45, kernel_stack: WAKE, user_stack: ["syscall", "wake_the_poller", "main"] })], { advice: [{ rule: "woken-from-elsewhere", count: 100, share_ppm: 900_000, remedy: "let the thread on this core poll instead of sleep, or pin what is woken here to another core", evidence: "45 of 45 from stats in futex", source: "futex(2)" }] }),
    interrupt(1, "call_function", "interrupt itself", "generic_smp_call_function_single_interrupt", 800, [], { count: 3710, total_ns: 2_968_000 }),
  ].sort((a, b) => b.total_ns - a.total_ns);
  return {
    start_ns: endNs - 35e9,
    end_ns: endNs,
    workload_pid: null,
    cores: [],
    entry_exit: [],
    fix_first: interrupts.slice(0, 3).map((one) => ({
      cpus: [one.cpu],
      kind: one.kind,
      name: one.name,
      total_ns: one.total_ns,
      share_of_lost_ppm: one.share_of_lost_ppm,
      count: one.count,
      rule: one.advice[0]?.rule ?? "",
      evidence: one.advice[0]?.evidence ?? "",
      remedy: one.advice[0]?.remedy ?? "",
      source: one.advice[0]?.source ?? "",
      verify: "surefoot stall who --cpu 1 --duration 35s --compare BEFORE.surefoot",
      expect: `${one.name} on core ${one.cpu}: ${one.count} per second now, 0.0 without this`,
    })),
    interrupts,
    joined_count: 3677,
    called_count: 3680,
    records: 4147,
    records_without_stack: scenario === "large" ? 120 : 0,
    records_dropped: 0,
    records_unmatched: 2,
    naming_deaths: 0,
    naming_hung: 0,
    marks_lost: 0,
    loops: [{ pid: 6370, tid: 6371, name: "rx <b>queue</b> 0", threshold_ns: 2_000, gap_count: 812, total_ns: 9_100_000, overwritten: 4, not_listed: 810 }],
    loop_gaps: [
      { pid: 6370, tid: 6371, name: "rx <b>queue</b> 0", cpu: 1, start_ns: endNs - 3e9, duration_ns: 41_000, parts: [{ kind: "tlb_shootdown", name: "flush_tlb_func", total_ns: 22_000, count: 7, raisers: ["stats-6374 in munmap"] }, { kind: "timer", name: "local_timer", total_ns: 14_500, count: 1, raisers: [] }], unexplained_ns: 4_500 },
      { pid: 6370, tid: 6371, name: "rx <b>queue</b> 0", cpu: null, start_ns: endNs - 9e9, duration_ns: 12_000, parts: [], unexplained_ns: 12_000 },
    ],
    notices: [{ at_ns: endNs - 12e9, text: "process 6392 (stats) ended; its stacks of later records have no names" }],
    missing: scenario === "large" ? ["user stacks of 3 threads end early: their program has no frame pointers"] : [],
    cost: { probes: [], process_cpu_ns: 240_000_000, resident_bytes: 54_000_000, map_bytes: 503_000, dropped: 0, torn: 0, unreported: 0, untraced_interrupts: 0, self_interrupts: 0 },
  };
}

/** Scenarios in which somebody watches raisers. @param {Scenario} scenario */
export function hasWho(scenario) {
  return scenario === "small" || scenario === "large" || scenario === "replay";
}
