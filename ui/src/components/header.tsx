import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { pause, start } from "../feed.ts";
import { age, clock, instant } from "../format.ts";
import { chooseTheme, connection, history, hostNow, meta, revision, themeChoice, type ThemeChoice } from "../state.ts";
import { Icon } from "./icons.tsx";
import { Views } from "./views.tsx";

/** Data is late when it is older than a few windows; the window length sets the measure. */
function lateAfterNs(): number {
  const newest = history.blocks[history.blocks.length - 1];
  return newest ? Math.max(3e9, 4 * (newest.endNs - newest.startNs)) : 5e9;
}

const reducedMotion = matchMedia("(prefers-reduced-motion: reduce)");

/** How old the newest window is, and whether more is coming. */
function Age() {
  const tick = useSignal(0);
  const state = connection.value;
  revision.value;
  tick.value;
  useEffect(() => {
    if (connection.value.phase === "replay") return undefined;
    const timer = setInterval(() => (tick.value += 1), reducedMotion.matches ? 1000 : 100);
    return () => clearInterval(timer);
  }, [state.phase]);

  const known = meta.value;
  const newest = history.newestNs;
  if (state.phase === "replay" && known) {
    const offset = known.host.realtime_offset_ns;
    return (
      <p class="age" data-testid="age" data-state="replay">
        <span class="dot" aria-hidden="true" />
        recording: <span class="untrusted">{known.recording ?? "unnamed"}</span>
        {newest !== null && <span class="muted"> · ends {instant(newest, offset).slice(0, 19)} UTC</span>}
      </p>
    );
  }
  const old = newest === null ? null : hostNow() - newest;
  const late = old !== null && old > lateAfterNs();
  let words = state.phase === "loading" ? "loading" : "no data yet";
  if (old !== null) words = `${age(old)} old`;
  const label = {
    loading: "",
    live: late ? "late" : "live",
    replay: "",
    paused: "paused",
    retrying: "not connected",
  }[state.phase];
  const name = state.phase === "live" && late ? "late" : state.phase;
  return (
    <p class="age" data-testid="age" data-state={name}>
      <span class="dot" aria-hidden="true" />
      {label !== "" && <strong>{label}</strong>} <span class="figures">{words}</span>
    </p>
  );
}

function PauseButton() {
  const { phase } = connection.value;
  if (phase === "replay") return null;
  const paused = phase === "paused";
  return (
    <button type="button" class="button" data-testid="pause" onClick={() => (paused ? void start() : pause())}>
      <Icon name={paused ? "resume" : "pause"} />
      {paused ? "Resume" : "Pause"}
    </button>
  );
}

const NEXT_THEME: Record<ThemeChoice, ThemeChoice> = { auto: "light", light: "dark", dark: "auto" };

function ThemeButton() {
  const choice = themeChoice.value;
  return (
    <button
      type="button"
      class="button"
      data-testid="theme"
      aria-label={`Colours: ${choice}. Change to ${NEXT_THEME[choice]}.`}
      title={`Colours: ${choice}`}
      onClick={() => chooseTheme(NEXT_THEME[choice])}
    >
      <Icon name={choice} />
      <span class="wide-only">{choice}</span>
    </button>
  );
}

function HostLine() {
  const known = meta.value;
  if (!known) return null;
  const { host } = known;
  const facts: [string, string][] = [
    ["kernel", host.kernel],
    ["processor", host.processor],
    ["runs on", host.hypervisor ?? "bare metal"],
    ["cores watched", String(host.cpus.length)],
    ["numbers from", host.source],
  ];
  if (host.workload !== "") facts.push(["workload", host.workload]);
  return (
    <div class="host" data-testid="host">
      <dl>
        {facts.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd class="untrusted">{value}</dd>
          </div>
        ))}
      </dl>
      {host.missing !== "" && (
        <p class="missing untrusted" data-testid="missing">
          <strong>Missing here:</strong> {host.missing}
        </p>
      )}
    </div>
  );
}

export function Header() {
  const known = meta.value;
  return (
    <header class="top">
      <div class="top-line">
        <h1>
          <span class="brand">Surefoot</span>
          {known && <span class="hostname untrusted">{known.host.hostname}</span>}
        </h1>
        <Views />
        <div class="top-tools">
          <Age />
          <PauseButton />
          <ThemeButton />
        </div>
      </div>
      <HostLine />
    </header>
  );
}

const SEVERITY_WORDS = { good: "Good", notice: "Notice", serious: "Serious" } as const;

/** The one sentence. */
export function Verdict() {
  const known = meta.value;
  if (!known) return null;
  const severity = known.verdict.severity in SEVERITY_WORDS ? known.verdict.severity : "notice";
  return (
    <section class={`verdict ${severity}`} data-testid="verdict" data-severity={severity} aria-label="Verdict">
      <span class="severity" role="status">
        <Icon name={severity} size={20} />
        {SEVERITY_WORDS[severity]}
      </span>
      <p class="untrusted">{known.verdict.sentence}</p>
    </section>
  );
}

/** How many notices stand open; the rest is folded. */
const OPEN_NOTICES = 2;

export function Notices() {
  const known = meta.value;
  if (!known) return null;
  const newestFirst = [...known.notices].reverse();
  const row = (notice: (typeof newestFirst)[number], at: number) => (
    <li key={`${notice.at_ns}/${at}`}>
      <time class="figures">{clock(notice.at_ns, known.host.realtime_offset_ns, 0)}</time>
      <span class="untrusted">{notice.text}</span>
    </li>
  );
  return (
    <section class="notices" data-testid="notices" aria-label="Notices" hidden={newestFirst.length === 0}>
      <ul>{newestFirst.slice(0, OPEN_NOTICES).map(row)}</ul>
      {newestFirst.length > OPEN_NOTICES && (
        <details>
          <summary>{newestFirst.length - OPEN_NOTICES} earlier</summary>
          <ul>{newestFirst.slice(OPEN_NOTICES).map(row)}</ul>
        </details>
      )}
    </section>
  );
}

/** Says that the server cannot be reached and when the page asks again. */
export function ConnectionError() {
  const tick = useSignal(0);
  const state = connection.value;
  tick.value;
  useEffect(() => {
    if (state.phase !== "retrying") return undefined;
    const timer = setInterval(() => (tick.value += 1), 250);
    return () => clearInterval(timer);
  }, [state.phase]);
  if (state.phase !== "retrying") return null;
  const seconds = Math.max(0, Math.ceil((state.retryAtMs - performance.now()) / 1000));
  return (
    <div class="broken" role="alert" data-testid="error">
      <p>
        <Icon name="serious" />
        <span>
          <strong>Not connected:</strong> <span class="untrusted">{state.reason}</span>.{" "}
          {meta.value ? "What is shown is the last that came." : "Is surefoot watch still running?"}
        </span>
      </p>
      <p>
        <span class="figures" aria-live="off">
          {seconds > 0 ? `Trying again in ${seconds} s.` : "Trying again."}
        </span>
        <button type="button" class="button" onClick={() => void start()}>
          Try now
        </button>
      </p>
    </div>
  );
}
