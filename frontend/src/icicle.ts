// The icicle: one bar a row of the tree, as wide as its share, children below their parent; a click zooms.
import { clear, colour, el, fit } from "./dom";
import { fitted } from "./layout";
import { boundColour, type Classes } from "./palette";
import type { Store } from "./state";
import type { Group, Tree } from "./tree";
import type { Metric } from "./types";
import { percent, say } from "./units";

const LEVEL = 24;
const LEAST = 1.2;
const MOST_LEVELS = 16;
/** Blocks of a stack that are narrower than this are drawn as one bar. */
const LEAST_BLOCK = 56;

interface Bar { group: Group; value: number; x: number; width: number; level: number }

export class Icicle {
  readonly element = el("section", { class: "icicle", "aria-label": "Icicle of modules" });
  private readonly canvas = el("canvas", { tabindex: "0", role: "application", "aria-roledescription": "icicle" }) as HTMLCanvasElement;
  private readonly crumbs = el("nav", { class: "crumbs", "aria-label": "Path to the module in focus" });
  private readonly tip = el("div", { class: "tip", hidden: true });
  private readonly legend = el("div", { class: "legend" });
  private bars: Bar[] = [];
  private hovered = "";

  constructor(private readonly tree: Tree, private readonly store: Store, private readonly classes: Classes) {
    this.element.append(this.controls(), this.crumbs, el("div", { class: "canvas-box" }, this.canvas, this.tip), this.legend);
    this.canvas.addEventListener("mousemove", (event) => this.hover(event));
    this.canvas.addEventListener("mouseleave", () => { this.hovered = ""; this.tip.hidden = true; this.draw(); });
    this.canvas.addEventListener("click", (event) => {
      const bar = this.under(event);
      if (bar) store.set({ focus: bar.group.key === store.state.focus ? (bar.group.parent?.key ?? "") : bar.group.key });
    });
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(this.element);
    store.on((_, changed) => {
      if (["focus", "metric", "colour", "query"].some((key) => changed.has(key as never))) this.draw();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    window.addEventListener("resize", () => this.draw());
  }

  private get metric(): Metric | undefined {
    return this.tree.area(this.store.state.metric);
  }

  private get focus(): Group {
    return this.tree.find(this.store.state.focus) ?? this.tree.root;
  }

  private controls(): HTMLElement {
    const { store, tree } = this;
    const width = el("select", { "aria-label": "Width of the bars", onchange: () => store.set({ metric: width.value }) }) as HTMLSelectElement;
    for (const metric of tree.modules.metrics.filter((one) => one.adds && one.total[0])) width.append(el("option", { value: metric.id }, metric.label));
    const paint = el("select", { "aria-label": "Colour of the bars", onchange: () => store.set({ colour: paint.value }) }) as HTMLSelectElement;
    paint.append(el("option", { value: "kind" }, "class"));
    if (tree.modules.bound.some((word) => tree.modules.words[word])) paint.append(el("option", { value: "bound" }, "what binds it"));
    const follow = () => { width.value = this.metric?.id ?? ""; paint.value = store.state.colour; };
    store.on(follow);
    follow();
    return el("div", { class: "controls" }, el("label", {}, "width ", width), el("label", {}, "colour ", paint),
      el("button", { type: "button", onclick: () => store.set({ focus: "" }) }, "Whole model"));
  }

  private paint(group: Group): string {
    return this.store.state.colour === "bound" ? boundColour(this.tree.word(this.tree.modules.bound, group)) : this.classes.paint(this.tree.kind(group));
  }

  private layout(width: number): void {
    const { tree, metric, focus } = this;
    this.bars = [];
    if (!metric) return;
    const size = (group: Group) => tree.value(metric, group, false) ?? 0;
    for (const group of tree.ancestors(focus)) this.bars.push({ group, value: size(group), x: 0, width, level: group.depth });
    const visit = (group: Group, x: number, room: number) => {
      this.bars.push({ group, value: size(group), x, width: room, level: group.depth });
      const below = tree.children(group);
      const whole = Math.max(size(group), below.reduce((sum, child) => sum + size(child), 0));
      if (!whole || group.depth - focus.depth >= MOST_LEVELS) return;
      let at = x;
      for (const child of below) {
        const part = (size(child) / whole) * room;
        const apart = child.run > 1 && child.run === child.modules.length && part / child.run >= LEAST_BLOCK ? tree.split(child) : [child];
        for (const one of apart) {
          const own = (size(one) / whole) * room;
          if (own >= LEAST) visit(one, at, own);
          at += own;
        }
      }
    };
    visit(focus, 0, width);
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
    const keeps = this.tree.search(this.store.state.query);
    for (const bar of this.bars) this.drawBar(ink, bar, keeps);
    this.drawCrumbs();
    this.drawLegend();
    const { metric, focus } = this;
    const said = metric ? `${this.tree.title(focus)}: ${metric.label} ${say(this.tree.value(metric, focus, false), metric.unit)}` : this.tree.title(focus);
    this.canvas.setAttribute("aria-label", `Icicle by ${metric?.label ?? "nothing"}. In focus is ${said}. Arrow keys move, Enter zooms, Escape goes up.`);
  }

  /** A bar; with a search, what does not match is faded and what does has a frame. */
  private drawBar(ink: CanvasRenderingContext2D, bar: Bar, keeps: Uint8Array | null): void {
    const [top, found] = [bar.level * LEVEL, keeps ? bar.group.modules.reduce((bits, module) => bits | keeps[module]!, 0) : 2];
    ink.globalAlpha = found ? (bar.level < this.focus.depth ? 0.55 : 1) : 0.25;
    ink.fillStyle = this.paint(bar.group);
    ink.fillRect(bar.x, top, bar.width, LEVEL - 1);
    if (bar.width > 3) {
      ink.strokeStyle = colour("page");
      ink.lineWidth = 1;
      ink.strokeRect(bar.x + 0.5, top + 0.5, bar.width - 1, LEVEL - 2);
    }
    ink.globalAlpha = 1;
    const marked = found & 1 || bar.group.key === this.store.state.focus || (this.hovered && bar.group.key === this.hovered);
    if (marked) {
      ink.strokeStyle = found & 1 ? colour("warn") : colour("accent");
      ink.lineWidth = 2;
      ink.strokeRect(bar.x + 1, top + 1, Math.max(1, bar.width - 2), LEVEL - 3);
    }
    if (bar.width < 22 || !found) return;
    ink.fillStyle = colour("ink");
    ink.fillText(this.text(ink, bar), bar.x + 5, top + LEVEL / 2);
  }

  /** Name, class, blocks and share, or as many of them as there is room for. */
  private text(ink: CanvasRenderingContext2D, bar: Bar): string {
    const { tree, metric } = this;
    const [room, measure] = [bar.width - 9, (text: string) => ink.measureText(text).width];
    const share = bar.value && metric?.total[0] && bar.group.parent ? `  ${percent(bar.value / metric.total[0])}` : "";
    const whole = `${tree.label(bar.group)}${tree.times(bar.group)}`;
    const short = bar.group.name || whole;
    const some = [`${whole}${share}`, whole, `${short}${tree.times(bar.group)}${share}`, `${short}${tree.times(bar.group)}`, short];
    return some.find((text) => measure(text) <= room) ?? fitted(short, room, measure);
  }

  private drawCrumbs(): void {
    const { focus, tree } = this;
    clear(this.crumbs);
    for (const group of [...tree.ancestors(focus), focus]) {
      const name = group.parent ? `${group.name}${group.run > 1 ? ` × ${group.run}` : ""}` : tree.kind(group);
      this.crumbs.append(el("button", { type: "button", "aria-current": group === focus ? "true" : undefined, onclick: () => this.store.set({ focus: group.key }) }, name));
    }
  }

  private drawLegend(): void {
    clear(this.legend);
    const seen = new Map<string, string>();
    const bound = this.store.state.colour === "bound";
    for (const bar of this.bars) {
      const word = bound ? this.tree.word(this.tree.modules.bound, bar.group) : this.tree.kind(bar.group);
      if (word && (bound || this.classes.named.includes(word))) seen.set(word, this.paint(bar.group));
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
    const key = bar?.group.key ?? "";
    if (key !== this.hovered) {
      this.hovered = key;
      this.draw();
    }
    this.tip.hidden = !bar;
    const { metric, tree } = this;
    if (!bar || !metric) return;
    const [whole, bound, limit] = [metric.total[0], tree.word(tree.modules.bound, bar.group), tree.metric("limit")];
    clear(this.tip);
    this.tip.append(
      el("b", {}, tree.title(bar.group)), el("br"), tree.kind(bar.group), bound ? `, bound by ${bound}` : "", el("br"),
      `${metric.label} ${say(bar.value, metric.unit)}${bar.value && whole ? `, ${percent(bar.value / whole)}` : ""}`,
      metric.id === "time" && limit && tree.value(limit, bar.group, false) ? `, ${limit.label} ${say(tree.value(limit, bar.group, false), "seconds")}` : "",
    );
    const box = this.canvas.getBoundingClientRect();
    const x = event.clientX - box.left;
    this.tip.style.left = `${Math.min(x + 12, Math.max(0, box.width - this.tip.offsetWidth - 4))}px`;
    this.tip.style.top = `${(bar.level + 1) * LEVEL + 4}px`;
  }

  private key(event: KeyboardEvent): void {
    const { tree, focus } = this;
    const siblings = focus.stack ? tree.split(focus.stack) : focus.parent ? tree.children(focus.parent) : [focus];
    const place = siblings.indexOf(focus);
    const first = tree.children(focus)[0];
    const to: Record<string, Group | null | undefined> = {
      ArrowUp: focus.parent, Escape: focus.parent, ArrowDown: first, Enter: first, ArrowLeft: siblings[place - 1], ArrowRight: siblings[place + 1], Home: tree.root,
    };
    if (!(event.key in to)) return;
    event.preventDefault();
    const next = to[event.key];
    if (next) this.store.set({ focus: next.key });
  }
}
