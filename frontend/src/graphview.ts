// The tab with the model graph: boxes coloured by their share, lines as wide as the bytes that go along them.
import { clear, el, svg } from "./dom";
import { type Area, arranged, type Box, curve, type Drawing, FIRST_BOXES, type Folded, Graph, MOST_BOXES } from "./graph";
import { fitted } from "./layout";
import { boundColour, type Classes, heat } from "./palette";
import type { Store } from "./state";
import type { Group, Tree } from "./tree";
import type { ModelGraph } from "./types";
import { percent, say, si } from "./units";

const [HEIGHT, NARROW, WIDE, PAD, ROOM_FOR_SIGN] = [40, 84, 230, 9, 16];
const [THINNEST, THICKEST, SMALLEST, LARGEST] = [1, 9, 0.25, 2];
const BOLD = "600 12px system-ui, sans-serif";
const PLAIN = "11px system-ui, sans-serif";
const MOST_ASIDE = 6;

export function graphView(data: ModelGraph, tree: Tree, store: Store, classes: Classes): HTMLElement {
  return new GraphView(new Graph(data, tree), store, classes).element;
}

class GraphView {
  readonly element: HTMLElement;
  private readonly box = el("div", { class: "graph-box", role: "region", "aria-label": "Model graph", tabindex: "-1" });
  private readonly tip = el("div", { class: "told soft", role: "status" });
  private readonly legend = el("div", { class: "legend" });
  private open: Set<string>;
  private shown!: Folded;
  private drawing!: Drawing;
  private scale = 0;
  /** The box that the keyboard is at. */
  private at = "";
  private readonly ink = document.createElement("canvas").getContext("2d")!;
  private readonly marks = new Map<string, SVGElement>();
  private seen = false;

  constructor(private readonly graph: Graph, private readonly store: Store, private readonly classes: Classes) {
    this.open = this.firstOpen();
    const button = (text: string, title: string, act: () => void) => el("button", { type: "button", title, onclick: act }, text);
    const paint = el("select", { "aria-label": "Colour of the boxes", onchange: (event: Event) => store.set({ paint: (event.target as HTMLSelectElement).value }) },
      ...[["share", "Colour: share"], ["kind", "Colour: class"], ["bound", "Colour: what binds it"]].map(([value, text]) => el("option", { value, selected: store.state.paint === value }, text!)));
    const bar = el("div", { class: "controls" }, paint,
      button("Open all", `Open as many modules as ${MOST_BOXES} boxes hold`, () => this.set(graph.opened(MOST_BOXES, this.weight))),
      button("Open some", "Open the upper levels, as at first", () => this.set(this.firstOpen())),
      button("Close all", "Close all modules but the model", () => this.set(new Set([""]))),
      button("Smaller", "Draw the graph smaller", () => this.zoom(1 / 1.25)), button("Larger", "Draw the graph larger", () => this.zoom(1.25)));
    const notes = el("p", { class: "soft about" }, ...this.notes());
    this.element = el("section", { class: "graph" }, el("h2", {}, "Data between modules, in the forward"), bar, this.box, this.legend, this.tip, notes);
    this.tell(null);
    this.arrange();
    new ResizeObserver(() => this.resized()).observe(this.box);
    window.addEventListener("resize", () => this.draw());
    this.box.addEventListener("keydown", (event) => this.key(event));
    store.on((_, changed) => {
      if (changed.has("metric") || changed.has("paint") || changed.has("query")) this.draw();
      else if (changed.has("focus")) {
        if (this.shown.boxes.get(this.at)?.group?.key !== store.state.focus) this.at = "";
        this.mark();
      }
    });
  }

  private get tree(): Tree {
    return this.graph.tree;
  }

  private readonly weight = (group: Group) => {
    const metric = this.tree.area(this.store.state.metric);
    return (metric && this.tree.value(metric, group, false)) || 0;
  };

  private firstOpen(): Set<string> {
    return this.graph.opened(FIRST_BOXES);
  }

  private notes(): string[] {
    const { idle = [], passing = [] } = this.graph.data.aside;
    const some = (rows: string[]) => `${rows.slice(0, MOST_ASIDE).join(", ")}${rows.length > MOST_ASIDE ? ` and ${rows.length - MOST_ASIDE} more` : ""}`;
    return [
      "A line leads from the module that made data to the one that took it; its width is the bytes. A module that its caller runs several times has a box for each turn; work of its own between them is in italics. Parameters are not drawn.",
      idle.length ? ` Never called: ${some(idle)}.` : "",
      passing.length ? ` Handing on what they get, without a box: ${some(passing)}.` : "",
    ].filter(Boolean);
  }

