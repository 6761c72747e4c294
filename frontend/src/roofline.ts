// The roofline: intensity against rate on two logarithmic axes, a roof for each unit that ran, a point a row of the tree.
import { clear, el, svg, textWidth } from "./dom";
import { apart, type Box, placed, type Spot } from "./layout";
import type { Classes } from "./palette";
import type { Store } from "./state";
import type { Tree } from "./tree";
import type { Roofline, RooflinePoint } from "./types";
import { percent, seconds, si, tick } from "./units";

const [WIDEST, NARROWEST, LEFT, BOTTOM, TOP, RIGHT] = [1000, 340, 62, 44, 16, 14];
const [MOST_POINTS, MOST_NAMES, LINE] = [400, 14, 15];
const FONT = '600 11px system-ui, -apple-system, "Segoe UI", sans-serif';

/** A point with what places it: the rate that it reached, or that of its roof, and its weight. */
interface Placed { point: RooflinePoint; rate: number; weight: number }

export function rooflineView(data: Roofline, tree: Tree, store: Store, classes: Classes): HTMLElement {
  const best = Math.max(...data.peaks.map((peak) => peak.flops));
  const roof = (intensity: number, peak: number) => Math.min(peak, intensity * data.bandwidth);
  const points: Placed[] = data.points
    .map((point) => ({ point, rate: point.rate ?? roof(point.low, point.peak ?? best), weight: point.seconds ?? point.limit ?? 0 }))
    .filter(({ point, rate }) => point.low > 0 && rate > 0)
    .sort((a, b) => b.weight - a.weight)
    .slice(0, MOST_POINTS);
  const timed = points.some(({ point }) => point.rate !== null);
  const tip = el("div", { class: "told soft", role: "status" });
  const box = el("div", { class: "chart" });
  const draw = () => {
    const width = Math.max(NARROWEST, Math.min(WIDEST, box.clientWidth || WIDEST));
    box.replaceChildren(chart(data, points, width, roof, best, tree, store, classes, tip) as unknown as Node);
  };
  draw();
  new ResizeObserver(draw).observe(box);
  store.on((_, changed) => { if (changed.has("focus")) draw(); });
  const above = points.filter(({ point }) => point.above);
  const kinds = classes.named.filter((kind) => points.some(({ point }) => point.kind === kind));
  const legend = el("div", { class: "legend" }, ...kinds.map((kind) => el("span", {}, el("i", { style: `background:${classes.hue(kind)}` }), kind)), el("span", {}, `area: ${timed ? "time" : "limit"}`));
  const notes = [
    "A line reaches from a module's intensity, op by op, to that with everything fused.",
    data.cache ? `What fits the cache of ${si(data.cache, "B")} may stand above the roof of memory.` : "",
    timed ? "" : "No times of this device: every module stands at its roof.",
    above.length ? `${above.length} above ${above.length === 1 ? "its" : "their"} roof (marked with a ring): point at one to see why.` : "",
  ].filter(Boolean).join(" ");
  tell(tip, null, tree);
  return el("section", { class: "roofs" }, el("h2", {}, `Roofline of ${data.device}`), box, legend, tip, el("p", { class: "soft about" }, notes));
}

function tell(tip: HTMLElement, at: Placed | null, tree: Tree): void {
  clear(tip);
  if (!at) {
    tip.append("Point at a module, or move to one with Tab; a click selects it in every view.");
    return;
  }
  const { point, rate } = at;
  const group = tree.find(point.path);
  const parts = [
    `${point.rate === null ? "at most " : ""}${si(rate, "FLOP/s")} at ${point.low.toPrecision(3)} FLOPs per byte`,
    point.seconds ? `takes ${seconds(point.seconds)}` : "",
    point.limit ? `limit ${seconds(point.limit)}${point.seconds ? ` (${percent(Math.min(1, point.limit / point.seconds))} of the time)` : ""}` : "",
    point.bound ? `bound by ${point.bound}` : "",
    point.unit,
    point.above ? `above its roof: ${point.above}` : "",
  ];
  tip.append(el("b", {}, group ? tree.title(group) : point.path), ` (${point.kind}), itself: ${parts.filter(Boolean).join(", ")}`);
}

