// A command with a button that copies it.

import { useSignal } from "@preact/signals";
import { Fragment } from "preact";
import { useRef } from "preact/hooks";
import { Icon } from "./icons.tsx";

interface Properties {
  label: string;
  line: string;
  /** What the checks find the words and the button by. */
  words: string;
  button: string;
}

export function Command({ label, line, words, button }: Properties) {
  const text = useRef<HTMLElement>(null);
  const said = useSignal("");
  const select = () => {
    if (!text.current) return;
    getSelection()?.selectAllChildren(text.current);
  };
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(line);
      said.value = "Copied";
    } catch {
      // No permission, or not a secure context: the selected text can be copied by key.
      select();
      said.value = "Selected: press Ctrl+C";
    }
    setTimeout(() => (said.value = ""), 4000);
  };
  return (
    <div class="command">
      <span class="command-label">{label}</span>
      <code ref={text} data-testid={words} class="untrusted">
        {line.split(" ").map((word, at) => (
          <Fragment key={at}>
            {at > 0 && " "}
            <span class={word.startsWith("--") ? "flag" : undefined}>{word}</span>
          </Fragment>
        ))}
      </code>
      <button type="button" class="button" data-testid={button} onClick={() => void copy()}>
        <Icon name={said.value === "Copied" ? "done" : "copy"} />
        {said.value === "" ? "Copy" : said.value}
      </button>
      <span class="visually-hidden" role="status">
        {said.value}
      </span>
    </div>
  );
}