  private set(open: Set<string>, at?: Group): void {
    this.open = open;
    this.arrange(at);
  }

  private arrange(at?: Group): void {
    this.shown = this.graph.folded(this.open);
    this.drawing = arranged(this.shown, (box) => this.width(box), HEIGHT);
    const chosen = at && this.graph.boxOf(at, this.shown);
    if (!this.shown.boxes.has(this.at)) this.at = "";
    if (chosen) this.at = chosen.id;
    this.draw();
    if (chosen) this.marks.get(chosen.id)?.focus();
  }

  /** The box of the tab has another size, or is shown: then what is selected is scrolled to. */
  private resized(): void {
    const seen = this.box.clientWidth > 0;
    if (seen && !this.scale) this.draw();
    const area = this.drawing.boxes.get(this.at);
    if (seen && !this.seen && area && this.store.state.focus) {
      const scale = this.scale || this.fitting();
      this.box.scrollTo((area.x + area.width / 2) * scale - this.box.clientWidth / 2, (area.y + area.height / 2) * scale - this.box.clientHeight / 2);
    }
    this.seen = seen;
  }

  private zoom(by: number): void {
    this.scale = Math.max(SMALLEST, Math.min(LARGEST, (this.scale || this.fitting()) * by));
    this.draw();
  }

  /** All of its width, as long as names can be read. */
  private fitting(): number {
    return Math.max(0.5, Math.min(1, this.box.clientWidth / Math.max(1, this.drawing.width)));
  }

  private width(box: Box): number {
    this.ink.font = BOLD;
    const first = this.ink.measureText(this.title(box)).width;
    this.ink.font = PLAIN;
    const widest = Math.max(first, this.ink.measureText(this.line(box)).width);
    return Math.max(NARROW, Math.min(WIDE, widest + 2 * PAD + (box.closed ? ROOM_FOR_SIGN : 0)));
  }

  private title(box: Box): string {
    return box.work || `${box.name}${box.turns > 1 ? ` (${box.turn + 1} of ${box.turns})` : ""}`;
  }

  private value(box: Box): number | null {
    const metric = this.tree.area(this.store.state.metric);
    return metric && box.group ? this.tree.value(metric, box.group, Boolean(box.work)) : null;
  }

  private line(box: Box): string {
    const metric = this.tree.area(this.store.state.metric);
    const value = this.value(box);
    const [what, whole] = [box.group && !box.work ? this.tree.kind(box.group) : "", metric?.total[0]];
    const turns = box.turns > 1 ? ` in ${box.turns} turns` : "";
    return [what, value && metric && whole ? `${say(value, metric.unit)}, ${percent(value / whole)}${turns}` : ""].filter(Boolean).join(" · ");
  }

