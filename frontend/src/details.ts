// Everything known about the module in focus.
import { clear, el } from "./dom";
import type { Store } from "./state";
import type { Tree } from "./tree";
import { percent, say, si } from "./units";

export class Details {
  readonly element = el("aside", { class: "details", "aria-label": "The module in focus", "aria-live": "polite" });

  constructor(private readonly tree: Tree, private readonly store: Store) {
    store.on((_, changed) => {
      if (changed.has("focus")) this.draw();
    });
    this.draw();
  }

  private draw(): void {
    const { tree } = this;
    const { modules } = tree;
    const module = this.store.state.focus;
    clear(this.element);
    const facts: [string, string][] = [
      ["class", tree.word(modules.kind, module)],
      ["calls", si(modules.calls[module] ?? 0)],
      ["input", tree.word(modules.input, module)],
      ["output", tree.word(modules.output, module)],
      ["arguments", tree.word(modules.extra, module)],
      ["bound by", tree.word(modules.bound, module)],
      ["note", tree.word(modules.mark, module)],
    ];
    const list = el("dl", {});
    for (const [name, text] of facts) if (text && text !== "0") list.append(el("dt", {}, name), el("dd", {}, text));
    const figures = el("table", {}, el("tr", {}, ...["", "total", "%", "self"].map((word) => el("th", {}, word))));
    for (const metric of modules.metrics) {
      const [value, own, whole] = [metric.total[module] ?? null, metric.own?.[module] ?? null, metric.total[0] ?? null];
      if (!value && !own) continue;
      figures.append(el("tr", { title: metric.about },
        el("td", {}, metric.label), el("td", {}, say(value, metric.unit)),
        el("td", { class: "soft" }, metric.adds && value && whole ? percent(value / whole) : ""),
        el("td", {}, metric.own ? say(own, metric.unit) : "")));
    }
    this.element.append(el("h2", {}, tree.path(module) || tree.word(modules.kind, module)), list, figures, this.operators(module));
  }

  private operators(module: number): HTMLElement | string {
    const rows = this.tree.modules.ops[String(module)];
    if (!rows?.length) return "";
    const { words } = this.tree.modules;
    const table = el("table", {}, el("tr", {}, ...["operator", "phase", "calls", "FLOPs", "bytes", "dtype"].map((word) => el("th", {}, word))));
    for (const [op, phase, calls, flops, bytes, status, dtype] of rows) {
      const unknown = words[status] === "unknown";
      table.append(el("tr", unknown ? { class: "warn", title: "This operator has no formula: its work is not in the totals." } : {},
        el("td", {}, words[op]!), el("td", {}, words[phase]!), el("td", {}, si(calls)), el("td", {}, unknown ? "unknown" : si(flops)),
        el("td", {}, si(bytes, "B")), el("td", {}, words[dtype]!)));
    }
    return el("details", { open: rows.length < 12 }, el("summary", {}, `Operators run here (${rows.length})`), table);
  }
}
