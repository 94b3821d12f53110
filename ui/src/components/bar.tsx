// Bars made of parts in the colours of their kinds.

export interface Segment {
  key: string;
  className: string;
  value: number;
}

/** Parts of a whole side by side. Decoration: the numbers stand beside it. */
export function Bar({ segments, full }: { segments: Segment[]; full: number }) {
  return (
    <span class="bar" aria-hidden="true">
      {segments
        .filter((segment) => segment.value > 0)
        .map((segment) => (
          <span
            key={segment.key}
            class={segment.className}
            style={{ width: `${Math.min(100, (segment.value / full) * 100)}%` }}
          />
        ))}
    </span>
  );
}
