// Everything known about the module in focus.
import { clear, el } from "./dom";
import type { Store } from "./state";
import type { Group, Tree } from "./tree";
import type { OpRow } from "./types";
import { percent, si, told } from "./units";

export class Details {
  readonly element = el("aside", { class: "details", "aria-label": "The module in focus", tabindex: "0" });

  constructor(private readonly tree: Tree, private readonly store: Store) {
    store.on((_, changed) => {
      if (changed.has("focus")) this.draw();
    });
    this.draw();
  }

  private draw(): void {
    const { tree } = this;
    const { modules } = tree;
    const group = tree.find(this.store.state.focus) ?? tree.root;
    const times = group.modules.length;
    clear(this.element);
    const facts: [string, string][] = [
      ["class", tree.kind(group)],
      ["calls", si(group.modules.reduce((sum, module) => sum + (modules.calls[module] ?? 0), 0))],
      ["input", tree.word(modules.input, group)],
      ["output", tree.word(modules.output, group)],
      ["arguments", tree.word(modules.extra, group)],
      ["bound by", tree.word(modules.bound, group)],
      ["note", tree.word(modules.mark, group)],
    ];
    const list = el("dl", {});
    for (const [name, text] of facts) if (text && text !== "0") list.append(el("dt", {}, name), el("dd", {}, text));
    const figures = el("table", {}, el("tr", {}, ...["figure", "total", "share", times > 1 ? "each" : "self"].map((word) => el("th", { scope: "col" }, word))));
    for (const metric of modules.metrics) {
      const [value, own, whole] = [tree.value(metric, group, false), tree.value(metric, group, true), metric.total[0] ?? null];
      const known = metric.own || metric.adds ? own : null;
      if (!value && !known) continue;
      const last = times > 1 ? (value === null ? null : value / times) : known;
      figures.append(el("tr", { title: metric.about },
        el("th", { scope: "row" }, metric.label), el("td", {}, told(value, metric)),
        el("td", { class: "soft" }, metric.adds && value && whole ? percent(value / whole) : ""), el("td", {}, told(last, metric))));
    }
    this.element.append(el("h2", {}, group.key || tree.kind(group), times > 1 ? el("b", { class: "times" }, tree.times(group)) : null), list, figures, this.operators(group));
  }

  private operators(group: Group): HTMLElement | string {
    const { words, ops } = this.tree.modules;
    const sums = new Map<string, OpRow>();
    for (const module of group.modules) {
      for (const [op, phase, calls, flops, bytes, status, dtype] of ops[String(module)] ?? []) {
        const key = `${op} ${phase} ${status} ${dtype}`;
        const before = sums.get(key) ?? [op, phase, 0, 0, 0, status, dtype];
        sums.set(key, [op, phase, before[2] + calls, before[3] + flops, before[4] + bytes, status, dtype]);
      }
    }
    if (!sums.size) return "";
    const table = el("table", {}, el("tr", {}, ...["operator", "calls", "FLOPs", "bytes"].map((word) => el("th", { scope: "col" }, word))));
    for (const [op, phase, calls, flops, bytes, status, dtype] of sums.values()) {
      const unknown = words[status] === "unknown";
      table.append(el("tr", unknown ? { class: "warn", title: "This operator has no formula: its work is not in the totals." } : {},
        el("td", { class: "op" }, words[op]!, el("span", { class: "part" }, [words[phase], words[dtype]].filter(Boolean).join(", "))),
        el("td", {}, si(calls)), el("td", {}, unknown ? "unknown" : si(flops)), el("td", {}, si(bytes, "B"))));
    }
    return el("details", { open: sums.size < 12 }, el("summary", {}, `Operators run here (${sums.size})`), el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Operators run here" }, table));
  }
}
