// The way between the views; a sign where one needs a look.

import { followLink, hrefWith } from "../address.ts";
import { rooms } from "../findings.ts";
import { SEVERITIES } from "../severity.ts";
import { changeToView, shownView, views, type View } from "../view.ts";
import { SeverityIcon } from "./severity.tsx";
import { toTop } from "./findings.tsx";

/** The worst severity of its rooms, where somebody should act. */
function worstOf(view: View) {
  const found = (rooms.value ?? []).filter(({ room, severity }) => view.rooms.includes(room) && (severity === "warning" || severity === "critical"));
  return found.map(({ severity }) => severity).sort((a, b) => SEVERITIES.indexOf(b ?? "ok") - SEVERITIES.indexOf(a ?? "ok"))[0] ?? null;
}

export function Views() {
  return (
    <nav class="views" data-testid="views" aria-label="Views">
      {views.value.map((view) => {
        const change = changeToView(view);
        const worst = worstOf(view);
        return (
          <a key={view.key} href={hrefWith(change)} aria-current={shownView.value === view ? "page" : undefined} onClick={followLink(change, toTop)}>
            {worst && <SeverityIcon severity={worst} size={13} />}
            {view.title}
          </a>
        );
      })}
    </nav>
  );
}
