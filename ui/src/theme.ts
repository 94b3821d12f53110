// Light and dark: the system's choice unless somebody chose otherwise.

import { computed, signal } from "@preact/signals";

export type Theme = "light" | "dark";
export type ThemeChoice = "auto" | Theme;

const THEME_KEY = "surefoot.theme";
const darkQuery = matchMedia("(prefers-color-scheme: dark)");
const systemDark = signal(darkQuery.matches);
darkQuery.addEventListener("change", (event) => (systemDark.value = event.matches));

function storedTheme(): ThemeChoice {
  try {
    const stored = localStorage.getItem(THEME_KEY);
    return stored === "light" || stored === "dark" ? stored : "auto";
  } catch {
    // Storage can be forbidden; then the choice lasts as long as the page.
    return "auto";
  }
}

export const themeChoice = signal<ThemeChoice>(storedTheme());
export const theme = computed<Theme>(() =>
  themeChoice.value === "auto" ? (systemDark.value ? "dark" : "light") : themeChoice.value,
);

export function chooseTheme(choice: ThemeChoice): void {
  themeChoice.value = choice;
  try {
    localStorage.setItem(THEME_KEY, choice);
  } catch {
    // As above.
  }
}
