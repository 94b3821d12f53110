// The movie of one fault: how long nobody knew and how long it took to come back, then what happened, step by step.

import { useEffect, useRef } from "preact/hooks";
import { Command } from "../../../components/command.tsx";
import { count, duration } from "../../../format.ts";
import { shellWord } from "../../../shell.ts";
import type { MovieScene, NicMovie } from "../../../types.ts";
import { detectedWords, outcomeWords, phasesOf, spaced, toneOf } from "../campaign.ts";
import * as state from "../state.ts";

/** Steps that are shown before somebody asks for all. */
const SHOWN = 40;

export function Movie() {
  const id = state.chosenFault.value;
  const problem = state.movieProblem.value;
  const movie = state.movie.value?.fault.id === id ? state.movie.value : null;
  const head = useRef<HTMLHeadingElement>(null);
  // Who chose a fault by key goes on reading here, and who chose it by pointer sees it.
  useEffect(() => {
    head.current?.focus();
  }, [id]);
  // What stands above it comes later than it does, where an address leads here.
  const isHere = movie !== null;
  useEffect(() => {
    if (isHere) head.current?.scrollIntoView({ block: "start" });
  }, [isHere, id]);
  return (
    <section class="card" data-testid="movie">
      <div class="card-head">
        <h2 ref={head} tabIndex={-1}>
          Step by step
        </h2>
        <button type="button" class="button" onClick={() => state.chooseFault(null)}>
          Close
        </button>
      </div>
      <p class="untrusted movie-id">
        <code>{id}</code>
      </p>
      {problem !== "" && (
        <p class="problems" role="alert" data-testid="movie-problem">
          Could not replay it: <span class="untrusted">{problem}</span>
        </p>
      )}
      {movie ? <Shown movie={movie} /> : problem === "" && <p class="empty">Replaying.</p>}
    </section>
  );
}

function Shown({ movie }: { movie: NicMovie }) {
  const { fault, scenes } = movie;
  const phases = phasesOf(movie);
  const endNs = phases.at(-1)?.toNs ?? 0;
  return (
    <>
      <p>
        <strong>{outcomeWords(fault.outcome)}</strong> ({spaced(fault.standard)}), {fault.detected_by !== null && "detected by "}
        {detectedWords(fault)}
        {fault.detection_ns === null ? "" : ` after ${duration(fault.detection_ns)}`}
        {fault.recovery_ns === null ? "" : `, recovered within ${duration(fault.recovery_ns)}`}. Times are virtual.
      </p>
      {endNs > 0 && (
        <>
          <span class="bar phase-bar" aria-hidden="true">
            {phases.map((phase) => (
              <span key={phase.key} class="phase" data-phase={phase.key} style={{ width: `${((phase.toNs - phase.fromNs) / endNs) * 100}%` }} />
            ))}
          </span>
          <p class="legend" data-testid="movie-phases">
            {phases.map((phase) => (
              <span key={phase.key} class="phase-key">
                <span class="phase outcome-swatch" data-phase={phase.key} aria-hidden="true" /> {phase.words}
              </span>
            ))}
          </p>
        </>
      )}
      <ol class="scenes" data-testid="scenes">
        {scenes.slice(0, SHOWN).map(Scene)}
      </ol>
      {scenes.length > SHOWN && (
        <details class="fold">
          <summary>More</summary>
          <ol class="scenes">{scenes.slice(SHOWN).map(Scene)}</ol>
        </details>
      )}
      {movie.missed_count > 0 && <p class="muted">{count(movie.missed_count)} more not shown.</p>}
      <Command label="The same in a terminal" line={commandOf(fault)} words="movie-command" button="copy-movie" />
    </>
  );
}

/** The experiments that come with Surefoot, as in crates/nic; any other is described by a file. */
const PRESETS = ["send-chunk", "dma-registers", "code", "data", "registers"];

function commandOf({ id, experiment }: NicMovie["fault"]): string {
  return `surefoot nic inject --fault ${shellWord(id)}${PRESETS.includes(experiment) ? "" : " --experiment FILE"}`;
}

function Scene(scene: MovieScene, at: number) {
  return (
    <li key={at} class="scene" data-scene={scene.step ?? scene.scene} data-tone={toneOf(scene)}>
      <span class="scene-time figures">{(scene.since_ns / 1000).toFixed(1)} us</span>
      <span class="scene-place">
        <span class="scene-part">
          {scene.part}
        </span>
        {scene.host !== null && <span class="muted"> host {scene.host}</span>}
      </span>
      <div class="scene-words">
        <span class="untrusted">{scene.text}</span>
        {scene.usually !== null && scene.instead !== null && (
          <dl class="instead">
            <dt>usually</dt>
            <dd>
              <code class="untrusted">{scene.usually}</code>
            </dd>
            <dt>now</dt>
            <dd>
              <code class="untrusted">{scene.instead}</code>
            </dd>
          </dl>
        )}
      </div>
    </li>
  );
}
