// The way between the pages of the page.

import { base, filters, showView, view } from "../state.ts";
import { toQuery, withView, type View } from "../url.ts";

const VIEWS: readonly (readonly [View, string])[] = [
  ["lost-time", "Lost time"],
  ["checkpoints", "Checkpoints"],
];

export function Views() {
  const query = toQuery(filters.value, base.value);
  return (
    <nav class="views" data-testid="views" aria-label="Pages">
      {VIEWS.map(([key, words]) => (
        <a
          key={key}
          href={withView(query, key) || "./"}
          aria-current={view.value === key ? "page" : undefined}
          onClick={(event) => {
            // A click with a key opens a tab of its own, as everywhere.
            if (event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
            event.preventDefault();
            showView(key);
          }}
        >
          {words}
        </a>
      ))}
    </nav>
  );
}
