//! Memory management: what moves, merges or rearranges pages under a running thread.

use super::kernel::exactly;
use super::{Facts, Judgement, Known, Measured, Rule, fine, fix, known};
use crate::audit::measure::listed;

const HUGE: &str = "/sys/kernel/mm/transparent_hugepage";

pub const RULES: &[Rule] = &[
    Rule {
        name: "numa_balancing",
        expected: "0: pages are not unmapped to see who touches them",
        why: "it takes pages from running threads by TLB shootdown and makes them fault",
        source: "kernel admin-guide/sysctl/kernel: numa_balancing",
        judge: |facts| exactly(facts, "kernel.numa_balancing", 0),
        evidence: |_, measured| rose(measured, "numa_hint_faults", "hinting faults"),
    },
    Rule {
        name: "ksm",
        expected: "equal pages are not merged",
        why: "merging write-protects pages by TLB shootdown, and the next write to one faults and copies",
        source: "kernel admin-guide/mm/ksm: run",
        judge: |facts| match known(&facts.settings.ksm_run)? {
            1 => fix("1", "echo 2 > /sys/kernel/mm/ksm/run"),
            other => fine(other.to_string()),
        },
        evidence: |_, measured| {
            let scans = measured.ksm_scans.clone()?;
            Ok(format!("{scans} full scans in {} (whole machine)", measured.length()))
        },
    },
    Rule {
        name: "transparent_huge_pages",
        expected: "madvise or never",
        why: "with always the kernel gathers small pages into huge ones under running threads, with a TLB shootdown each",
        source: "kernel admin-guide/mm/transhuge: enabled",
        judge: |facts| match known(&facts.settings.thp_enabled)?.as_str() {
            "always" => fix("always", format!("echo madvise > {HUGE}/enabled")),
            other => fine(other),
        },
        evidence: |_, measured| rose(measured, "thp_collapse_alloc", "huge pages gathered"),
    },
    Rule {
        name: "huge_page_defrag",
        expected: "not always",
        why: "with always a page fault may stop to compact memory",
        source: "kernel admin-guide/mm/transhuge: defrag",
        judge: |facts| match known(&facts.settings.thp_defrag)?.as_str() {
            "always" => fix("always", format!("echo madvise > {HUGE}/defrag")),
            other => fine(other),
        },
        evidence: |_, measured| rose(measured, "compact_stall", "stops to compact"),
    },
    Rule {
        name: "khugepaged",
        expected: "khugepaged does not compact memory, or has nothing to do",
        why: "compaction moves pages of running threads, with a TLB shootdown each",
        source: "kernel admin-guide/mm/transhuge: khugepaged/defrag",
        judge: khugepaged,
        evidence: |_, measured| rose(measured, "compact_migrate_scanned", "pages scanned to be moved"),
    },
    Rule {
        name: "huge_pages",
        expected: "huge pages are reserved on the core's node",
        why: "a workload on huge pages has few entries to flush and does not fault; later they may be impossible to get",
        source: "kernel admin-guide/mm/hugetlbpage: nr_hugepages",
        judge: huge_pages,
        evidence: |_, _| Ok("the kernel counts the pages that it really got".to_owned()),
    },
    Rule {
        name: "swap",
        expected: "no swap area is in use",
        why: "a page that was swapped out costs milliseconds, and taking it costs a TLB shootdown",
        source: "proc(5): /proc/swaps",
        judge: |facts| match known(&facts.settings.swap_areas)? {
            0 => fine("none"),
            count => fix(format!("{count} areas"), "swapoff -a"),
        },
        evidence: |_, measured| {
            let pages = measured.vmstat("pswpin")?.saturating_add(measured.vmstat("pswpout")?);
            Ok(format!("{pages} pages swapped in {} (whole machine)", measured.length()))
        },
    },
];

fn rose(measured: &Measured, counter: &str, what: &str) -> Known<String> {
    Ok(format!("{} {what} in {} (whole machine)", measured.vmstat(counter)?, measured.length()))
}

fn khugepaged(facts: &Facts<'_>) -> Known<Judgement> {
    if known(&facts.settings.thp_enabled)? == "never" {
        return fine("nothing to do: huge pages are off");
    }
    match known(&facts.settings.khugepaged_defrag)? {
        0 => fine("0"),
        other => fix(other.to_string(), format!("echo 0 > {HUGE}/khugepaged/defrag")),
    }
}

