// Memory over the step: kinds stacked, phases marked, the peak named; the pointer or the arrow keys read any point.
import { clear, colour, el, fit } from "./dom";
import { kindColour } from "./palette";
import type { Store } from "./state";
import type { Tree } from "./tree";
import type { MemoryCurve } from "./types";
import { ticks } from "./layout";
import { si, tick } from "./units";

const HEIGHT = 300;
const [LEFT, RIGHT, TOP, BOTTOM] = [64, 10, 40, 22];

export function curveView(curve: MemoryCurve, tree: Tree | null, store: Store): HTMLElement {
  const totals = curve.at.map((_, i) => curve.bytes.reduce((sum, column) => sum + column[i]!, 0));
  const top = totals[curve.peak]!;
  const last = Math.max(1, curve.at[curve.at.length - 1]!);
  const place = (i: number) => {
    const module = curve.modules[i]!;
    const path = tree && module >= 0 ? tree.modules.path[module] || "the model" : "";
    return [curve.phases[i] || "before the step", path].filter(Boolean).join(" of ");
  };
  const said = `Memory over the step. Peak ${si(top, "B")} in ${place(curve.peak)}. The arrow keys read single points, Enter goes to the module.`;
  const canvas = el("canvas", { role: "application", "aria-roledescription": "chart", tabindex: "0", "aria-label": said }) as HTMLCanvasElement;
  const tip = el("div", { class: "tip", hidden: true, role: "status" });
  const box = el("div", { class: "canvas-box" }, canvas, tip);
  let shown: number | null = null;

  const width = () => box.clientWidth - LEFT - RIGHT;
  const x = (i: number) => LEFT + (curve.at[i]! / last) * width();
  const y = (value: number) => HEIGHT - BOTTOM - (value / (top || 1)) * (HEIGHT - TOP - BOTTOM);

  const draw = () => {
    if (box.clientWidth < LEFT + RIGHT) return;
    const ink = fit(canvas, box.clientWidth, HEIGHT);
    ink.font = "12px system-ui, sans-serif";
    axis(ink);
    const base = new Array<number>(totals.length).fill(0);
    curve.kinds.forEach((kind, k) => {
      const over = base.map((value, i) => value + curve.bytes[k]![i]!);
      ink.beginPath();
      steps(ink, base, false);
      steps(ink, over, true);
      ink.closePath();
      ink.fillStyle = kindColour(kind);
      ink.fill();
      over.forEach((value, i) => { base[i] = value; });
    });
    phases(ink);
    mark(ink, curve.peak, `peak ${si(top, "B")}, ${place(curve.peak)}`);
    if (shown !== null) mark(ink, shown, "");
  };

  /** A value holds until the next allocation or release. */
  const steps = (ink: CanvasRenderingContext2D, values: number[], back: boolean) => {
    const order = values.map((_, i) => (back ? values.length - 1 - i : i));
    for (const i of order) {
      const ends = i + 1 < values.length ? x(i + 1) : LEFT + width();
      const corners = [x(i), ends];
      for (const at of back ? corners.reverse() : corners) ink.lineTo(at, y(values[i]!));
    }
  };

  const axis = (ink: CanvasRenderingContext2D) => {
    ink.strokeStyle = colour("line");
    ink.fillStyle = colour("soft");
    ink.textBaseline = "middle";
    ink.textAlign = "right";
    for (const value of ticks(0, top, 5)) {
      ink.beginPath();
      ink.moveTo(LEFT, y(value));
      ink.lineTo(LEFT + width(), y(value));
      ink.stroke();
      ink.fillText(tick(si(value, "B")), LEFT - 6, y(value));
    }
    ink.textBaseline = "alphabetic";
    ink.fillText("allocations and releases in their order →", LEFT + width(), HEIGHT - 6);
  };

  /** A line where a phase begins, and its name where there is room. */
  const phases = (ink: CanvasRenderingContext2D) => {
    let first = 1;
    for (let i = 2; i <= totals.length; i += 1) {
      if (i < totals.length && curve.phases[i] === curve.phases[first]) continue;
      const [from, to] = [x(first - 1), i < totals.length ? x(i - 1) : LEFT + width()];
      const name = curve.phases[first] ?? "";
      if (ink.measureText(name).width + 8 < to - from) {
        ink.strokeStyle = ink.fillStyle = colour("soft");
        ink.textAlign = "left";
        ink.fillText(name, from + 4, TOP - 8);
        ink.setLineDash([2, 3]);
        ink.beginPath();
        ink.moveTo(from, TOP - 18);
        ink.lineTo(from, HEIGHT - BOTTOM);
        ink.stroke();
        ink.setLineDash([]);
      }
      first = i;
    }
  };

  const mark = (ink: CanvasRenderingContext2D, i: number, text: string) => {
    ink.strokeStyle = ink.fillStyle = colour("ink");
    ink.beginPath();
    ink.moveTo(x(i), text ? 16 : TOP);
    ink.lineTo(x(i), HEIGHT - BOTTOM);
    ink.stroke();
    ink.beginPath();
    ink.arc(x(i), y(totals[i]!), 3.5, 0, 7);
    ink.fill();
    const room = ink.measureText(text).width;
    ink.textAlign = "left";
    ink.fillText(text, Math.max(0, Math.min(x(i) - room / 2, box.clientWidth - room)), 12);
  };

  const show = (i: number | null) => {
    shown = i;
    tip.hidden = i === null;
    draw();
    if (i === null) return;
    clear(tip);
    tip.append(el("b", {}, si(totals[i]!, "B")), ` ${place(i)}`);
    [...curve.kinds].reverse().forEach((kind) => {
      const bytes = curve.bytes[curve.kinds.indexOf(kind)]![i]!;
      if (bytes) tip.append(el("div", { class: "part" }, el("i", { style: `background:${kindColour(kind)}` }), `${kind} ${si(bytes, "B")}`));
    });
    const room = box.clientWidth - tip.offsetWidth - 4;
    tip.style.left = `${Math.max(0, x(i) + 12 > room ? x(i) - tip.offsetWidth - 12 : x(i) + 12)}px`;
    tip.style.top = `${TOP}px`;
  };
  const go = (i: number | null) => {
    const module = i === null ? -1 : curve.modules[i]!;
    if (tree && module >= 0) store.set({ tab: "modules", focus: tree.home(module).key });
  };
  const under = (event: MouseEvent) => {
    const at = ((event.offsetX - LEFT) / width()) * last;
    let i = 0;
    while (i + 1 < curve.at.length && curve.at[i + 1]! <= at) i += 1;
    return i;
  };
  canvas.addEventListener("mousemove", (event) => show(under(event)));
  canvas.addEventListener("mouseleave", () => show(null));
  canvas.addEventListener("click", (event) => go(under(event)));
  canvas.addEventListener("blur", () => show(null));
  canvas.addEventListener("keydown", (event) => {
    const end = totals.length - 1;
    const now = shown ?? curve.peak;
    const to: Record<string, number> = { ArrowLeft: Math.max(0, now - 1), ArrowRight: Math.min(end, now + 1), Home: 0, End: end };
    if (event.key === "Enter") go(now);
    else if (event.key in to) show(shown === null ? curve.peak : to[event.key]!);
    else return;
    event.preventDefault();
  });
  new ResizeObserver(draw).observe(box);
  const legend = el("div", { class: "legend" }, ...[...curve.kinds].reverse().map((kind) => el("span", {}, el("i", { style: `background:${kindColour(kind)}` }), kind)));
  return el("div", {}, el("h2", {}, "Over the step"), box, legend);
}
