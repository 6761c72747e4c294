// One traced run as spans in lanes; the wheel zooms, dragging moves, + and - and the arrows do the same.
import { clear, colour, el, fit, isDark } from "./dom";
import type { Span } from "./types";
import { seconds } from "./units";

const ROW = 18;
const AXIS = 20;
const TICKS = 6;
const HINT = "Point at a span. The wheel zooms and dragging moves; so do + and - and the arrow keys.";
const HUES: Record<string, number> = { module: 212, op: 140, kernel: 30 };

export function timelineView(spans: Span[]): HTMLElement {
  const canvas = el("canvas", { tabindex: "0", role: "img", "aria-label": "Timeline of one run. Plus and minus zoom, the arrow keys move." }) as HTMLCanvasElement;
  const box = el("div", { class: "canvas-box" }, canvas);
  const tip = el("div", { class: "soft", role: "status" }, HINT);
  const placed = stacked(spans);
  const rows = placed.reduce((most, span) => Math.max(most, span.row), 0) + 1;
  const [from, to] = [Math.min(...spans.map((span) => span.begin)), Math.max(...spans.map((span) => span.end))];
  let [left, right] = [from, to];

  const x = (time: number, width: number) => ((time - left) / (right - left || 1)) * width;
  const axis = (ink: CanvasRenderingContext2D, width: number) => {
    ink.fillStyle = colour("soft");
    ink.strokeStyle = colour("line");
    for (let i = 0; i < TICKS; i += 1) {
      const at = (i / TICKS) * width;
      ink.fillText(seconds((left - from + ((right - left) * i) / TICKS) / 1e9), at + 3, AXIS / 2);
      ink.beginPath();
      ink.moveTo(at + 0.5, 0);
      ink.lineTo(at + 0.5, AXIS);
      ink.stroke();
    }
  };
  const draw = () => {
    const width = box.clientWidth;
    if (!width) return;
    const ink = fit(canvas, width, AXIS + rows * ROW + 4);
    ink.font = "11px system-ui, sans-serif";
    ink.textBaseline = "middle";
    axis(ink, width);
    const text = colour("ink");
    for (const span of placed) {
      const [a, b] = [x(span.begin, width), x(span.end, width)];
      if (b < 0 || a > width || b - a < 0.3) continue;
      ink.fillStyle = paint(span.kind);
      ink.fillRect(a, AXIS + span.row * ROW, Math.max(0.5, b - a - 0.5), ROW - 1);
      if (b - a > 40) {
        ink.save();
        ink.beginPath();
        ink.rect(Math.max(a, 0), AXIS + span.row * ROW, b - Math.max(a, 0), ROW);
        ink.clip();
        ink.fillStyle = text;
        ink.fillText(span.name, Math.max(a, 0) + 3, AXIS + span.row * ROW + ROW / 2);
        ink.restore();
      }
    }
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
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, event.offsetX / box.clientWidth);
  }, { passive: false });
  canvas.addEventListener("mousemove", (event) => {
    if (event.buttons) return move(-event.movementX / box.clientWidth);
    const [time, row] = [left + ((right - left) * event.offsetX) / box.clientWidth, Math.floor((event.offsetY - AXIS) / ROW)];
    const span = placed.find((one) => one.row === row && one.begin <= time && time <= one.end);
    clear(tip);
    tip.append(span ? `${span.name} (${span.kind}) ${seconds((span.end - span.begin) / 1e9)} at ${seconds((span.begin - from) / 1e9)}` : HINT);
  });
  canvas.addEventListener("keydown", (event) => {
    const act: Record<string, () => void> = {
      "+": () => zoom(0.7, 0.5), "-": () => zoom(1.4, 0.5), ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2),
      Home: () => { [left, right] = [from, to]; draw(); },
    };
    if (!act[event.key]) return;
    event.preventDefault();
    act[event.key]!();
  });
  new ResizeObserver(draw).observe(box);
  const kinds = [...new Set(spans.map((span) => span.kind))];
  const legend = el("div", { class: "legend" }, ...kinds.map((kind) => el("span", {}, el("i", { style: `background:${paint(kind)}` }), `${kind}s`)));
  return el("section", {}, el("h2", {}, "Timeline of one run"), box, legend, tip);
}

function paint(kind: string): string {
  return `hsl(${HUES[kind] ?? 285} 50% ${isDark() ? 40 : 76}%)`;
}

/** Spans with a row each: lanes below one another, a span inside another one row further down. */
function stacked(spans: Span[]): (Span & { row: number })[] {
  const placed: (Span & { row: number })[] = [];
  let first = 0;
  for (const lane of [...new Set(spans.map((span) => span.lane))]) {
    const open: number[] = [];
    let deepest = 0;
    for (const span of spans.filter((one) => one.lane === lane).sort((a, b) => a.begin - b.begin || b.end - a.end)) {
      while (open.length && open[open.length - 1]! <= span.begin) open.pop();
      placed.push({ ...span, row: first + open.length });
      open.push(span.end);
      deepest = Math.max(deepest, open.length);
    }
    first += deepest;
  }
  return placed;
}
