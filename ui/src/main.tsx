// The page: wires the parts and begins to ask.

import { effect } from "@preact/signals";
import { render } from "preact";
import { openAddress } from "./address.ts";
import { AddressProblems, ConnectionError, Header } from "./components/header.tsx";
import * as overviewFeed from "./overview/feed.ts";
import { PAST_NAMES } from "./past.ts";
import { startPolling } from "./poller.ts";
import { connection, overview, pastProblems } from "./state.ts";
import "./styles/base.css";
import "./styles/layout.css";
import "./styles/header.css";
import "./styles/controls.css";
import "./styles/tables.css";
import "./styles/findings.css";
import { theme } from "./theme.ts";
import { listenerOf, questionsOf, shownComponent, startLoading, viewProblems, views } from "./view.ts";
import { VIEWS } from "./views.ts";

function Shown() {
  const Component = shownComponent.value;
  if (Component instanceof Error)
    return (
      <p class="boot" role="alert">
        The script of this view did not come ({Component.message}). <a href={location.href}>Load the page again.</a>
      </p>
    );
  return Component && <Component />;
}

function App() {
  return (
    <>
      <a class="skip" href="#main">
        Skip to the numbers
      </a>
      <Header />
      <main id="main" tabIndex={-1}>
        <ConnectionError />
        <AddressProblems />
        {overview.value ? <Shown /> : connection.value.phase === "loading" && <p class="boot">Asking what is known of this host.</p>}
      </main>
      <footer class="muted">
        <span class="untrusted">Surefoot {overview.value?.version ?? ""}</span>
        {[...new Set(VIEWS.flatMap(({ documents }) => documents))].map((name) => (
          <a key={name} href={`api/v1/${name}`}>
            {name}
          </a>
        ))}
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
  views.value = VIEWS;
  const names = ["view", ...PAST_NAMES, "finding", ...VIEWS.flatMap(({ parameters }) => parameters ?? [])];
  openAddress(names, [viewProblems, pastProblems, ...VIEWS.flatMap(({ problems }) => problems ?? [])]);
  startLoading();
  root.replaceChildren();
  render(<App />, root);
  startPolling([...overviewFeed.questions, ...VIEWS.flatMap(questionsOf)], [overviewFeed.listener, ...VIEWS.map(listenerOf)]);
}
