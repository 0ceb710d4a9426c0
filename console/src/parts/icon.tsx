/** Glyphs: one shape for one meaning, everywhere. */
const SHAPES = {
  mark: "M3 2v12M13 2v12M3 8h10",
  now: "M1.5 8.5h3l2-5 3 9 2-4h3",
  failures: "M8 2 14.5 13.5h-13zM8 6.5v3M8 11.6v.1",
  redrive: "M13.5 8A5.5 5.5 0 1 1 11.6 3.8M13.5 1.8v3h-3",
  tasks: "M2 4h12M2 8h12M2 12h8",
  queues: "M2 3.5h8M2 8h12M2 12.5h5M13 3.5v.01",
  workers:
    "M5 3.5h6A1.5 1.5 0 0 1 12.5 5v6a1.5 1.5 0 0 1-1.5 1.5H5A1.5 1.5 0 0 1 3.5 11V5A1.5 1.5 0 0 1 5 3.5zM6 1.5v2M10 1.5v2M6 12.5v2M10 12.5v2M1.5 6h2M1.5 10h2M12.5 6h2M12.5 10h2",
  schedules: "M14 8A6 6 0 1 1 2 8a6 6 0 0 1 12 0zM8 4.5V8l2.3 1.5",
  webhooks: "M14 2 1.8 6.8l4.7 2.4L9 14zM14 2 6.5 9.2",
  audit: "M4 1.8h6l3 3v9.4H4zM6.5 7.5h4M6.5 10.5h4M9.8 1.8v3.2H13",
  approvals:
    "M8.7 5a2.7 2.7 0 1 1-5.4 0 2.7 2.7 0 0 1 5.4 0zM1.5 13.5c0-2.6 2-4.2 4.5-4.2 1 0 2 .3 2.7.8M9.5 12.2l1.8 1.8 3.2-3.6",
  health: "M8 13.6S2 10.2 2 6a3.2 3.2 0 0 1 6-1.6A3.2 3.2 0 0 1 14 6c0 4.2-6 7.6-6 7.6z",
  more: "M3 8h.01M8 8h.01M13 8h.01",
  search: "M11.5 7a4.5 4.5 0 1 1-9 0 4.5 4.5 0 0 1 9 0zM10.5 10.5 14 14",
  theme: "M13.8 8A5.8 5.8 0 1 1 2.2 8a5.8 5.8 0 0 1 11.6 0zM8 2.2v11.6",
  warn: "M8 2.2 14.3 13.2H1.7zM8 6.6v3M8 11.4v.05",
  ring: "M13.5 8a5.5 5.5 0 1 1-11 0 5.5 5.5 0 0 1 11 0z",
  clock: "M14 8A6 6 0 1 1 2 8a6 6 0 0 1 12 0zM8 4.5V8l2.3 1.5",
  running: "M8 2.5a5.5 5.5 0 1 1-5.5 5.5M8 6.5a1.5 1.5 0 1 0 0 3",
  tick: "M3.2 8.4 6.6 11.8 12.8 4.6",
  done: "M13.8 8A5.8 5.8 0 1 1 2.2 8a5.8 5.8 0 0 1 11.6 0zM5.4 8.2l1.9 1.9 3.4-3.8",
  cross: "M13.8 8A5.8 5.8 0 1 1 2.2 8a5.8 5.8 0 0 1 11.6 0zM6 6l4 4M10 6l-4 4",
  slash: "M13.8 8A5.8 5.8 0 1 1 2.2 8a5.8 5.8 0 0 1 11.6 0zM4.2 11.8l7.6-7.6",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  play: "M4.5 3v10l8-5z",
  ignored: "M13.8 8A5.8 5.8 0 1 1 2.2 8a5.8 5.8 0 0 1 11.6 0zM5.3 8h5.4",
  regressed: "M5.5 3 2.5 6l3 3M2.5 6h7a4 4 0 0 1 0 8H7",
  lock: "M4 7h8v6.5H4zM5.5 7V5a2.5 2.5 0 0 1 5 0v2",
  stop: "M3.5 3.5h9v9h-9z",
  lost: "M2 2l12 12M3 7a8 8 0 0 1 4-2M13 7a8 8 0 0 0-2.5-1.6M5.5 9.8a4 4 0 0 1 3-1M8 12.5v.05",
  late: "M3 5h10M3 11h10M5.5 2.5v11M10.5 2.5v11",
  snooze: "M5 4h6l-6 8h6",
  plus: "M8 3v10M3 8h10",
  x: "M4 4l8 8M12 4l-8 8",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
  download: "M8 2v8.5M4.5 7.5 8 11l3.5-3.5M2.5 13.5h11",
  edit: "M3 13l.7-3L11 2.7 13.3 5 6 12.3zM9.5 4.2l2.3 2.3",
  info: "M13.8 8A5.8 5.8 0 1 1 2.2 8a5.8 5.8 0 0 1 11.6 0zM8 7.4v3.4M8 5.2v.05",
  database:
    "M3 4c0-1.1 2.2-2 5-2s5 .9 5 2-2.2 2-5 2-5-.9-5-2zM3 4v8c0 1.1 2.2 2 5 2s5-.9 5-2V4M6.3 9.3l3.4 3.4M9.7 9.3l-3.4 3.4",
  trash: "M2.5 4.5h11M6 4.5v-2h4v2M4 4.5l.7 9h6.6l.7-9",
  back: "M6.5 4 2.5 8l4 4M2.5 8h11",
} as const;

export type IconName = keyof typeof SHAPES;

export function Icon({
  name,
  small = false,
  bad = false,
}: {
  name: IconName;
  small?: boolean;
  bad?: boolean;
}) {
  return (
    <svg
      className={`icon${small ? " small" : ""}${bad ? " bad" : ""}`}
      viewBox="0 0 16 16"
      aria-hidden="true"
    >
      <path d={SHAPES[name]} />
    </svg>
  );
}
