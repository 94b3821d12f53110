// The page: wires the parts together and starts the feed.

import { effect } from "@preact/signals";
import { render } from "preact";
import { followCheckpoints } from "./checkpoint_feed.ts";
import { Causes } from "./components/causes.tsx";
import { Checkpoints } from "./components/checkpoints.tsx";
import { Cores } from "./components/cores.tsx";
import { FilterBar } from "./components/filters.tsx";
import { ConnectionError, Header, Notices, Verdict } from "./components/header.tsx";
import { LoopGaps } from "./components/loops.tsx";
import { Stalls } from "./components/stalls.tsx";
import { Timeline } from "./components/timeline.tsx";
import { Capabilities, Completeness, Cost } from "./components/trust.tsx";
import { Who } from "./components/who.tsx";
import { followFilters, start } from "./feed.ts";
import { publishColours } from "./palette.ts";
import { connection, meta, readAddress, theme, view } from "./state.ts";
import "./styles/base.css";
import "./styles/layout.css";
import "./styles/header.css";
import "./styles/filters.css";
import "./styles/timeline.css";
import "./styles/tables.css";
import "./styles/trust.css";
import "./styles/who.css";
import "./styles/checkpoints.css";

function App() {
  const known = meta.value;
  return (
    <>
      <a class="skip" href="#main">
        Skip to the numbers
      </a>
      <Header />
      <main id="main">
        <ConnectionError />
        {known && view.value === "checkpoints" ? (
          <Checkpoints />
        ) : known ? (
          <>
            <Verdict />
            <Notices />
            <FilterBar />
            <Timeline />
            <div class="pair">
              <Causes />
              <Cores />
            </div>
            <Who />
            <LoopGaps />
            <Stalls />
            <div class="pair even">
              <Cost />
              <Completeness />
            </div>
            <Capabilities />
          </>
        ) : (
          connection.value.phase === "loading" && <p class="boot">Loading the last minutes of this host.</p>
        )}
      </main>
      <footer class="muted">
        <span class="untrusted">Surefoot {known?.version ?? ""}</span>
        <a href="api/v1/snapshot">snapshot</a>
        <a href="api/v1/report">report</a>
        <a href="api/v1/who">who</a>
        <a href="api/v1/checkpoints">checkpoints</a>
        <a href="metrics">metrics</a>
        <span>This page asks no other server than the one it came from.</span>
      </footer>
    </>
  );
}

effect(() => {
  const root = document.documentElement;
  root.dataset.theme = theme.value;
  publishColours(root, theme.value);
});
addEventListener("popstate", readAddress);

const root = document.getElementById("app");
if (root) {
  root.replaceChildren();
  render(<App />, root);
  followFilters();
  followCheckpoints();
  void start();
}
