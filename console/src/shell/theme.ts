/** Light or dark: as the system, unless somebody chose. */
import { useState } from "react";

export type Theme = "system" | "light" | "dark";
const KEY = "holdfast.theme";
const ORDER: readonly Theme[] = ["system", "light", "dark"];

function chosen(): Theme {
  const kept = localStorage.getItem(KEY);
  return kept === "light" || kept === "dark" ? kept : "system";
}

/** Put what was chosen on the page; before anything is drawn, so that nothing flashes. */
export function applyTheme(theme: Theme = chosen()): void {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

export function useTheme(): [Theme, () => void] {
  const [theme, setTheme] = useState<Theme>(chosen);
  return [
    theme,
    () => {
      const next = ORDER[(ORDER.indexOf(theme) + 1) % ORDER.length] ?? "system";
      localStorage.setItem(KEY, next);
      applyTheme(next);
      setTheme(next);
    },
  ];
}
