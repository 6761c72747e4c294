// Memory: what was alive at the peak by kind, memory over the step, and the modules that hold it.
import { curveView } from "./curve";
import { el } from "./dom";
import { gridView } from "./grid";
import { kindColour } from "./palette";
import type { Store } from "./state";
import type { Tree } from "./tree";
import type { Report } from "./types";
import { percent, si } from "./units";

export function memoryView(memory: NonNullable<Report["memory"]>, tree: Tree | null, store: Store): HTMLElement {
  const whole = memory.kinds.reduce((sum, [, bytes]) => sum + bytes, 0) || 1;
  const bar = el("div", { class: "stack", role: "img", "aria-label": memory.kinds.map(([kind, bytes]) => `${kind} ${si(bytes, "B")}`).join(", ") });
  const legend = el("div", { class: "legend" });
  for (const [kind, bytes] of memory.kinds) {
    bar.append(el("span", { style: `width:${(bytes / whole) * 100}%;background:${kindColour(kind)}`, title: `${kind} ${si(bytes, "B")}` }));
    legend.append(el("span", {}, el("i", { style: `background:${kindColour(kind)}` }), `${kind} ${si(bytes, "B")}, ${percent(bytes / whole)}`));
  }
  return el("section", {},
    el("h2", {}, memory.peak === null ? "Memory" : `Alive at the peak: ${si(memory.peak, "B")}`), ...(memory.kinds.length ? [bar, legend] : []),
    memory.curve ? curveView(memory.curve, tree, store) : null, memory.grid ? gridView(memory.grid, store) : null);
}
