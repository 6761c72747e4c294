// The roofline: intensity against rate on two logarithmic axes, the device's ceilings above, a range for what fusion may win.
import { clear, el, svg } from "./dom";
import type { Store } from "./state";
import type { Tree } from "./tree";
import type { Roofline } from "./types";
import { seconds, si } from "./units";

const [WIDEST, NARROWEST, LEFT, BOTTOM, TOP, RIGHT] = [960, 340, 74, 44, 24, 20];
const MOST_POINTS = 1500;

export function rooflineView(data: Roofline, tree: Tree, store: Store): HTMLElement {
  // As wide as the page where that is narrow, so that letters keep their size.
  const WIDTH = Math.max(NARROWEST, Math.min(WIDEST, document.documentElement.clientWidth - 24));
  const HEIGHT = WIDTH < 600 ? 340 : 460;
  const points = [...data.points].sort((a, b) => (b.seconds ?? 0) - (a.seconds ?? 0)).slice(0, MOST_POINTS);
  const best = Math.max(...data.peaks.map((peak) => peak.flops));
  const roof = (intensity: number, peak: number) => Math.min(peak, intensity * data.bandwidth);
  const rates = points.map((point) => point.rate ?? roof(point.low, point.peak ?? best)).filter((rate) => rate > 0);
  const xs = points.flatMap((point) => [point.low, point.high]).filter((x) => x > 0);
  const ridges = data.peaks.map((peak) => peak.flops / data.bandwidth);
  const [x0, x1] = [Math.log10(Math.min(0.1, ...xs)), Math.log10(Math.max(...ridges, ...xs) * 3)];
  const [y0, y1] = [Math.log10(Math.min(...rates, best / 100) / 2), Math.log10(Math.max(best, ...rates) * 2)];
  const px = (x: number) => LEFT + ((Math.log10(x) - x0) / (x1 - x0)) * (WIDTH - LEFT - RIGHT);
  const py = (y: number) => TOP + (1 - (Math.log10(y) - y0) / (y1 - y0)) * (HEIGHT - TOP - BOTTOM);

  const chart = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "roofline", role: "group", "aria-label": `Roofline of ${data.device}` });
  for (let e = Math.ceil(x0); e <= x1; e += 1) {
    chart.append(svg("line", { x1: px(10 ** e), x2: px(10 ** e), y1: TOP, y2: HEIGHT - BOTTOM, class: "rule" }),
      svg("text", { x: px(10 ** e), y: HEIGHT - BOTTOM + 16, "text-anchor": "middle" }, e >= 0 ? si(10 ** e) : String(10 ** e)));
  }
  for (let e = Math.ceil(y0); e <= y1; e += 1) {
    chart.append(svg("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: py(10 ** e), y2: py(10 ** e), class: "rule" }),
      svg("text", { x: LEFT - 6, y: py(10 ** e) + 4, "text-anchor": "end" }, si(10 ** e)));
  }
  chart.append(svg("text", { x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 8, "text-anchor": "middle" }, "FLOPs per byte"),
    svg("text", { x: 14, y: HEIGHT / 2, transform: `rotate(-90 14 ${HEIGHT / 2})`, "text-anchor": "middle" }, "FLOP/s"));
  for (const peak of data.peaks) {
    const ridge = peak.flops / data.bandwidth;
    const left = 10 ** Math.max(x0, y0 - Math.log10(data.bandwidth));
    const start = Math.min(left, ridge);
    chart.append(svg("polyline", { points: `${px(start)},${py(roof(start, peak.flops))} ${px(ridge)},${py(peak.flops)} ${px(10 ** x1)},${py(peak.flops)}`, class: "roof" }),
      svg("circle", { cx: px(ridge), cy: py(peak.flops), r: 3, class: "ridge" }),
      svg("text", { x: WIDTH - RIGHT - 4, y: py(peak.flops) - 10, "text-anchor": "end" }, `${peak.name} ${si(peak.flops, "FLOP/s")}${WIDTH < 600 ? "" : `, ridge at ${si(ridge)}`}`));
  }
  const tip = el("div", { class: "soft", role: "status" }, `Point at a module. A bar reaches from the unfused to the fully fused intensity.${points.some((point) => point.rate) ? "" : " Without times on this device, every module is at the roof."}`);
  const largest = Math.max(...points.map((point) => point.seconds ?? 0), 1e-12);
  for (const point of points) {
    if (!(point.low > 0)) continue;
    const rate = point.rate ?? roof(point.low, point.peak ?? best);
    const y = py(rate);
    const group = svg("g", { class: "point", tabindex: 0, role: "button", "aria-label": tree.path(point.module) });
    if (point.high > point.low) group.append(svg("line", { x1: px(point.low), x2: px(point.high), y1: y, y2: y, class: "range" }));
    group.append(svg("circle", { cx: px(point.low), cy: y, r: 3 + 9 * Math.sqrt((point.seconds ?? 0) / largest) }));
    const say = () => {
      clear(tip);
      tip.append(el("b", {}, tree.path(point.module) || "the model"), ` (${tree.word(tree.modules.kind, point.module)}): ${si(rate, "FLOP/s")} at ${point.low.toPrecision(3)} to ${point.high.toPrecision(3)} FLOP/byte`,
        point.seconds ? `, ${seconds(point.seconds)}` : "");
    };
    group.addEventListener("mouseenter", say);
    group.addEventListener("focus", say);
    const go = () => store.set({ tab: "modules", focus: point.module });
    group.addEventListener("click", go);
    group.addEventListener("keydown", (event) => {
      if ((event as KeyboardEvent).key === "Enter") go();
    });
    chart.append(group);
  }
  return el("section", {}, el("h2", {}, `Roofline of ${data.device}`), chart as unknown as HTMLElement, tip);
}