  private draw(): void {
    const { drawing, shown } = this;
    const scale = this.scale || this.fitting();
    this.marks.clear();
    const view = svg("svg", { viewBox: `0 0 ${drawing.width} ${drawing.height}`, width: drawing.width * scale, height: drawing.height * scale, class: "graph-view", role: "group", "aria-label": `Graph of ${shown.boxes.size} boxes. Up and down follow the data, left and right go to neighbours, Enter selects, Space opens, Escape closes.` });
    view.append(svg("defs", {}, svg("marker", { id: "tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 8, markerHeight: 8, markerUnits: "userSpaceOnUse", orient: "auto" }, svg("path", { d: "M0,0L8,4L0,8z" }))));
    for (const frame of shown.frames) view.append(this.frame(frame, drawing.frames.get(frame.key)!));
    const most = Math.sqrt(shown.links.reduce((top, link) => Math.max(top, link.bytes), 1));
    for (const { link, points } of drawing.links) {
      const line = svg("path", { d: curve(points), class: "flow", "data-from": link.from, "data-to": link.to, "stroke-width": (THINNEST + (THICKEST - THINNEST) * Math.sqrt(link.bytes) / most).toFixed(2), "marker-end": "url(#tip)" });
      line.addEventListener("mouseenter", () => this.tellLink(link.from, link.to, link.bytes));
      view.append(line);
    }
    const keeps = this.tree.search(this.store.state.query);
    for (const box of shown.boxes.values()) view.append(this.boxView(box, drawing.boxes.get(box.id)!, keeps));
    const [left, top] = [this.box.scrollLeft, this.box.scrollTop];
    this.box.replaceChildren(view as unknown as Node);
    this.box.scrollTo(left, top);
    this.drawLegend();
    this.mark();
  }

  private frame(frame: Group, area: Area): SVGElement {
    const carried = this.graph.carried(frame);
    const name = `${this.tree.short(frame)}${carried ? `, ${si(carried, "B")} from block to block` : ""}`;
    this.ink.font = PLAIN;
    const text = fitted(`− ${name}`, area.width - 2 * PAD, (one) => this.ink.measureText(one).width);
    const view = svg("g", { class: "frame", "data-path": frame.key },
      svg("rect", { x: area.x, y: area.y, width: area.width, height: area.height, rx: 8 }),
      svg("text", { x: area.x + PAD, y: area.y + 13 }, text), svg("title", {}, `${this.tree.title(frame)}${carried ? `: ${si(carried, "B")} go from block to block` : ""}. A click closes it.`));
    view.addEventListener("click", () => this.close(frame));
    return view;
  }

  private boxView(box: Box, area: Area, keeps: Uint8Array | null): SVGElement {
    const { group } = box;
    const found = group && keeps ? group.modules.reduce((bits, module) => bits | keeps[module]!, 0) : 0;
    const hit = box.closed ? found : found & 1;
    const text = (line: string, font: string, room: number) => {
      this.ink.font = font;
      return fitted(line, room, (one) => this.ink.measureText(one).width);
    };
    const room = area.width - 2 * PAD;
    const [title, line] = [text(this.title(box), BOLD, room - (box.closed ? ROOM_FOR_SIGN : 0)), text(this.line(box), PLAIN, room)];
    const view = svg("g", {
      class: `box${group ? "" : " end"}${hit ? " hit" : ""}${keeps && !found ? " faded" : ""}`, role: "button", tabindex: -1, "data-id": box.id, "data-path": group?.key ?? "",
      "aria-label": `${title} ${line}, ${this.said(box)}`, ...(box.closed ? { "aria-expanded": "false" } : {}),
    },
      svg("rect", { x: area.x, y: area.y, width: area.width, height: area.height, rx: 6, fill: this.paint(box) }),
      svg("text", { x: area.x + PAD, y: area.y + 16, class: `title${box.work ? " work" : ""}` }, title), " ",
      svg("text", { x: area.x + PAD, y: area.y + 31 }, line), " ");
    if (box.closed) {
      const sign = svg("text", { x: area.x + area.width - PAD - 8, y: area.y + 16, class: "sign" }, "+");
      sign.addEventListener("click", (event) => {
        event.stopPropagation();
        this.unfold(box);
      });
      view.append(sign);
    }
    view.addEventListener("mouseenter", () => this.tell(box));
    view.addEventListener("focus", () => this.tell(box));
    view.addEventListener("click", () => this.choose(box));
    view.addEventListener("dblclick", () => this.unfold(box));
    this.marks.set(box.id, view);
    return view;
  }

  private paint(box: Box): string {
    const { group } = box;
    if (!group) return "var(--card)";
    if (this.store.state.paint === "kind") return this.classes.paint(this.tree.kind(group));
    if (this.store.state.paint === "bound") return boundColour(this.tree.word(this.tree.modules.bound, group));
    return heat((this.value(box) ?? 0) / this.hottest());
  }

  /** The largest share that a box has. */
  private hottest(): number {
    return [...this.shown.boxes.values()].reduce((most, box) => Math.max(most, this.value(box) ?? 0), 1e-30);
  }

  private drawLegend(): void {
    clear(this.legend);
    const metric = this.tree.area(this.store.state.metric);
    const chip = (colour: string, text: string) => el("span", {}, el("i", { style: `background:${colour}` }), text);
    const widest = this.shown.links.reduce((top, link) => Math.max(top, link.bytes), 0);
    if (this.store.state.paint === "share" && metric?.total[0]) this.legend.append(...[0.1, 0.5, 1].map((part) => chip(heat(part), percent((part * this.hottest()) / metric.total[0]!))), el("span", {}, `of ${metric.label}`));
    else {
      const seen = new Map<string, string>();
      for (const box of this.shown.boxes.values()) if (box.group) seen.set(this.store.state.paint === "kind" ? this.tree.kind(box.group) : this.tree.word(this.tree.modules.bound, box.group), this.paint(box));
      for (const [word, colour] of seen) if (word && (this.store.state.paint !== "kind" || this.classes.named.includes(word))) this.legend.append(chip(colour, word));
    }
    this.legend.append(el("span", {}, `widest line: ${si(widest, "B")}`));
  }

  private sums(box: Box): string {
    const sum = (end: "from" | "to") => this.shown.links.filter((link) => link[end] === box.id).reduce((total, link) => total + link.bytes, 0);
    const [taken, handed] = [sum("to"), sum("from")];
    return [taken ? `takes ${si(taken, "B")}` : "", handed ? `hands on ${si(handed, "B")}` : ""].filter(Boolean).join(", ");
  }

  private said(box: Box): string {
    const [name, line] = [box.group ? `${box.work ? `${box.work} in ` : ""}${this.tree.title(box.group)}` : box.name, this.line(box)];
    return [name, box.turns > 1 ? `turn ${box.turn + 1} of ${box.turns}` : "", line, this.sums(box)].filter(Boolean).join(", ");
  }

  private tell(box: Box | null): void {
    clear(this.tip);
    if (!box) this.tip.append("Point at a box or a line; a click selects the module in every view, a click on + or two clicks open it, one on a frame closes it.");
    else {
      const bound = box.group ? this.tree.word(this.tree.modules.bound, box.group) : "";
      this.tip.append(this.said(box), bound ? `, bound by ${bound}` : "");
    }
    for (const line of this.box.querySelectorAll(".flow")) line.classList.toggle("lit", box !== null && [line.getAttribute("data-from"), line.getAttribute("data-to")].includes(box.id));
  }

  private tellLink(from: string, to: string, bytes: number): void {
    this.tell(null);
    const name = (id: string) => this.title(this.shown.boxes.get(id)!);
    this.tip.textContent = `${name(from)} hands ${si(bytes, "B")} to ${name(to)}`;
  }

  private choose(box: Box): void {
    this.at = box.id;
    if (box.group) this.store.set({ focus: box.group.key });
    this.mark();
  }

  private unfold(box: Box): void {
    const open = new Set([...this.open, box.group?.key ?? ""]);
    if (box.closed && this.graph.folded(open).boxes.size <= MOST_BOXES) this.set(open, box.group!);
  }

  private close(frame: Group): void {
    this.set(new Set([...this.open].filter((key) => key !== frame.key && !key.startsWith(`${frame.key}.`))), frame);
  }

  /** Frame the row that is selected, and let Tab lead to one box. */
  private mark(): void {
    const group = this.tree.find(this.store.state.focus);
    const chosen = group?.parent ? this.graph.boxOf(group, this.shown) : undefined;
    this.at ||= chosen?.id ?? this.shown.boxes.keys().next().value ?? "";
    for (const [id, view] of this.marks) {
      view.classList.toggle("chosen", chosen !== undefined && this.shown.boxes.get(id)!.group === chosen.group);
      view.setAttribute("tabindex", id === this.at ? "0" : "-1");
    }
    for (const frame of this.box.querySelectorAll(".frame")) frame.classList.toggle("chosen", Boolean(group?.parent) && frame.getAttribute("data-path") === group!.key);
  }

  private key(event: KeyboardEvent): void {
    const box = this.shown.boxes.get((event.target as Element).getAttribute("data-id") ?? "");
    if (!box) return;
    const along = (end: "from" | "to", other: "from" | "to") => this.shown.links.filter((link) => link[end] === box.id).sort((a, b) => b.bytes - a.bytes)[0]?.[other];
    const order = [...this.drawing.boxes].sort(([, a], [, b]) => a.y - b.y || a.x - b.x).map(([id]) => id);
    const place = order.indexOf(box.id);
    const to: Record<string, string | undefined> = { ArrowDown: along("from", "to"), ArrowUp: along("to", "from"), ArrowLeft: order[place - 1], ArrowRight: order[place + 1], Home: order[0], End: order[order.length - 1] };
    const frame = box.group && (box.closed ? box.group.parent : box.group.parent && box.work ? box.group : box.group.parent);
    if (event.key in to) this.move(to[event.key]);
    else if (event.key === "Enter") this.choose(box);
    else if (event.key === " ") this.unfold(box);
    else if (event.key === "Escape" && frame?.parent) this.close(frame);
    else return;
    event.preventDefault();
  }

  private move(id: string | undefined): void {
    const view = id === undefined ? undefined : this.marks.get(id);
    if (!view) return;
    this.at = id!;
    this.mark();
    view.focus();
  }
}
