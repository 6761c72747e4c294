// Numbers as text, as flopsight's Python writes them: three significant digits.
import shared from "./shared.json";
import type { Metric, Num } from "./types";

const TIMES = shared.times as [number, string][];

function digits(value: number): string {
  if (!value) return "0";
  const rounded = Number(value.toExponential(2)); // first, so that 9.996 is seen as the 10.0 it becomes
  return rounded.toFixed(Math.max(0, 2 - Math.floor(Math.log10(Math.abs(rounded)))));
}

export function si(value: number, unit = ""): string {
  let step = 0;
  while (Math.abs(value) >= 999.5 && step < shared.prefixes.length - 1) {
    value /= 1000;
    step += 1;
  }
  return `${!step && Number.isInteger(value) ? value : digits(value)} ${shared.prefixes[step]}${unit}`.trimEnd();
}

export function seconds(value: number): string {
  const [scale, unit] = (value ? TIMES.find(([times]) => Math.abs(value) * times >= 0.9995) : TIMES[0]) ?? TIMES[TIMES.length - 1]!;
  return `${digits(value * scale)} ${unit}`;
}

/** A number on an axis, without zeros that say nothing. */
export function tick(text: string): string {
  return text.replace(/(\.\d*?)0+(?!\d)/, "$1").replace(/\.(?!\d)/, "");
}

export function percent(value: number): string {
  if (value > 0 && value < 0.0005) return "<0.1%";
  const text = (value * 100).toFixed(1);
  return text === "100.0" ? "100%" : `${text}%`;
}

/** A change as a share, always with its sign. */
export function growth(value: number): string {
  if (!value) return "=";
  return `${value > 0 ? "+" : "−"}${percent(Math.abs(value))}`;
}

/** A difference, with its sign. */
export function change(value: Num, unit: Metric["unit"]): string {
  return `${value !== null && value > 0 ? "+" : ""}${say(value, unit)}`;
}

/** A value of a metric; one that says what changed has its sign. */
export function told(value: Num, metric: Metric): string {
  return metric.id.startsWith("more_") ? change(value, metric.unit) : say(value, metric.unit);
}

export function say(value: Num | undefined, unit: Metric["unit"]): string {
  if (value === null || value === undefined) return "";
  if (unit === "bytes") return si(value, "B");
  if (unit === "seconds") return seconds(value);
  if (unit === "rate") return si(value, "FLOP/s");
  if (unit === "intensity") return digits(value);
  if (unit === "share") return percent(value);
  return si(value);
}
