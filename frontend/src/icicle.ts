// The icicle: one bar a module, as wide as its share, children below their parent; a click zooms.
import { clear, colour, el, fit, isDark } from "./dom";
import type { Store } from "./state";
import type { Tree } from "./tree";
import type { Metric } from "./types";
import { percent, say } from "./units";

const LEVEL = 24;
const LEAST = 1.2;
const MOST_LEVELS = 16;

/** Blocks of a run that are narrower than this are drawn as one bar. */
const LEAST_BLOCK = 56;

/** A module, or several that are alike, the first of which stands for all. */
interface Bar { module: number; times: number; value: number; x: number; width: number; level: number }

export class Icicle {
  readonly element = el("section", { class: "icicle", "aria-label": "Icicle of modules" });
  private readonly canvas = el("canvas", { tabindex: "0", role: "img" }) as HTMLCanvasElement;
  private readonly crumbs = el("nav", { class: "crumbs", "aria-label": "Path to the module in focus" });
  private readonly tip = el("div", { class: "tip", hidden: true });
  private readonly legend = el("div", { class: "legend" });
  private readonly kinds: Map<number, number>;
  private bars: Bar[] = [];
  private hovered: number | null = null;

  constructor(private readonly tree: Tree, private readonly store: Store) {
    this.kinds = this.ranked();
    this.element.append(this.controls(), this.crumbs, el("div", { class: "canvas-box" }, this.canvas, this.tip), this.legend);
    this.canvas.addEventListener("mousemove", (event) => this.hover(event));
    this.canvas.addEventListener("mouseleave", () => { this.hovered = null; this.tip.hidden = true; this.draw(); });
    this.canvas.addEventListener("click", (event) => {
      const bar = this.under(event);
      if (bar) store.set({ focus: bar.module === store.state.focus ? Math.max(0, tree.modules.parent[bar.module]!) : bar.module });
    });
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(this.element);
    store.on((_, changed) => {
      if (changed.has("focus") || changed.has("metric") || changed.has("colour")) this.draw();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  private get metric(): Metric {
    return this.tree.area(this.store.state.metric)!;
  }

  private controls(): HTMLElement {
    const { store, tree } = this;
    const width = el("select", { "aria-label": "Width of the bars", onchange: (event: Event) => store.set({ metric: (event.target as HTMLSelectElement).value }) }) as HTMLSelectElement;
    for (const metric of tree.modules.metrics.filter((one) => one.adds && one.total[0])) width.append(el("option", { value: metric.id }, metric.label));
    width.value = this.metric.id;
    const paint = el("select", { "aria-label": "Colour of the bars", onchange: (event: Event) => store.set({ colour: (event.target as HTMLSelectElement).value }) }) as HTMLSelectElement;
    paint.append(el("option", { value: "kind" }, "class"));
    if (tree.modules.bound.some((word) => tree.modules.words[word])) paint.append(el("option", { value: "bound" }, "what binds it"));
    paint.value = store.state.colour;
    store.on(() => { width.value = this.metric.id; paint.value = store.state.colour; });
    return el("div", { class: "controls" }, el("label", {}, "width ", width), el("label", {}, "colour ", paint),
      el("button", { type: "button", onclick: () => store.set({ focus: 0 }) }, "Whole model"));
  }

  /** Classes by how often they occur: the frequent ones get the colours that differ most. */
  private ranked(): Map<number, number> {
    const counts = new Map<number, number>();
    for (const kind of this.tree.modules.kind) counts.set(kind, (counts.get(kind) ?? 0) + 1);
    const order = [...counts].sort((a, b) => b[1] - a[1]);
    return new Map(order.map(([kind], rank) => [kind, rank]));
  }

  private paint(module: number): string {
    const lightness = isDark() ? 32 : 78;
    if (this.store.state.colour === "bound") {
      const hues: Record<string, number> = { compute: 140, memory: 215, launch: 45, communication: 285, "depends on fusion": 180 };
      const hue = hues[this.tree.word(this.tree.modules.bound, module)];
      return hue === undefined ? colour("card") : `hsl(${hue} 55% ${lightness}%)`;
    }
    const rank = this.kinds.get(this.tree.modules.kind[module]!) ?? 0;
    return `hsl(${(rank * 137.5 + 212) % 360} ${rank < 12 ? 52 : 34}% ${lightness}%)`;
  }

  private layout(width: number): void {
    const column = this.metric.total;
    const { focus } = this.store.state;
    const size = (group: number[]) => group.reduce((sum, module) => sum + (column[module] ?? 0), 0);
    this.bars = [];
    this.tree.ancestors(focus).forEach((module, level) => this.bars.push({ module, times: 1, value: size([module]), x: 0, width, level }));
    const visit = (group: number[], x: number, room: number, level: number) => {
      const value = size(group);
      this.bars.push({ module: group[0]!, times: group.length, value, x, width: room, level });
      const below = this.tree.grouped(group);
      const whole = Math.max(value, below.reduce((sum, children) => sum + size(children), 0));
      if (!whole || level - this.tree.depth[focus]! >= MOST_LEVELS) return;
      let at = x;
      for (const children of below) {
        const part = (size(children) / whole) * room;
        const apart = group.length === 1 && part / children.length >= LEAST_BLOCK ? children.map((child) => [child]) : [children];
        for (const one of apart) {
          const own = (size(one) / whole) * room;
          if (own >= LEAST) visit(one, at, own, level + 1);
          at += own;
        }
      }
    };
    visit([focus], 0, width, this.tree.depth[focus]!);
  }

  /** The bar's name with its class, or the name alone where there is no room for both. */
  private fitting(ink: CanvasRenderingContext2D, bar: Bar): string {
    const whole = this.name(bar);
    return ink.measureText(whole).width <= bar.width - 8 ? whole : this.tree.modules.name[bar.module] || whole;
  }

  private name(bar: Bar): string {
    const { tree } = this;
    const run = bar.times > 1 ? tree.runOf.get(bar.module) : undefined;
    const label = tree.label({ module: bar.module, run: run && run.length <= bar.times ? run : null, depth: 0 });
    return bar.times > 1 ? `${label} × ${bar.times}` : label;
  }

  draw(): void {
    const width = this.canvas.parentElement!.clientWidth;
    if (!width) return;
    this.layout(width);
    const levels = this.bars.reduce((most, bar) => Math.max(most, bar.level), 0) + 1;
    const ink = fit(this.canvas, width, levels * LEVEL + 2);
    ink.clearRect(0, 0, width, levels * LEVEL + 2);
    ink.font = "12px system-ui, sans-serif";
    ink.textBaseline = "middle";
    const [text, page, line] = [colour("ink"), colour("page"), colour("accent")];
    for (const bar of this.bars) {
      const top = bar.level * LEVEL;
      const above = bar.level < this.tree.depth[this.store.state.focus]!;
      ink.globalAlpha = above ? 0.55 : 1;
      ink.fillStyle = this.paint(bar.module);
      ink.fillRect(bar.x, top, bar.width, LEVEL - 1);
      ink.globalAlpha = 1;
      if (bar.width > 3) {
        ink.strokeStyle = page;
        ink.lineWidth = 1;
        ink.strokeRect(bar.x + 0.5, top + 0.5, bar.width - 1, LEVEL - 2);
      }
      if (bar.module === this.store.state.focus || bar.module === this.hovered) {
        ink.strokeStyle = line;
        ink.lineWidth = 2;
        ink.strokeRect(bar.x + 1, top + 1, bar.width - 2, LEVEL - 3);
      }
      if (bar.width > 22) {
        ink.save();
        ink.beginPath();
        ink.rect(bar.x + 4, top, bar.width - 8, LEVEL);
        ink.clip();
        ink.fillStyle = text;
        ink.fillText(this.fitting(ink, bar), bar.x + 5, top + LEVEL / 2);
        ink.restore();
      }
    }
    this.drawCrumbs();
    this.drawLegend();
    const focus = this.store.state.focus;
    const said = `${this.tree.path(focus) || "the model"}: ${this.metric.label} ${say(this.metric.total[focus] ?? null, this.metric.unit)}`;
    this.canvas.setAttribute("aria-label", `Icicle by ${this.metric.label}. In focus is ${said}. Arrow keys move, Enter zooms, Escape goes up.`);
  }

  private drawCrumbs(): void {
    const { focus } = this.store.state;
    clear(this.crumbs);
    for (const module of [...this.tree.ancestors(focus), focus]) {
      const name = this.tree.modules.parent[module]! < 0 ? this.tree.word(this.tree.modules.kind, module) : this.tree.modules.name[module]!;
      this.crumbs.append(el("button", { type: "button", "aria-current": module === focus ? "true" : undefined, onclick: () => this.store.set({ focus: module }) }, name));
    }
  }

  private drawLegend(): void {
    clear(this.legend);
    const seen = new Map<string, string>();
    const column = this.store.state.colour === "bound" ? this.tree.modules.bound : this.tree.modules.kind;
    for (const bar of this.bars) {
      const word = this.tree.word(column, bar.module);
      if (word && seen.size < 12) seen.set(word, seen.get(word) ?? this.paint(bar.module));
    }
    for (const [word, paint] of seen) this.legend.append(el("span", {}, el("i", { style: `background:${paint}` }), word));
  }

  private under(event: MouseEvent): Bar | null {
    const box = this.canvas.getBoundingClientRect();
    const [x, level] = [event.clientX - box.left, Math.floor((event.clientY - box.top) / LEVEL)];
    return this.bars.find((bar) => bar.level === level && x >= bar.x && x < bar.x + bar.width) ?? null;
  }

  private hover(event: MouseEvent): void {
    const bar = this.under(event);
    const module = bar ? bar.module : null;
    if (module !== this.hovered) {
      this.hovered = module;
      this.draw();
    }
    this.tip.hidden = !bar;
    if (!bar) return;
    const whole = this.metric.total[0];
    const bound = this.tree.word(this.tree.modules.bound, bar.module);
    clear(this.tip);
    this.tip.append(
      el("b", {}, this.tree.path(bar.module) || "the model"), bar.times > 1 ? ` and ${bar.times - 1} like it` : "", el("br"),
      this.tree.word(this.tree.modules.kind, bar.module), bound ? `, bound by ${bound}` : "", el("br"),
      `${this.metric.label} ${say(bar.value, this.metric.unit)}${bar.value && whole ? `, ${percent(bar.value / whole)}` : ""}`,
    );
    const box = this.canvas.getBoundingClientRect();
    const x = event.clientX - box.left;
    this.tip.style.left = `${Math.min(x + 12, Math.max(0, box.width - this.tip.offsetWidth - 4))}px`;
    this.tip.style.top = `${(bar.level + 1) * LEVEL + 4}px`;
  }

  private key(event: KeyboardEvent): void {
    const { tree, store } = this;
    const { focus } = store.state;
    const parent = tree.modules.parent[focus]!;
    const siblings = parent >= 0 ? tree.children[parent]! : [focus];
    const place = siblings.indexOf(focus);
    const to: Record<string, number | undefined> = {
      ArrowUp: parent, Escape: parent, ArrowDown: tree.children[focus]![0], Enter: tree.children[focus]![0],
      ArrowLeft: siblings[place - 1], ArrowRight: siblings[place + 1], Home: 0,
    };
    if (!(event.key in to)) return;
    event.preventDefault();
    const next = to[event.key];
    if (next !== undefined && next >= 0) store.set({ focus: next });
  }
}
