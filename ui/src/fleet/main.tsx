// The page of `surefoot remedy serve`: the fleet's cases. It shares looks and words with the page of a watch, and asks another server.

import { effect } from "@preact/signals";
import { render } from "preact";
import { openAddress, problems } from "../address.ts";
import { theme } from "../theme.ts";
import "../styles/base.css";
import "../styles/layout.css";
import "../styles/header.css";
import "../styles/controls.css";
import "../styles/tables.css";
import "../styles/findings.css";
import { Board, Everything, Fleet, Headline, Notices } from "./board.tsx";
import { cases, problem, startAsking } from "./feed.ts";
import { Hosts } from "./hosts.tsx";
import { OneCase } from "./story.tsx";
import "./fleet.css";

function App() {
  return (
    <>
      <a class="skip" href="#main">
        Skip to the cases
      </a>
      <main id="main" tabIndex={-1} class="fleet">
        <h1>Surefoot: cases of the fleet</h1>
        {problem.value !== "" && (
          <p class="problems" role="alert" data-testid="problem">
            No newer answer: {problem.value}.
          </p>
        )}
        {problems.value.map((text) => (
          <p key={text} class="problems">
            {text}
          </p>
        ))}
        {cases.value === null ? (
          problem.value === "" && <p class="boot">Asking for the cases.</p>
        ) : (
          <>
            <Headline />
            <Notices />
            <Everything />
            <OneCase />
            <Board />
            <Hosts />
            <Fleet />
          </>
        )}
      </main>
      <footer class="muted">
        <a href="api/v1/cases?state=all">cases</a>
        <a href="api/v1/trail">trail</a>
        <a href="metrics">metrics</a>
        <span>This page asks no other server than the one it came from.</span>
      </footer>
    </>
  );
}

effect(() => {
  document.documentElement.dataset.theme = theme.value;
});

const root = document.getElementById("app");
if (root) {
  openAddress(["case", "host"], []);
  root.replaceChildren();
  render(<App />, root);
  startAsking();
}