fn huge_pages(facts: &Facts<'_>) -> Known<Judgement> {
    let (node, sizes) = known(&facts.core.huge_pages)?;
    let Some((smallest_kib, _)) = sizes.first() else {
        return Err(format!("node {node} offers no huge pages"));
    };
    let reserved = sizes.iter().filter(|size| size.1 > 0).map(|(kib, pages)| format!("{pages} of {kib} KiB"));
    let reserved = listed(reserved);
    if !reserved.is_empty() {
        return fine(format!("node {node}: {reserved}"));
    }
    fix(
        format!("node {node}: none"),
        format!("echo 512 > /sys/devices/system/node/node{node}/hugepages/hugepages-{smallest_kib}kB/nr_hugepages"),
    )
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Try, good, measured};
    use std::collections::BTreeMap;

    #[test]
    fn numa_balancing() {
        let try_it = Try::new("numa_balancing");
        try_it.ok(&good());
        let tree = good().file("proc/sys/kernel/numa_balancing", "1\n");
        assert_eq!(try_it.fix(&tree).fix, "sysctl -w kernel.numa_balancing=0");
        let mut measured = measured("", "", 1.0);
        measured.vmstat = Ok(BTreeMap::from([("numa_hint_faults".to_owned(), 77)]));
        assert_eq!(try_it.fix_with(&tree, &measured).evidence, "77 hinting faults in 2.0 s (whole machine)");
        measured.vmstat = Ok(BTreeMap::new());
        assert_eq!(
            try_it.fix_with(&tree, &measured).evidence,
            "not measured: /proc/vmstat has no counter numa_hint_faults"
        );
    }

    #[test]
    fn ksm() {
        let try_it = Try::new("ksm");
        try_it.ok(&good());
        let found = try_it.fix(&good().file("sys/kernel/mm/ksm/run", "1\n"));
        assert_eq!(found.fix, "echo 2 > /sys/kernel/mm/ksm/run");
    }

    #[test]
    fn transparent_huge_pages() {
        let try_it = Try::new("transparent_huge_pages");
        try_it.ok(&good());
        let found = try_it.fix(&good().file("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n"));
        assert_eq!(found.fix, "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled");
        try_it.cannot(&good().file("sys/kernel/mm/transparent_hugepage/enabled", "always\n"));
    }

    #[test]
    fn huge_page_defrag() {
        let try_it = Try::new("huge_page_defrag");
        try_it.ok(&good());
        let found = try_it.fix(&good().file("sys/kernel/mm/transparent_hugepage/defrag", "[always] defer never\n"));
        assert_eq!(found.fix, "echo madvise > /sys/kernel/mm/transparent_hugepage/defrag");
    }

    #[test]
    fn khugepaged() {
        let try_it = Try::new("khugepaged");
        let on = || good().file("sys/kernel/mm/transparent_hugepage/khugepaged/defrag", "1\n");
        try_it.ok(&good());
        assert_eq!(try_it.fix(&on()).fix, "echo 0 > /sys/kernel/mm/transparent_hugepage/khugepaged/defrag");
        try_it.ok(&on().file("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n"));
    }

    #[test]
    fn huge_pages() {
        let try_it = Try::new("huge_pages");
        let at = "sys/devices/system/node/node0/hugepages";
        assert_eq!(try_it.ok(&good()).actual, "node 0: 64 of 2048 KiB");
        let none = || good().file(format!("{at}/hugepages-2048kB/nr_hugepages"), "0\n");
        assert_eq!(try_it.fix(&none()).fix, format!("echo 512 > /{at}/hugepages-2048kB/nr_hugepages"));
        try_it.ok(&none().file(format!("{at}/hugepages-1048576kB/nr_hugepages"), "2\n"));
        try_it.cannot(&good().file("sys/devices/system/node/node0/cpulist", "0-1\n"));
    }

    #[test]
    fn swap() {
        let try_it = Try::new("swap");
        try_it.ok(&good());
        let text = "Filename\tType\tSize\tUsed\tPriority\n/dev/vda2 partition 1 0 -2\n";
        let found = try_it.fix(&good().file("proc/swaps", text));
        assert_eq!((found.actual.as_str(), found.fix.as_str()), ("1 areas", "swapoff -a"));
    }
}
