/** The language of the console: the browser's, unless somebody chose. */
import { createContext, type ReactNode, useContext, useEffect, useState } from "react";
import { en } from "./en";
import type { Language } from "./format";
import { zh } from "./zh";

type Widened<T> = T extends (...values: infer V) => string
  ? (...values: V) => string
  : T extends string
    ? string
    : { readonly [K in keyof T]: Widened<T[K]> };
export type Text = Widened<typeof en>;

const TEXTS: Record<Language, Text> = { en, zh };
const KEY = "holdfast.language";

interface Spoken {
  text: Text;
  language: Language;
  speak: (language: Language) => void;
}

const Spoken = createContext<Spoken | null>(null);

function first(): Language {
  const chosen = localStorage.getItem(KEY);
  if (chosen === "en" || chosen === "zh") return chosen;
  return navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en";
}

export function Speaking({ children }: { children: ReactNode }) {
  const [language, setLanguage] = useState<Language>(first);
  useEffect(() => {
    document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
  }, [language]);
  const speak = (chosen: Language) => {
    localStorage.setItem(KEY, chosen);
    setLanguage(chosen);
  };
  return <Spoken value={{ text: TEXTS[language], language, speak }}>{children}</Spoken>;
}

export function useText(): Spoken {
  const spoken = useContext(Spoken);
  if (spoken === null) throw new Error("nothing is spoken here");
  return spoken;
}
