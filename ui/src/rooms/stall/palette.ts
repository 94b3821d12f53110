// Colours of the causes. Hues follow Okabe and Ito's set, which colour-blind people can tell apart;
// kinds of one family share a hue and differ in lightness. Colour is never the only sign: every use
// stands beside the kind's name. Each colour has 3:1 or more against its background (a test checks it).

import type { Theme } from "../../theme.ts";
import { KINDS, type Kind } from "./words.ts";


const KIND_COLOURS: Record<Kind, readonly [light: string, dark: string]> = {
  // Below the kernel: firmware, hypervisor, hardware errors.
  smi: ["#c2185b", "#ff6f9f"],
  hypervisor: ["#8e3fa8", "#c792ea"],
  nmi: ["#6a1b4d", "#e0a3c8"],
  machine_check: ["#b3261e", "#ff8a75"],
  // Interrupts of devices and of the timer.
  device_interrupt: ["#00628b", "#5ab4e6"],
  timer: ["#2f7fd1", "#4a8fe0"],
  // Interrupts from other cores.
  call_function: ["#00796b", "#3fc1ae"],
  tlb_shootdown: ["#2e9e5b", "#7ddc94"],
  reschedule: ["#5d8a00", "#b4cf4a"],
  irq_work: ["#4d6b57", "#a3bfa9"],
  // Deferred work and other tasks.
  softirq: ["#b86e00", "#f0b23e"],
  kernel_thread: ["#8a5a2b", "#d9a066"],
  preemption: ["#d1500a", "#ff9e5e"],
  thread_state: ["#77604a", "#c9b29b"],
  other_interrupt: ["#5f6b7a", "#a9b4c2"],
  console: ["#7a5c99", "#b89bd6"],
};

const UNEXPLAINED_COLOURS = ["#85888c", "#7d838a"] as const;

/** Steps of the heat map from little to much: one hue, only lightness changes. */
const HEAT_COLOURS: Record<Theme, readonly string[]> = {
  light: ["#f1f4f7", "#cfe0ee", "#9cc3e2", "#5c9bcd", "#2b6ea8", "#174a7c", "#0a2747"],
  dark: ["#1b2026", "#1d3a54", "#1f5a87", "#2f80b8", "#5fabdb", "#a5d3ef", "#eaf6fd"],
};

export function kindColour(kind: number, theme: Theme): string {
  return KIND_COLOURS[KINDS[kind].id][theme === "light" ? 0 : 1];
}

export function unexplainedColour(theme: Theme): string {
  return UNEXPLAINED_COLOURS[theme === "light" ? 0 : 1];
}

type Rgb = readonly [number, number, number];

export function rgb(hex: string): Rgb {
  const value = Number.parseInt(hex.slice(1), 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
}

/** The colour of a heat-map cell; `level` runs from 0 to 1. */
export function heatColour(level: number, theme: Theme): Rgb {
  const steps = HEAT_COLOURS[theme];
  const at = Math.max(0, Math.min(1, level)) * (steps.length - 1);
  const low = Math.min(steps.length - 2, Math.floor(at));
  const from = rgb(steps[low]);
  const to = rgb(steps[low + 1]);
  const mix = (channel: 0 | 1 | 2) => Math.round(from[channel] + (to[channel] - from[channel]) * (at - low));
  return [mix(0), mix(1), mix(2)];
}

/** Shares span decades, so the level grows with the square root: a tenth of the scale is still a third of the way. */
export function heatLevel(share: number, full: number): number {
  return Math.sqrt(Math.max(0, Math.min(1, share / full)));
}

/** Contrast ratio of WCAG 2.2 between two colours, 1 to 21. */
export function contrast(a: string, b: string): number {
  const luminance = (hex: string) => {
    const [r, g, blue] = rgb(hex).map((channel) => {
      const value = channel / 255;
      return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * blue;
  };
  const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
  return (high + 0.05) / (low + 0.05);
}

/** Puts the colours where the style sheet finds them: --k-timer and so on. */
export function publishColours(root: HTMLElement, theme: Theme): void {
  KINDS.forEach((kind, at) => root.style.setProperty(`--k-${kind.id}`, kindColour(at, theme)));
  root.style.setProperty("--k-unexplained", unexplainedColour(theme));
}
