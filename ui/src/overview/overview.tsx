// The first view: the one sentence, a card per room, and every finding.

import { followLink, hrefWith } from "../address.ts";
import { FindingList, toTop, UnknownFinding } from "../components/findings.tsx";
import { PastState } from "../components/past.tsx";
import { SeverityBadge, SeverityIcon } from "../components/severity.tsx";
import { headline, rooms, type RoomShown } from "../findings.ts";
import { asSentence, count } from "../format.ts";
import { byUrgency, isAboveOk, known } from "../severity.ts";
import { overview, past } from "../state.ts";
import { viewOf } from "../view.ts";
import { SmallChart } from "./chart.tsx";
import { DeedsCard } from "./deeds.tsx";
import "./overview.css";

function HeadlineBar() {
  const said = headline.value;
  if (!said) return null;
  const severity = known(said.severity);
  return (
    <section class={`headline ${severity}`} data-testid="headline" data-severity={severity} aria-label="Headline" role="status">
      <SeverityBadge severity={severity} size={20} />
      <div>
        <p class="untrusted">{said.sentence}</p>
        {said.lost_time && <p class="untrusted beside" data-testid="lost-time">{said.lost_time}</p>}
      </div>
    </section>
  );
}

/** What the card of a room says in one sentence, and of how many others there are. */
function Worst({ room }: { room: RoomShown }) {
  if (!room.isWatched) return <p class="room-sentence untrusted muted" data-testid="why">{asSentence(room.why)}</p>;
  const [worst] = room.findings;
  if (!worst) return <p class="room-sentence muted">{past.value ? "No finding is kept of this range; whether it was watched then is not known." : "Nothing was found yet."}</p>;
  const others = room.findings.filter(({ finding }) => isAboveOk(finding) && finding !== worst.finding).length + room.leftOut;
  return (
    <>
      <p class="room-sentence untrusted">
        {worst.finding.sentence}
      </p>
      {others > 0 && <p class="room-others muted">{others === 1 ? "One more finding." : `${count(others)} more findings.`}</p>}
    </>
  );
}

function RoomCard({ room }: { room: RoomShown }) {
  const view = viewOf(room.room);
  const id = `room-${room.room}`;
  const change = view && { view: view.key, finding: null };
  return (
    <section class="card room" data-testid="room" data-room={room.room} data-severity={room.isWatched ? room.severity : "unwatched"} aria-labelledby={id}>
      <div class="room-head">
        <h2 id={id}>
          {view && change ? (
            <a href={hrefWith(change)} onClick={followLink(change, toTop)}>
              {room.title}
            </a>
          ) : (
            <span class="untrusted">{room.title}</span>
          )}
        </h2>
        {room.isWatched ? room.severity && <SeverityBadge severity={room.severity} size={15} /> : <span class="severity muted">Not watched</span>}
      </div>
      <Worst room={room} />
      {room.chart && <SmallChart chart={room.chart} isPast={past.value !== null} />}
    </section>
  );
}

function AllFindings({ shown }: { shown: readonly RoomShown[] }) {
  const all = shown.flatMap(({ findings }) => findings);
  const findings = all.filter(({ finding }) => isAboveOk(finding)).sort((a, b) => byUrgency(a.finding, b.finding));
  const leftOut = shown.reduce((sum, room) => sum + room.leftOut, 0);
  const unwatched = shown.filter(({ isWatched }) => !isWatched);
  return (
    <section class="card" data-testid="findings" aria-labelledby="findings-title">
      <div class="card-head">
        <h2 id="findings-title">{past.value ? "Findings that held then" : "Findings"}</h2>
        {findings.length > 0 && (
          <p class="muted figures">
            {count(findings.length + leftOut)}; the worst first{leftOut > 0 && `, ${count(leftOut)} not listed`}
          </p>
        )}
      </div>
      {findings.length > 0 ? (
        <FindingList findings={findings} />
      ) : (
        <p class="nothing-found" data-testid="nothing-found">
          {past.value === null && <SeverityIcon severity="ok" size={18} />}
          {past.value ? "The history holds no finding above OK of this range." : "There is no finding: nothing that is watched here needs a look."}
        </p>
      )}
      <UnknownFinding findings={all} />
      {unwatched.length > 0 && (
        <p class="muted aside">
          Not watched: {unwatched.map(({ title }) => title).join(", ")}. {unwatched.length === 1 ? "Its card says" : "Their cards say"} why.
        </p>
      )}
    </section>
  );
}

/** Where to look first in a demo. */
function Tour() {
  const tour = overview.value?.tour ?? [];
  if (tour.length === 0 || past.value) return null;
  return (
    <section class="card" data-testid="tour" aria-labelledby="tour-title">
      <h2 id="tour-title">Where to look</h2>
      <ol class="tour">
        {tour.map(({ view, sentence }) => {
          const change = { view, finding: null };
          return (
            <li key={view}>
              <a href={hrefWith(change)} onClick={followLink(change, toTop)}>
                {sentence}
              </a>
            </li>
          );
        })}
      </ol>
    </section>
  );
}

export function Overview() {
  const shown = rooms.value;
  return (
    <>
      <PastState>The findings that held in this range, as the history kept them.</PastState>
      {shown && (
        <>
          <HeadlineBar />
          <Tour />
          <div class="rooms" data-testid="rooms">
            {shown.map((room) => (
              <RoomCard key={room.room} room={room} />
            ))}
          </div>
          <AllFindings shown={shown} />
          <DeedsCard />
        </>
      )}
    </>
  );
}
