// The way between the views; a sign where one needs a look.

import { followLink, hrefWith } from "../address.ts";
import { rooms } from "../findings.ts";
import { worst } from "../severity.ts";
import { changeToView, shownView, views, type View } from "../view.ts";
import { SeverityIcon } from "./severity.tsx";
import { toTop } from "./findings.tsx";

/** The worst severity of its rooms, where somebody should act. */
function worstOf(view: View) {
  return worst((rooms.value ?? []).filter(({ room, needsAction }) => view.rooms.includes(room) && needsAction).map(({ severity }) => severity ?? "ok"));
}

export function Views() {
  return (
    <nav class="views" data-testid="views" aria-label="Views">
      {views.value.map((view) => {
        const change = changeToView(view);
        const severity = worstOf(view);
        return (
          <a key={view.key} href={hrefWith(change)} aria-current={shownView.value === view ? "page" : undefined} onClick={followLink(change, toTop)}>
            {severity && <SeverityIcon severity={severity} size={13} />}
            {view.title}
          </a>
        );
      })}
    </nav>
  );
}
