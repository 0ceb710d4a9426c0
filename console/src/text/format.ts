/** Numbers, times and durations as the console writes them, in both languages. */

export type Language = "en" | "zh";

const thousands = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

/** A count; past what was counted it is a lower bound. */
export function count(value: number, exact = true): string {
  return exact
    ? thousands.format(value)
    : `≥ ${thousands.format(Math.floor(value / 10_000) * 10_000 || value)}`;
}

/** A share as a percentage, with as many digits as tell something. */
export function percent(share: number): string {
  const value = share * 100;
  const digits = value < 0.005 || value >= 99.95 ? 0 : value < 0.1 ? 2 : 1;
  return `${value.toFixed(digits)} %`;
}

/** A rate a minute, with its sign where it is a change. */
export function perMinute(value: number, signed = false): string {
  const size = Math.abs(value);
  const text = size < 10 ? size.toFixed(1) : thousands.format(size);
  return `${value < 0 ? "−" : signed ? "+" : ""}${text}/min`;
}

/** `88 ms`, `41.2 s`, `11 m 08 s`, `3 h 12 m`, `6 d`. */
export function duration(seconds: number): string {
  if (seconds < 1) return `${Math.round(seconds * 1_000)} ms`;
  if (seconds < 59.95)
    return `${seconds < 10 ? seconds.toFixed(1) : seconds.toFixed(seconds < 20 ? 1 : 0)} s`;
  const whole = Math.round(seconds);
  if (whole < 3_600) return `${Math.floor(whole / 60)} m ${String(whole % 60).padStart(2, "0")} s`;
  if (whole < 86_400)
    return `${Math.floor(whole / 3_600)} h ${String(Math.floor((whole % 3_600) / 60)).padStart(2, "0")} m`;
  return `${Math.floor(whole / 86_400)} d ${Math.floor((whole % 86_400) / 3_600)} h`;
}

const two = (value: number) => String(value).padStart(2, "0");

/** Clock time today, date before, both in UTC, which the bar names once. */
export function moment(at: Date, now: Date, language: Language, seconds = true): string {
  const clock = `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}${seconds ? `:${two(at.getUTCSeconds())}` : ""}`;
  if (at.toISOString().slice(0, 10) === now.toISOString().slice(0, 10)) return clock;
  return `${day(at, now, language)}`;
}

/** `13 Apr`, with its year where that is another. */
export function day(at: Date, now: Date, language: Language): string {
  const sameYear = at.getUTCFullYear() === now.getUTCFullYear();
  return new Intl.DateTimeFormat(language === "zh" ? "zh-CN" : "en-GB", {
    day: "numeric",
    month: "short",
    year: sameYear ? undefined : "numeric",
    timeZone: "UTC",
  }).format(at);
}

/** The end of an id: the beginning of a UUIDv7 is a clock and looks alike. */
export function tail(id: string): string {
  return `…${id.slice(-6)}`;
}
