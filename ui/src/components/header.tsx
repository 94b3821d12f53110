import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { problems } from "../address.ts";
import { age, instant } from "../format.ts";
import { pause, resume } from "../poller.ts";
import { connection, newestAtMs, overview, past, windowNs } from "../state.ts";
import { chooseTheme, themeChoice, type ThemeChoice } from "../theme.ts";
import { Icon } from "./icons.tsx";
import { PastBar, rangeWords, When } from "./past.tsx";
import { Views } from "./views.tsx";

/** Data is late when it is older than a few windows; the window length sets the measure. */
function lateAfterNs(): number {
  return Math.max(3e9, 4 * windowNs.value);
}

const reducedMotion = matchMedia("(prefers-reduced-motion: reduce)");

const PHASES = { loading: "", live: "live", replay: "", paused: "paused", retrying: "not connected" } as const;

/** How old the newest window is, and whether more is coming. */
function Age() {
  const tick = useSignal(0);
  const state = connection.value;
  const range = past.value;
  tick.value;
  useEffect(() => {
    if (connection.value.phase === "replay" || range) return undefined;
    const timer = setInterval(() => (tick.value += 1), reducedMotion.matches ? 1000 : 100);
    return () => clearInterval(timer);
  }, [state.phase, range]);

  const known = overview.value;
  if (range) {
    return (
      <p class="age figures" data-testid="age" data-state="past">
        <span class="dot" aria-hidden="true" />
        <strong>past</strong> {rangeWords(range)}
      </p>
    );
  }
  if (state.phase === "replay" && known) {
    const endNs = known.now_realtime_ns - (known.age_ns ?? 0);
    return (
      <p class="age" data-testid="age" data-state="replay">
        <span class="dot" aria-hidden="true" />
        recording: <span class="untrusted">{known.recording ?? "unnamed"}</span>
        {known.age_ns !== null && <span class="muted"> · ends {instant(endNs, 0).slice(0, 19)} UTC</span>}
      </p>
    );
  }
  if (known?.mode === "demo" && state.phase === "live") {
    return (
      <p class="age" data-testid="age" data-state="demo">
        <span class="dot" aria-hidden="true" />
        <strong>demo data</strong>
      </p>
    );
  }
  const old = newestAtMs.value === null ? null : (performance.now() - newestAtMs.value) * 1e6;
  const isLate = state.phase === "live" && old !== null && old > lateAfterNs();
  let words = state.phase === "loading" ? "loading" : "no data yet";
  if (old !== null) words = `${age(old)} old`;
  const label = isLate ? "late" : PHASES[state.phase];
  return (
    <p class="age" data-testid="age" data-state={isLate ? "late" : state.phase}>
      <span class="dot" aria-hidden="true" />
      {label !== "" && <strong>{label}</strong>} <span class="figures">{words}</span>
    </p>
  );
}

function PauseButton() {
  const { phase } = connection.value;
  if (phase === "replay" || past.value !== null) return null;
  const paused = phase === "paused";
  return (
    <button type="button" class="button" data-testid="pause" onClick={() => (paused ? resume() : pause())}>
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
  const host = overview.value?.host;
  if (!host) return null;
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

/** What in the address cannot be used. */
export function AddressProblems() {
  if (problems.value.length === 0) return null;
  return (
    <ul class="problems" role="alert" data-testid="address-problems">
      {problems.value.map((problem) => (
        <li key={problem} class="untrusted">
          {problem}
        </li>
      ))}
    </ul>
  );
}

/** What is not shown to this user, and how to get it. */
function AccessLine() {
  const access = overview.value?.access;
  if (!access || access.sees_all) return null;
  return (
    <p class="access-line" role="note" data-testid="access">
      <Icon name="warning" /> <span class="untrusted">{access.why}</span>
    </p>
  );
}

/** Whose data these are where they are nobody's. */
function DemoLine() {
  if (overview.value?.mode !== "demo") return null;
  return (
    <p class="access-line" role="note" data-testid="demo">
      <strong>Demo data:</strong> a made-up day of a made-up host. Nothing of this host is shown.
    </p>
  );
}

export function Header() {
  const hostname = overview.value?.host?.hostname;
  return (
    <header class="top">
      <div class="top-line">
        <h1>
          <span class="brand">Surefoot</span>
          {hostname !== undefined && <span class="hostname untrusted">{hostname}</span>}
        </h1>
        <Views />
        <div class="top-tools">
          <Age />
          <When />
          <PauseButton />
          <ThemeButton />
        </div>
      </div>
      <PastBar />
      <HostLine />
      <AccessLine />
      <DemoLine />
    </header>
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
        <Icon name="warning" />
        <span>
          <strong>Not connected:</strong> <span class="untrusted">{state.reason}</span>.{" "}
          {overview.value ? "What is shown is the last answer." : "Is surefoot watch still running?"}
        </span>
      </p>
      <p>
        <span class="figures" aria-live="off">
          {seconds > 0 ? `Trying again in ${seconds} s.` : "Trying again."}
        </span>
        <button type="button" class="button" onClick={() => resume()}>
          Try now
        </button>
      </p>
    </div>
  );
}