function chart(
  data: Roofline, points: Placed[], width: number, roof: (x: number, peak: number) => number, best: number, tree: Tree, store: Store, classes: Classes, tip: HTMLElement,
): SVGElement {
  const height = width < 600 ? 360 : 470;
  const timed = points.some(({ point }) => point.rate !== null);
  const ridges = data.peaks.map((peak) => peak.flops / data.bandwidth);
  const xs = [...points.flatMap(({ point }) => [point.low, point.high]), ...ridges, ...(data.cacheBandwidth ? [best / data.cacheBandwidth] : [])];
  const [x0, x1] = [Math.log10(Math.min(...xs) / 1.6), Math.log10(Math.max(...xs) * 2.5)];
  const rates = points.map(({ rate }) => rate);
  const [y0, y1] = [Math.log10(Math.max(Math.min(...rates), best * 1e-6) / 2), Math.log10(Math.max(best, ...rates) * 3)];
  const px = (x: number) => LEFT + ((Math.log10(x) - x0) / (x1 - x0)) * (width - LEFT - RIGHT);
  const py = (y: number) => TOP + (1 - (Math.log10(y) - y0) / (y1 - y0)) * (height - TOP - BOTTOM);
  const view = svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "roofline", role: "group", "aria-label": `Roofline of ${data.device}` });
  for (let e = Math.ceil(x0); e <= x1; e += 1) {
    view.append(svg("line", { x1: px(10 ** e), x2: px(10 ** e), y1: TOP, y2: height - BOTTOM, class: "rule" }),
      svg("text", { x: px(10 ** e), y: height - BOTTOM + 16, "text-anchor": "middle" }, e >= 0 ? tick(si(10 ** e)) : String(10 ** e)));
  }
  for (let e = Math.ceil(y0); e <= y1; e += 1) {
    view.append(svg("line", { x1: LEFT, x2: width - RIGHT, y1: py(10 ** e), y2: py(10 ** e), class: "rule" }),
      svg("text", { x: LEFT - 6, y: py(10 ** e) + 4, "text-anchor": "end" }, tick(si(10 ** e))));
  }
  view.append(svg("text", { x: (LEFT + width - RIGHT) / 2, y: height - 8, "text-anchor": "middle" }, "FLOPs per byte"),
    svg("text", { x: 12, y: height / 2, transform: `rotate(-90 12 ${height / 2})`, "text-anchor": "middle" }, "FLOP/s"));

  const taken: Box[] = [];
  const write = (text: string, x: number, y: number, anchor: "start" | "end") => {
    const room = textWidth(text, FONT);
    taken.push({ x: anchor === "end" ? x - room : x, y: y - 11, width: room, height: LINE });
    view.append(svg("text", { x, y, "text-anchor": anchor, class: "roof-name" }, text));
  };
  const left = 10 ** Math.max(x0, y0 - Math.log10(data.bandwidth));
  [...data.peaks].sort((a, b) => b.flops - a.flops).forEach((peak) => {
    const ridge = peak.flops / data.bandwidth;
    view.append(svg("polyline", { points: `${px(left)},${py(roof(left, peak.flops))} ${px(ridge)},${py(peak.flops)} ${px(10 ** x1)},${py(peak.flops)}`, class: "roof" }),
      svg("circle", { cx: px(ridge), cy: py(peak.flops), r: 3, class: "ridge" }));
    taken.push({ x: px(ridge), y: py(peak.flops) - 1, width: width - RIGHT - px(ridge), height: 2 }); // no name on the line
    write(`${peak.name} ${si(peak.flops, "FLOP/s")}${width < 600 ? "" : `, ridge at ${si(ridge)}`}`, width - RIGHT - 4, py(peak.flops) - (timed ? 5 : 22), "end");
  });
  if (data.cacheBandwidth) {
    const low = 10 ** Math.max(x0, y0 - Math.log10(data.cacheBandwidth));
    const ridge = best / data.cacheBandwidth;
    view.append(svg("polyline", { points: `${px(low)},${py(low * data.cacheBandwidth)} ${px(ridge)},${py(best)}`, class: "roof cached" }));
    write(`cache ${si(data.cacheBandwidth, "B/s")}`, Math.max(LEFT + 90, px(ridge) - 6), py(best) - 5, "end");
  }
  // along the slope, above its middle
  const [lowest, knee] = [Math.log10(left), Math.log10(Math.max(...ridges))];
  const [mx, slope] = [10 ** (lowest + (knee - lowest) * 0.5), (-Math.atan2(py(left * data.bandwidth) - py(best), px(best / data.bandwidth) - px(left)) * 180) / Math.PI];
  const [cx, cy] = [px(mx), py(mx * data.bandwidth) - 7];
  view.append(svg("text", { x: cx, y: cy, transform: `rotate(${slope.toFixed(1)} ${cx} ${cy})`, "text-anchor": "middle", class: "roof-name" }, `memory ${si(data.bandwidth, "B/s")}`));
  taken.push({ x: cx - 62, y: cy - 40, width: 124, height: 80 });

  const largest = Math.max(...points.map(({ weight }) => weight), 1e-15);
  const radius = ({ weight }: Placed) => 3 + 15 * Math.sqrt(weight / largest);
  const chosen = store.state.focus;
  for (const at of points) {
    const { point, rate } = at;
    const group = tree.find(point.path);
    const name = group ? tree.title(group) : point.path;
    const dot = svg("g", { class: `point${point.path === chosen ? " chosen" : ""}${point.above ? " above" : ""}`, tabindex: 0, role: "button", "aria-label": `${name}, ${si(rate, "FLOP/s")}`, "data-path": point.path, style: `--hue:${classes.hue(point.kind)}` });
    if (point.high > point.low * 1.02) dot.append(svg("line", { x1: px(point.low), x2: px(point.high), y1: py(rate), y2: py(rate), class: "range" }));
    if (point.above) dot.append(svg("circle", { cx: px(point.low), cy: py(rate), r: radius(at) + 3, class: "ring" }));
    dot.append(svg("circle", { cx: px(point.low), cy: py(rate), r: radius(at) }));
    for (const event of ["mouseenter", "focus"]) dot.addEventListener(event, () => tell(tip, at, tree));
    const go = () => { store.set({ focus: point.path }); };
    dot.addEventListener("click", go);
    dot.addEventListener("keydown", (event) => {
      const { key } = event as KeyboardEvent;
      if (key !== "Enter" && key !== " ") return;
      event.preventDefault();
      go();
      (document.querySelector(`.point[data-path="${CSS.escape(point.path)}"]`) as SVGElement | null)?.focus();
    });
    view.append(dot);
  }
  name(view, points.slice(0, MOST_NAMES), tree, px, py, radius, { x: LEFT, y: TOP, width: width - LEFT - RIGHT, height: height - TOP - BOTTOM }, taken, points);
  return view;
}

