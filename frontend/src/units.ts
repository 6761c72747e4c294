// Numbers as text, with three significant digits.
import type { Metric, Num } from "./types";

const PREFIXES = ["", "k", "M", "G", "T", "P", "E", "Z"];

function digits(value: number): string {
  const size = Math.abs(value);
  if (size >= 99.95) return value.toFixed(0);
  if (size >= 9.995) return value.toFixed(1);
  return value.toFixed(2);
}

export function si(value: number, unit = ""): string {
  if (Number.isInteger(value) && Math.abs(value) < 1000) return unit ? `${value} ${unit}` : String(value);
  let step = 0;
  while (Math.abs(value) >= 999.5 && step < PREFIXES.length - 1) {
    value /= 1000;
    step += 1;
  }
  return `${digits(value)} ${PREFIXES[step]}${unit}`.trimEnd();
}

export function seconds(value: number): string {
  if (value === 0) return "0 s";
  const size = Math.abs(value);
  if (size >= 1) return `${digits(value)} s`;
  if (size >= 1e-3) return `${digits(value * 1e3)} ms`;
  if (size >= 1e-6) return `${digits(value * 1e6)} us`;
  return `${digits(value * 1e9)} ns`;
}

export function percent(value: number): string {
  if (value > 0 && value < 0.001) return "<0.1%";
  const text = (value * 100).toFixed(1);
  return text === "100.0" ? "100%" : `${text}%`;
}

/** A change as a share, always with its sign. */
export function growth(value: number): string {
  if (!value) return "=";
  return `${value > 0 ? "+" : "−"}${percent(Math.abs(value))}`;
}

export function say(value: Num | undefined, unit: Metric["unit"]): string {
  if (value === null || value === undefined) return "";
  if (unit === "bytes") return si(value, "B");
  if (unit === "seconds") return seconds(value);
  if (unit === "rate") return si(value, "FLOP/s");
  if (unit === "intensity") return `${digits(value)}`;
  if (unit === "share") return percent(value);
  return si(value);
}
