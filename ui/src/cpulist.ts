// Core lists as the kernel writes them: "0-3,8".

/** The kernel's own limit on x86 is 8192; a longer list is a mistake or an attack. */
export const MAX_CPU = 8191;

/** Parses "0-3,8"; `null` when it is not a core list. Ascending, without repeats. */
export function parseCpuList(text: string): number[] | null {
  const cpus = new Set<number>();
  for (const part of text.split(",")) {
    const match = /^\s*(\d{1,5})(?:\s*-\s*(\d{1,5}))?\s*$/.exec(part);
    if (!match) return null;
    const first = Number(match[1]);
    const last = match[2] === undefined ? first : Number(match[2]);
    if (last < first || last > MAX_CPU) return null;
    for (let cpu = first; cpu <= last; cpu += 1) cpus.add(cpu);
  }
  return [...cpus].sort((a, b) => a - b);
}

/** The shortest list: runs of three and more become a range. */
export function formatCpuList(cpus: readonly number[]): string {
  const parts: string[] = [];
  for (let at = 0; at < cpus.length; ) {
    let end = at;
    while (end + 1 < cpus.length && cpus[end + 1] === cpus[end] + 1) end += 1;
    if (end - at >= 2) {
      parts.push(`${cpus[at]}-${cpus[end]}`);
      at = end + 1;
    } else {
      parts.push(String(cpus[at]));
      at += 1;
    }
  }
  return parts.join(",");
}
