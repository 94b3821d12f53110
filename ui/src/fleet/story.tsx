// One case: its steps, its evidence, everything that was done, and what a person may ask.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { followLink, hrefWith } from "../address.ts";
import { SeverityBadge } from "../components/severity.tsx";
import { age, moment } from "../format.ts";
import type { Case, CaseStep } from "../types.ts";
import { ask, isAsking, isOpen, nowNs, openCase, REASON_CHARS_MAX, story, storyProblem, told, type Asked, type Entry } from "./feed.ts";
import { actionWords, actorWords, capital, drainedWords, partAsked } from "./words.ts";

const STEP_WORDS: Record<string, string> = { pending: "to come", running: "running", in_doubt: "in doubt", done: "done", failed: "failed", skipped: "left out" };

function Asking({ one }: { one: Case }) {
  const reason = useSignal("");
  const isSure = useSignal(false);
  // What became of its part is told of a closed case too.
  const ofPart = partAsked(one);
  if (!isOpen(one) && ofPart === null) return null;
  const button = (what: Asked, words: string, step?: string) => (
    <button type="button" class="button" data-testid={what} disabled={isAsking.value} onClick={() => void ask(one.id, what, reason.value, step)}>
      {words}
    </button>
  );
  const step = one.steps.find(({ state }) => state === "pending");
  return (
    <div class="asking">
      <label>
        {ofPart === "replaced" ? "Reason; of a replacement, what took its place" : "Reason"}
        <input
          type="text"
          value={reason.value}
          maxLength={REASON_CHARS_MAX}
          data-testid="reason"
          onInput={(event) => (reason.value = event.currentTarget.value)}
        />
      </label>
      {one.state === "needs_approval" && button("approve", `Approve ${step?.step ?? "the next step"}`, step?.step)}
      {one.state === "with_person" && button("approve", `${one.host} is repaired: bring it back`, "return")}
      {one.state === "paused" && button("resume", "Go on")}
      {isOpen(one) && one.state !== "paused" && one.state !== "with_person" && button("pause", "Pause")}
      {ofPart === "replaced" && button("replaced", `${one.subject} was replaced`)}
      {ofPart === "tested-good" && button("tested-good", `The replaced ${one.subject} tested good`)}
      {isOpen(one) && (
        <button
          type="button"
          class="button quiet"
          data-testid="cancel"
          disabled={isAsking.value}
          onClick={() => {
            if (isSure.value) void ask(one.id, "cancel", reason.value);
            isSure.value = !isSure.value;
          }}
        >
          {isSure.value ? "Really end the case, and take back what it changed" : "Cancel the case"}
        </button>
      )}
    </div>
  );
}

function Step({ step, nowNs }: { step: CaseStep; nowNs: number }) {
  const { begun_realtime_ns: begun = 0, ended_realtime_ns: ended = 0 } = step;
  const times = begun === 0 ? "" : ended === 0 ? `since ${moment(begun, nowNs)}` : `${moment(begun, nowNs)}, took ${age(ended - begun)}`;
  return (
    <li class="step" data-testid="step" data-step={step.step} data-state={step.state}>
      <span class={`step-state step-${step.state}`}>{step.is_not_needed === true ? "not needed" : (STEP_WORDS[step.state] ?? step.state)}</span>
      <code class="untrusted">{step.step}</code>
      <span class="muted figures">{times}</span>
      <span class="untrusted">
        {step.outcome}
        {step.approved_by !== undefined && step.approved_by !== "" && ` (approved by ${step.approved_by})`}
        {step.attempt_count > 1 && ` (attempt ${step.attempt_count})`}
      </span>
    </li>
  );
}