/** Write the names of the heaviest points, each where nothing else stands. */
function name(
  view: SVGElement, points: Placed[], tree: Tree, px: (x: number) => number, py: (y: number) => number, radius: (at: Placed) => number, room: Box, taken: Box[], all: Placed[],
): void {
  const names = apart(all.map(({ point }) => point.path));
  const texts = points.map(({ point }, i) => {
    const group = tree.find(point.path);
    return `${names[i] || tree.modules.words[tree.modules.kind[0]!]!}${group ? tree.times(group) : ""}`;
  });
  const lines = all.map(({ point, rate }) => ({ x: px(point.low), y: py(rate) - 2, width: px(point.high) - px(point.low), height: 4 }));
  const dots = all.slice(0, 40).map((at) => ({ x: px(at.point.low) - radius(at) * 0.7, y: py(at.rate) - radius(at) * 0.7, width: radius(at) * 1.4, height: radius(at) * 1.4 }));
  const spots: Spot[] = points.map((at, i) => ({ x: px(at.point.low), y: py(at.rate), radius: radius(at), width: textWidth(texts[i]!, FONT) + 4 }));
  placed(spots, LINE, room, [...taken, ...lines, ...dots]).forEach((box, i) => {
    if (box) view.append(svg("text", { x: box.x, y: box.y + 11, class: "point-name" }, texts[i]!));
  });
}
