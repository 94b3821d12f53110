// The way around this long view, and what its words mean.

import { past } from "../../../state.ts";
import { MEANINGS } from "../words.ts";
import * as state from "../state.ts";

/** Links to the parts of the view, in their order. */
export function Parts() {
  const isPast = past.value !== null;
  const parts: [string, string, boolean][] = [
    ["compare-title", "Before and after", isPast],
    ["causes-title", "Causes", true],
    ["cores-title", "Cores", true],
    ["who-title", "Who interrupted", !isPast && state.who.value !== null],
    ["gaps-title", "Gaps", true],
    ["cost-title", "What watching costs", !isPast],
    ["capabilities-title", "What works here", !isPast],
    ["words-title", "Words", true],
  ];
  return (
    <nav class="parts" data-testid="parts" aria-label="Parts of this view">
      {parts.filter(([, , isThere]) => isThere).map(([id, words]) => (
        <a key={id} href={`#${id}`}>
          {words}
        </a>
      ))}
    </nav>
  );
}

/** The legend of the words that the tables use. */
export function Words() {
  return (
    <section class="card" data-testid="words" aria-labelledby="words-title">
      <h2 id="words-title">Words</h2>
      <dl class="words">
        {MEANINGS.map(([word, meaning]) => (
          <div key={word}>
            <dt>{word}</dt>
            <dd>{meaning}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}