function Trail({ trail, nowNs }: { trail: readonly Entry[]; nowNs: number }) {
  return (
    <div class="table-scroll" tabIndex={0} role="region" aria-label="Audit trail">
      <table data-testid="trail">
        <thead>
          <tr>
            <th scope="col">When (local)</th>
            <th scope="col">Who</th>
            <th scope="col">What</th>
            <th scope="col">Reason or outcome</th>
          </tr>
        </thead>
        <tbody>
          {trail.map((entry, at) => (
            <tr key={at} data-action={entry.action}>
              <td class="figures">{moment(entry.at_realtime_ns, nowNs)}</td>
              <td class="untrusted">{actorWords(entry.actor)}</td>
              <td class="untrusted">
                {actionWords(entry.action)} {entry.target}
              </td>
              <td class="untrusted">{entry.reason}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

export function OneCase() {
  const id = openCase();
  // Whoever opened it by key reads on in it.
  useEffect(() => document.getElementById("story")?.focus(), [id]);
  if (id === null) return null;
  const close = { case: null };
  const one = story.value?.case;
  const { label = "", to_do: toDo } = story.value ?? {};
  const part = story.value?.part?.says ?? [];
  const now = nowNs.value;
  return (
    <section class="card story" id="story" tabIndex={-1} data-testid="story" data-case={id} data-state={one?.state} aria-label={`Case ${id}`}>
      <p class="story-close">
        <a href={hrefWith(close)} onClick={followLink(close)}>
          Close
        </a>
      </p>
      <h2>Case {id}</h2>
      {storyProblem.value !== "" && (
        <p class="problems" role="alert">
          {storyProblem.value}
        </p>
      )}
      {one && (
        <>
          <p class="story-head">
            <SeverityBadge severity={one.severity} size={15} /> <strong class="untrusted">{one.host}</strong>{" "}
            <span class="untrusted">{one.sentence}</span>
          </p>
          <p class="untrusted muted">
            {one.fault}
            {one.subject !== undefined && one.subject !== "" && ` of ${one.subject}`}
            {one.service !== "" && `, service ${one.service}`}, opened {moment(one.since_realtime_ns, now)} ({age(now - one.since_realtime_ns)} ago)
          </p>
          <p data-testid="story-state">
            {capital(label)} since {moment(one.state_since_realtime_ns, now)} ({age(now - one.state_since_realtime_ns)})
            {one.waits_for !== undefined && one.waits_for !== "" && <span class="untrusted">; it waits for {one.waits_for}</span>}. The host is {drainedWords(one)}
            {one.is_firing ? "; the alert holds" : "; the alert is over"}. Policy <span class="untrusted">{one.policy}</span>
            {one.ticket !== undefined && one.ticket !== "" && <span class="untrusted">, ticket {one.ticket}</span>}.
          </p>
          {one.is_dry_run && <p class="problems">This is a dry run: each step is told, and none is done.</p>}
          {toDo !== undefined && (
            <p class="untrusted" data-testid="to-do">
              To do: {toDo}
            </p>
          )}
          <Asking key={`${id} ${one.state} ${partAsked(one)}`} one={one} />
          {told.value?.id === id && (
            <p role="status" class={told.value.isDone ? "muted" : "problems"} data-testid="told">
              {told.value.text}
            </p>
          )}
          {part.length > 0 && (
            <>
              <h3>The part</h3>
              <ul data-testid="part">
                {part.map((line, at) => (
                  <li key={at} class="untrusted">
                    {line}
                  </li>
                ))}
              </ul>
            </>
          )}
          <h3>Steps</h3>
          <ol class="steps">
            {one.steps.map((step, at) => (
              <Step key={at} step={step} nowNs={now} />
            ))}
          </ol>
          {one.evidence !== undefined && one.evidence.length > 0 && (
            <>
              <h3>Evidence</h3>
              <ul data-testid="evidence">
                {one.evidence.map((line, at) => (
                  <li key={at} class="untrusted">
                    {line}
                  </li>
                ))}
              </ul>
            </>
          )}
          <h3>Everything that was done</h3>
          <Trail trail={story.value?.trail ?? []} nowNs={now} />
        </>
      )}
    </section>
  );
}
