// One traced run in lanes; the wheel zooms, dragging moves, + and - and the arrows do the same.
import { clear, colour, el, fit } from "./dom";
import { joined, type Lane, lanesOf, type Span } from "./lanes";
import { fitted, ticks } from "./layout";
import { neutral, phaseColour } from "./palette";
import type { Store } from "./state";
import type { Tree } from "./tree";
import type { Timeline } from "./types";
import { seconds, tick } from "./units";

const [ROW, AXIS, GAP, TITLE] = [18, 22, 8, 14];
const HINT = "Point at a span; a click selects its module. The wheel zooms and dragging moves; so do + and - and the arrow keys, Home shows all.";

export function timelineView(timeline: Timeline, tree: Tree | null, store: Store): HTMLElement {
  const lanes = lanesOf(timeline);
  const tops = starts(lanes);
  const height = tops[tops.length - 1]! + 4;
  const all = lanes.flatMap((lane) => lane.rows.flat());
  const [from, to] = [Math.min(...extent(all, "begin", Math.min)), Math.max(...extent(all, "end", Math.max))];
  const canvas = el("canvas", { tabindex: "0", role: "application", "aria-roledescription": "timeline", "aria-label": `Timeline of one run of ${seconds((to - from) / 1e9)}: ${lanes.map((lane) => lane.title).join("; ")}. Plus and minus zoom, the arrow keys move.` }) as HTMLCanvasElement;
  const box = el("div", { class: "canvas-box" }, canvas);
  const tip = el("div", { class: "told soft", role: "status" }, HINT);
  let [left, right, dragged] = [from, to, 0];

  const x = (time: number) => ((time - left) / (right - left || 1)) * box.clientWidth;
  const axis = (ink: CanvasRenderingContext2D) => {
    ink.textBaseline = "middle";
    for (const at of ticks((left - from) / 1e9, (right - from) / 1e9, Math.max(2, box.clientWidth / 110))) {
      const place = x(from + at * 1e9);
      ink.strokeStyle = colour("line");
      ink.beginPath();
      ink.moveTo(place + 0.5, 0);
      ink.lineTo(place + 0.5, height);
      ink.stroke();
      ink.fillStyle = colour("soft");
      const text = at ? tick(seconds(Number(at.toPrecision(12)))) : "0";
      const wide = ink.measureText(text).width;
      ink.fillText(text, place + 4 + wide > box.clientWidth ? place - 4 - wide : place + 4, AXIS / 2);
    }
  };
  const bar = (ink: CanvasRenderingContext2D, span: Span, top: number) => {
    const [a, b] = [x(span.begin), x(span.end)];
    if (b < 0 || a > box.clientWidth) return;
    ink.fillStyle = span.phase ? phaseColour(span.phase) : span.kind === "module" ? phaseColour("forward") : neutral();
    ink.globalAlpha = span.kind === "op" || span.kind === "kernel" ? 0.75 : 1;
    ink.fillRect(a, top, Math.max(0.5, b - a - (b - a > 3 ? 1 : 0)), ROW - 1);
    ink.globalAlpha = 1;
    const shown = Math.max(a, 0);
    if (Math.min(b, box.clientWidth) - shown < 26) return;
    ink.fillStyle = colour("ink");
    ink.fillText(fitted(span.name, Math.min(b, box.clientWidth) - shown - 7, (text) => ink.measureText(text).width), shown + 3, top + ROW / 2);
  };
  const draw = () => {
    if (!box.clientWidth) return;
    const ink = fit(canvas, box.clientWidth, height);
    ink.font = "11px system-ui, sans-serif";
    axis(ink);
    const pixel = (right - left) / box.clientWidth;
    lanes.forEach((lane, i) => {
      ink.fillStyle = colour("soft");
      ink.fillText(lane.title, 2, tops[i]! + TITLE / 2);
      lane.rows.forEach((row, depth) => { for (const span of joined(row, pixel)) bar(ink, span, tops[i]! + TITLE + depth * ROW); });
    });
  };
  const zoom = (factor: number, middle: number) => {
    const at = left + (right - left) * middle;
    [left, right] = [Math.max(from, at - (at - left) * factor), Math.min(to, at + (right - at) * factor)];
    draw();
  };
  const move = (share: number) => {
    const by = Math.max(from - left, Math.min(to - right, (right - left) * share));
    [left, right] = [left + by, right + by];
    draw();
  };
  const under = (event: MouseEvent): Span | undefined => {
    const time = left + ((right - left) * event.offsetX) / box.clientWidth;
    const lane = lanes.findIndex((_, i) => event.offsetY < tops[i + 1]!);
    const row = lanes[lane]?.rows[Math.floor((event.offsetY - tops[lane]! - TITLE) / ROW)];
    return row?.find((one) => one.begin <= time && time <= one.end);
  };
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, event.offsetX / box.clientWidth);
  }, { passive: false });
  canvas.addEventListener("mousedown", () => { dragged = 0; });
  canvas.addEventListener("mousemove", (event) => {
    if (event.buttons) {
      dragged += Math.abs(event.movementX);
      return move(-event.movementX / box.clientWidth);
    }
    const span = under(event);
    clear(tip);
    if (!span) return tip.append(HINT);
    const where = [span.kind === "module" ? span.path || span.name : span.name, span.phase && span.kind !== "phase" ? span.phase : "", span.kind === "module" || !span.path ? "" : `in ${span.path}`];
    tip.append(`${where.filter(Boolean).join(", ")}: ${seconds((span.end - span.begin) / 1e9)} at ${seconds((span.begin - from) / 1e9)}`);
  });
  canvas.addEventListener("click", (event) => {
    const path = under(event)?.path;
    const group = path && dragged < 4 ? tree?.find(timeline.rows[path] ?? path) : null;
    if (group) store.set({ tab: "modules", focus: group.key });
  });
  canvas.addEventListener("keydown", (event) => {
    const act: Record<string, () => void> = {
      "+": () => zoom(0.7, 0.5), "=": () => zoom(0.7, 0.5), "-": () => zoom(1.4, 0.5), ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2),
      Home: () => { [left, right] = [from, to]; draw(); },
    };
    if (!act[event.key]) return;
    event.preventDefault();
    act[event.key]!();
  });
  new ResizeObserver(draw).observe(box);
  window.addEventListener("resize", draw);
  const phases = [...new Set(all.map((span) => span.phase).filter(Boolean))];
  const legend = el("div", { class: "legend" }, ...phases.map((phase) => el("span", {}, el("i", { style: `background:${phaseColour(phase)}` }), phase)));
  return el("section", {}, el("h2", {}, "Timeline of one run"), box, legend, tip);
}

/** Where each lane begins, and where the last one ends. */
function starts(lanes: Lane[]): number[] {
  const found = [AXIS];
  for (const lane of lanes) found.push(found[found.length - 1]! + TITLE + lane.rows.length * ROW + GAP);
  return found;
}

/** The extreme of a column; a spread of a hundred thousand arguments would overflow the stack. */
function extent(spans: Span[], key: "begin" | "end", pick: (...values: number[]) => number): number[] {
  return [spans.reduce((best, span) => pick(best, span[key]), spans[0]?.[key] ?? 0)];
}
