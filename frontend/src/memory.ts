// Memory: what was alive at the peak by kind, and where the step's curve is known, the curve.
import { colour, el, fit } from "./dom";
import { gridView } from "./grid";
import type { Store } from "./state";
import type { MemoryCurve, Report } from "./types";
import { percent, si } from "./units";

const HUES = [212, 140, 30, 285, 350, 180, 60, 250];
const paint = (place: number) => `hsl(${HUES[place % HUES.length]} 55% 58%)`;

export function memoryView(memory: NonNullable<Report["memory"]>, store: Store): HTMLElement {
  const whole = memory.kinds.reduce((sum, [, bytes]) => sum + bytes, 0) || 1;
  const bar = el("div", { class: "stack", role: "img", "aria-label": memory.kinds.map(([kind, bytes]) => `${kind} ${si(bytes, "B")}`).join(", ") });
  const legend = el("div", { class: "legend" });
  memory.kinds.forEach(([kind, bytes], place) => {
    bar.append(el("span", { style: `width:${(bytes / whole) * 100}%;background:${paint(place)}`, title: `${kind} ${si(bytes, "B")}` }));
    legend.append(el("span", {}, el("i", { style: `background:${paint(place)}` }), `${kind} ${si(bytes, "B")}, ${percent(bytes / whole)}`));
  });
  return el("section", {},
    el("h2", {}, memory.peak === null ? "Memory" : `Alive at the peak: ${si(memory.peak, "B")}`), bar, legend,
    memory.curve ? curveView(memory.curve) : null, memory.grid ? gridView(memory.grid, store) : null);
}

function curveView(curve: MemoryCurve): HTMLElement {
  const canvas = el("canvas", { role: "img", "aria-label": "Memory over the step" }) as HTMLCanvasElement;
  const box = el("div", { class: "canvas-box" }, canvas);
  const draw = () => {
    const [width, height] = [box.clientWidth, 240];
    if (!width || !curve.samples.length) return;
    const ink = fit(canvas, width, height);
    const sums = curve.samples.map((sample) => sample.reduce((sum, part) => sum + part, 0));
    const most = Math.max(...sums, 1);
    const peak = sums.indexOf(Math.max(...sums));
    const x = (i: number) => (i / Math.max(1, sums.length - 1)) * width;
    const y = (value: number) => height - 18 - (value / most) * (height - 36);
    const base = new Array<number>(sums.length).fill(0);
    curve.kinds.forEach((_, kind) => {
      ink.beginPath();
      base.forEach((value, i) => ink.lineTo(x(i), y(value)));
      for (let i = sums.length - 1; i >= 0; i -= 1) ink.lineTo(x(i), y(base[i]! + curve.samples[i]![kind]!));
      ink.closePath();
      ink.fillStyle = paint(kind);
      ink.fill();
      base.forEach((value, i) => (base[i] = value + curve.samples[i]![kind]!));
    });
    ink.strokeStyle = ink.fillStyle = colour("ink");
    ink.beginPath();
    ink.moveTo(x(peak), 14);
    ink.lineTo(x(peak), height - 18);
    ink.stroke();
    ink.font = "12px system-ui, sans-serif";
    ink.textAlign = x(peak) > width / 2 ? "right" : "left";
    ink.fillText(` peak ${si(sums[peak]!, "B")}${curve.labels[peak] ? ` in ${curve.labels[peak]}` : ""} `, x(peak), 11);
  };
  new ResizeObserver(draw).observe(box);
  return el("div", {}, el("h2", {}, "Over the step"), box);
}
