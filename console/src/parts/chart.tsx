/** What ended over time: stacked bars, failed on the base line, where the eye compares best. */
import { useEffect, useRef, useState } from "react";
import uPlot from "uplot";

export interface Bar {
  at: number;
  failed: number;
  retried: number;
  completed: number;
}

export interface Mark {
  at: number;
  label: string;
  title: string;
  filled: boolean;
}

interface Drawn {
  bars: readonly Bar[];
  from: number;
  until: number;
  step: number;
  marks?: readonly Mark[];
  /** Where the incident began. */
  since?: number | null;
  text: string;
  height?: number;
}

const SERIES = ["--done", "--amber-solid", "--red-solid"] as const;

function colour(name: string): string {
  // `light-dark()` is only resolved where it is used.
  const probe = document.createElement("i");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

/** A row for every stretch, also those in which nothing ended. */
function filled({ bars, from, until, step }: Drawn): uPlot.AlignedData {
  const known = new Map(bars.map((bar) => [bar.at, bar]));
  const at: number[] = [];
  const stacked: [number[], number[], number[]] = [[], [], []];
  const perMinute = 60 / step;
  for (let place = Math.ceil(from / step) * step; place <= until; place += step) {
    const bar = known.get(place);
    const failed = (bar?.failed ?? 0) * perMinute;
    const retried = (bar?.retried ?? 0) * perMinute;
    at.push(place);
    stacked[0].push(failed + retried + (bar?.completed ?? 0) * perMinute);
    stacked[1].push(failed + retried);
    stacked[2].push(failed);
  }
  return [at, ...stacked];
}

export function Chart(drawn: Drawn) {
  const { from, until, marks = [], since, text, height = 260 } = drawn;
  const box = useRef<HTMLDivElement>(null);
  const [theme, setTheme] = useState(0);
  const [area, setArea] = useState<{ left: number; width: number } | null>(null);

  useEffect(() => {
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const change = () => setTheme((before) => before + 1);
    dark.addEventListener("change", change);
    const watch = new MutationObserver(change);
    watch.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    return () => {
      dark.removeEventListener("change", change);
      watch.disconnect();
    };
  }, []);

  // biome-ignore lint/correctness/useExhaustiveDependencies: the theme is what it is drawn in
  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const bars = uPlot.paths.bars?.({ size: [0.86, 40], align: 1 });
    const axis = {
      stroke: colour("--ink-3"),
      font: `11px ${getComputedStyle(document.body).fontFamily}`,
      ticks: { show: false },
    };
    const plot = new uPlot(
      {
        width: element.clientWidth,
        height,
        padding: [26, 20, 0, 0],
        legend: { show: false },
        cursor: { show: false },
        tzDate: (at) => uPlot.tzDate(new Date(at * 1_000), "Etc/UTC"),
        scales: {
          x: { time: true, range: () => [from, until] },
          y: { range: (_, __, most) => [0, Math.max(1, most * 1.05)] },
        },
        axes: [
          { ...axis, size: 30, grid: { show: false }, values: clocks(until - from) },
          { ...axis, grid: { stroke: colour("--line"), width: 1 }, size: 44 },
        ],
        series: [
          {},
          ...SERIES.map((name) => ({
            fill: colour(name),
            stroke: "transparent",
            width: 0,
            paths: bars,
            points: { show: false },
          })),
        ],
        hooks: {
          drawClear: [
            (one) => {
              if (since === null || since === undefined || since < from) return;
              one.ctx.save();
              one.ctx.globalAlpha = 0.06;
              one.ctx.fillStyle = colour("--red-solid");
              const left = one.valToPos(since, "x", true);
              one.ctx.fillRect(left, one.bbox.top, one.bbox.left + one.bbox.width - left, one.bbox.height);
              one.ctx.restore();
            },
          ],
          draw: [
            (one) => {
              const ratio = devicePixelRatio;
              setArea({ left: one.bbox.left / ratio, width: one.bbox.width / ratio });
            },
          ],
        },
      },
      filled(drawn),
      element,
    );
    const resize = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height }));
    resize.observe(element);
    return () => {
      resize.disconnect();
      plot.destroy();
    };
  }, [drawn.bars, from, until, drawn.step, since, height, theme]);

  return (
    <div className="chart">
      <div ref={box} role="img" aria-label={text} />
      {area !== null && (
        <div className="marks">
          {marks
            .filter((mark) => mark.at >= from && mark.at <= until)
            .map((mark) => (
              <span
                key={`${mark.label}-${mark.at}`}
                className="mark"
                style={{ left: `${area.left + ((mark.at - from) / (until - from)) * area.width}px` }}
                title={mark.title}
              >
                <span className={`badge${mark.filled ? " filled" : ""}`}>{mark.label}</span>
              </span>
            ))}
        </div>
      )}
    </div>
  );
}

function clocks(span: number): uPlot.Axis["values"] {
  const two = (value: number) => String(value).padStart(2, "0");
  return (_, splits) =>
    splits.map((at) => {
      const value = new Date(at * 1_000);
      return span > 2 * 86_400
        ? `${value.getUTCDate()}.${value.getUTCMonth() + 1}.`
        : `${two(value.getUTCHours())}:${two(value.getUTCMinutes())}`;
    });
}
