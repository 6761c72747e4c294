// The tree table: only the rows in sight are drawn, so that fifty thousand modules scroll like fifty.
import { clear, el, textWidth } from "./dom";
import { copyMenu } from "./export";
import type { Store } from "./state";
import type { Group, Tree } from "./tree";
import type { Metric } from "./types";
import { say, told } from "./units";

const HEIGHT = 26;
const EDGES = 18; // borders, and a scrollbar below if there is one
const SPARE = 8;
const MOST_PRINTED = 400;
/** Widths in pixels: of a column, of one with a long title, of the output's shape, and bounds of the names'. */
const [COLUMN, LONG, SHAPE, LEAST_NAME, MOST_NAME] = [84, 126, [116, 210], 170, 440] as const;
/** Pixels around a cell's text. */
const PADDING = 20;
const FONT = '14px system-ui, -apple-system, "Segoe UI", sans-serif';

interface Row { group: Group; depth: number }

export class TreeTable {
  readonly element = el("section", { class: "table-box", "aria-label": "Modules" });
  private readonly scroller = el("div", { class: "scroller", tabindex: "0", role: "treegrid", "aria-label": "Module tree" });
  private readonly head = el("div", { class: "tr head", role: "row" });
  private readonly body = el("div", { class: "rows", role: "rowgroup" });
  private readonly status = el("span", { class: "soft", role: "status" });
  private rows: Row[] = [];
  private at = 0;
  private shown = false;
  private readonly shape: number;

  constructor(private readonly tree: Tree, private readonly store: Store) {
    const { output, words } = tree.modules;
    const widest = Math.max(...[...new Set(output)].map((word) => textWidth(words[word]!, FONT)));
    this.shape = Math.min(SHAPE[1], Math.max(SHAPE[0], Math.ceil(widest) + PADDING));
    this.scroller.append(el("div", { class: "heads", role: "rowgroup" }, this.head), this.body);
    this.element.append(this.controls(), this.scroller);
    this.scroller.addEventListener("scroll", () => this.draw());
    this.scroller.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => {
      const shown = this.scroller.clientHeight > 0;
      if (shown && !this.shown) this.scrollTo(this.at); // a tab that was not open cannot scroll
      this.shown = shown;
      this.fit();
      this.draw();
    }).observe(this.scroller);
    window.addEventListener("beforeprint", () => this.drawRows(0, MOST_PRINTED));
    window.addEventListener("afterprint", () => this.draw());
    store.on((_, changed) => {
      if (changed.has("focus")) this.show(store.state.focus);
      else if (["sort", "query", "least", "metric", "columns", "own", "flat", "apart"].some((key) => changed.has(key as never))) this.update();
    });
    this.update();
    if (store.state.focus) this.show(store.state.focus);
  }

  get columns(): Metric[] {
    const chosen = this.store.state.columns;
    const metrics = this.tree.modules.metrics;
    if (!chosen) return metrics.filter((metric) => metric.shown);
    const ids = new Set(chosen.split(","));
    return metrics.filter((metric) => ids.has(metric.id));
  }

  private controls(): HTMLElement {
    const { store, tree } = this;
    const search = el("input", {
      type: "search", placeholder: "Search (press /)", "aria-label": "Search modules", value: store.state.query,
      oninput: (event: InputEvent) => store.set({ query: (event.target as HTMLInputElement).value }),
    }) as HTMLInputElement;
    document.addEventListener("keydown", (event) => {
      const target = event.target as HTMLElement;
      if (event.key === "/" && !/^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName)) {
        event.preventDefault();
        search.focus();
      }
    });
    store.on((state) => {
      if (search.value !== state.query) search.value = state.query;
    });
    const check = (key: "own" | "flat" | "apart", label: string, about: string) => {
      const box = el("input", { type: "checkbox", onchange: () => store.set({ [key]: (box as HTMLInputElement).checked }) }) as HTMLInputElement;
      box.checked = store.state[key];
      store.on((state) => (box.checked = state[key]));
      return el("label", { class: "check", title: about }, box, label);
    };
    return el("div", { class: "controls" },
      search,
      check("own", "self only", "Figures of the module itself, without its submodules"),
      check("flat", "flat list", "Every row without nesting, so that sorting ranks all of them"),
      this.tree.modules.alike.length ? check("apart", "each block", "Every block of a stack in a row of its own") : null,
      el("button", { type: "button", onclick: () => { tree.setAll(true); this.update(); } }, "Expand all"),
      el("button", { type: "button", onclick: () => { tree.setAll(false); this.update(); } }, "Collapse"),
      this.filter(),
      this.phases(),
      this.chooser(),
      copyMenu(() => this.copied()),
      this.status,
    );
  }

  private filter(): HTMLElement {
    const { store } = this;
    const choice = el("select", { "aria-label": "Filter", title: "Hide rows with a small share of what the icicle shows", onchange: () => store.set({ least: choice.value }) },
      el("option", { value: "" }, "all rows"), ...["0.001", "0.01", "0.05"].map((share) => el("option", { value: share }, `from ${Number(share) * 100}%`))) as HTMLSelectElement;
    const follow = () => (choice.value = store.state.least);
    store.on(follow);
    follow();
    return choice;
  }

  /** Columns of one phase, beside the parameters; nothing where only one phase ran. */
  private phases(): HTMLElement | null {
    const { metrics } = this.tree.modules;
    const known = [...new Set(metrics.map((metric) => metric.phase).filter(Boolean))];
    if (known.length < 2) return null;
    const ids = (phase: string) => metrics.filter((metric) => metric.phase === phase || metric.id === "params").map((metric) => metric.id).join(",");
    const choice = el("select", { "aria-label": "Phase", title: "Columns of one phase", onchange: () => this.store.set({ columns: choice.value ? ids(choice.value) : "" }) },
      el("option", { value: "" }, "all phases"), ...known.map((phase) => el("option", { value: phase }, phase))) as HTMLSelectElement;
    const follow = () => (choice.value = known.find((phase) => ids(phase) === this.store.state.columns) ?? "");
    this.store.on(follow);
    follow();
    return choice;
  }

  private chooser(): HTMLElement {
    const list = el("div", { class: "menu" });
    const menu = el("details", { class: "drop" }, el("summary", {}, "Columns"), list);
    for (const metric of this.tree.modules.metrics) {
      const box = el("input", { type: "checkbox", "data-metric": metric.id, onchange: () => {
        const ids = new Set(this.columns.map((one) => one.id));
        if ((box as HTMLInputElement).checked) ids.add(metric.id);
        else ids.delete(metric.id);
        this.store.set({ columns: [...ids].join(",") });
      } }) as HTMLInputElement;
      box.checked = this.columns.includes(metric);
      this.store.on(() => (box.checked = this.columns.includes(metric)));
      list.append(el("label", { class: "check", title: metric.about }, box, metric.label));
    }
    return menu;
  }

  private order(): ((a: Group, b: Group) => number) | null {
    const [id, direction] = this.store.state.sort.split(":");
    const up = direction === "asc" ? 1 : -1;
    if (id === "name") return (a, b) => up * this.tree.label(a).localeCompare(this.tree.label(b), undefined, { numeric: true });
    const metric = id ? this.tree.metric(id) : undefined;
    if (!metric) return null;
    const own = this.store.state.own;
    return (a, b) => {
      const [x, y] = [this.tree.value(metric, a, own), this.tree.value(metric, b, own)];
      if (x === y) return 0;
      if (x === null) return 1;
      if (y === null) return -1;
      return up * (x - y);
    };
  }

  /** Whether a row has the share of the icicle's metric that the filter asks for. */
  private large(): (group: Group) => boolean {
    const [least, metric] = [Number(this.store.state.least), this.tree.area(this.store.state.metric)];
    const whole = metric?.total[0] ?? 0;
    if (!least || !metric || !whole) return () => true;
    return (group) => (this.tree.value(metric, group, false) ?? 0) >= least * whole;
  }

  update(): void {
    const { state } = this.store;
    const keeps = this.tree.search(state.query);
    const choice = { order: this.order(), keeps, large: this.large(), apart: state.apart };
    this.rows = state.flat ? this.tree.flat(choice) : this.tree.rows(choice);
    const matches = keeps ? keeps.reduce((sum, keep) => sum + (keep & 1), 0) : 0;
    this.status.textContent = keeps ? `${matches} match${matches === 1 ? "" : "es"}` : `${this.rows.length} row${this.rows.length === 1 ? "" : "s"} of ${this.tree.size} module${this.tree.size === 1 ? "" : "s"}`;
    this.at = Math.min(this.at, Math.max(0, this.rows.length - 1));
    this.fit();
    this.scroller.setAttribute("aria-rowcount", String(this.rows.length + 1));
    this.drawHead();
    this.draw();
  }

  /** Widths that fill the table without cutting a column, if there is room for all. */
  private fit(): void {
    const columns = this.columns.map((metric) => (metric.label.length > 16 || /\S{11}/.test(metric.label) ? LONG : COLUMN));
    const rest = this.scroller.clientWidth - columns.reduce((sum, width) => sum + width, 0) - this.shape;
    const narrow = this.scroller.clientWidth < 700;
    const name = Math.max(narrow ? 150 : LEAST_NAME, Math.min(MOST_NAME, rest));
    this.scroller.style.setProperty("--columns", `${name}px ${columns.map((width) => `${width}px`).join(" ")} ${this.shape + Math.max(0, rest - name)}px`);
  }

  private drawHead(): void {
    clear(this.head);
    const [sorted, direction] = this.store.state.sort.split(":");
    const title = (id: string, label: string, about: string) => {
      const arrow = sorted === id ? (direction === "asc" ? " ▲" : " ▼") : "";
      const sort = () => {
        const next = sorted !== id ? `${id}:${id === "name" ? "asc" : "desc"}` : direction === "desc" ? `${id}:asc` : "";
        this.store.set({ sort: next });
      };
      return el("div", {
        class: id === "name" ? "td name" : "td", role: "columnheader", "aria-sort": arrow ? (direction === "asc" ? "ascending" : "descending") : "none",
      }, el("button", { type: "button", title: about, "data-sort": id, onclick: sort }, `${label}${arrow}`));
    };
    this.head.append(title("name", "module", "The module's name and class"));
    for (const metric of this.columns) this.head.append(title(metric.id, metric.label, metric.about));
    this.head.append(el("div", { class: "td shape", role: "columnheader" }, el("span", {}, "output")));
  }

  /** Draw the rows in sight. */
  private draw(): void {
    const top = this.scroller.scrollTop;
    this.drawRows(Math.floor(top / HEIGHT) - SPARE, Math.ceil((top + this.scroller.clientHeight) / HEIGHT) + SPARE);
    this.body.style.height = `${this.rows.length * HEIGHT}px`;
    this.scroller.style.maxHeight = `${this.rows.length * HEIGHT + this.head.offsetHeight + EDGES}px`;
    this.scroller.setAttribute("aria-activedescendant", `row-${this.at}`);
  }

  private drawRows(from: number, to: number): void {
    const drawn: HTMLElement[] = [];
    for (let i = Math.max(0, from); i < Math.min(this.rows.length, to); i += 1) drawn.push(this.row(i));
    this.body.style.height = `${Math.min(this.rows.length, to) * HEIGHT}px`;
    this.body.replaceChildren(...drawn);
    const tight = drawn.map((row) => row.firstElementChild!).filter((name) => name.scrollWidth > name.clientWidth);
    for (const name of tight) name.classList.add("tight"); // the class stands in the details
  }

  private row(place: number): HTMLElement {
    const { tree, store } = this;
    const { group, depth } = this.rows[place]!;
    const { own, flat, query } = store.state;
    const opens = tree.hasChildren(group) && !flat && !query;
    const open = tree.open.has(group.key);
    const mark = tree.word(tree.modules.mark, group);
    const name = el("span", { class: "td name", role: "gridcell", title: tree.title(group), style: `--depth:${depth}` },
      el("button", {
        type: "button", class: "twist", tabindex: "-1", "aria-label": `${open ? "Collapse" : "Expand"} ${tree.title(group)}`, "data-opens": String(opens), disabled: !opens,
        onclick: (event: MouseEvent) => { event.stopPropagation(); this.toggle(group); },
      }, opens ? (open ? "▾" : "▸") : ""),
      group.parent ? (flat ? group.key : group.name) : tree.kind(group),
      group.parent && tree.kind(group) ? el("span", { class: "kind" }, `: ${tree.kind(group)}`) : null,
      group.modules.length > 1 ? el("b", { class: "times" }, tree.times(group)) : null,
      group.run > 1 && open && opens && !store.state.apart ? this.parting(group) : null,
      mark ? el("i", { class: "soft" }, ` ${mark}`) : null,
    );
    const cells = this.columns.map((metric) => {
      const value = tree.value(metric, group, own);
      const whole = metric.total[0];
      const share = metric.adds && value && whole ? Math.min(1, value / whole) : 0;
      return el("span", { class: "td num", role: "gridcell", style: share ? `--share:${(share * 100).toFixed(1)}%` : undefined }, told(value, metric));
    });
    const chosen = group.key === store.state.focus;
    return el("div", {
      class: `tr${chosen ? " chosen" : ""}${place === this.at ? " at" : ""}`, role: "row", id: `row-${place}`, style: `top:${place * HEIGHT}px`, "aria-level": depth + 1,
      "aria-expanded": opens ? String(open) : undefined, "aria-selected": String(chosen), "aria-rowindex": place + 2, "data-path": group.key,
      onclick: () => { this.at = place; store.set({ focus: group.key }); this.draw(); },
      ondblclick: () => this.toggle(group),
    }, name, ...cells, el("span", { class: "td shape soft", role: "gridcell", title: tree.word(tree.modules.output, group) }, tree.word(tree.modules.output, group)));
  }

  /** The button that shows the blocks of a stack one by one, or as one again. */
  private parting(group: Group): HTMLElement {
    const apart = this.tree.apart.has(group.key);
    return el("button", { type: "button", class: "parting", tabindex: "-1", onclick: (event: MouseEvent) => { event.stopPropagation(); this.part(group); } }, apart ? "as one" : "each");
  }

  private part(group: Group): void {
    const { apart } = this.tree;
    if (!apart.delete(group.key)) apart.add(group.key);
    this.update();
  }

  private toggle(group: Group): void {
    if (!this.tree.hasChildren(group)) return;
    this.tree.toggle(group);
    this.update();
  }

  private show(key: string): void {
    const group = this.tree.find(key);
    if (!group) return;
    this.tree.reveal(group);
    this.update();
    const place = this.rows.findIndex((row) => row.group.key === key);
    if (place < 0) return;
    this.at = place;
    this.scrollTo(place);
    this.draw();
  }

  private scrollTo(place: number): void {
    const [top, room] = [place * HEIGHT, this.scroller.clientHeight - 2 * HEIGHT];
    if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
    else if (top > this.scroller.scrollTop + room) this.scroller.scrollTop = top - room;
  }

  private key(event: KeyboardEvent): void {
    if (event.target !== this.scroller || !this.rows[this.at]) return;
    const { group, depth } = this.rows[this.at]!;
    const [opens, open] = [this.tree.hasChildren(group), this.tree.open.has(group.key)];
    const step = (to: number) => {
      this.at = Math.max(0, Math.min(this.rows.length - 1, to));
      this.scrollTo(this.at);
      this.draw();
    };
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / HEIGHT) - 2);
    switch (event.key) {
      case "ArrowDown": step(this.at + 1); break;
      case "ArrowUp": step(this.at - 1); break;
      case "PageDown": step(this.at + page); break;
      case "PageUp": step(this.at - page); break;
      case "Home": step(0); break;
      case "End": step(this.rows.length - 1); break;
      case "ArrowRight":
        if (opens && !open) this.toggle(group);
        else step(this.at + 1);
        break;
      case "ArrowLeft":
        if (opens && open) this.toggle(group);
        else {
          let up = this.at;
          while (up > 0 && this.rows[up]!.depth >= depth) up -= 1;
          step(up);
        }
        break;
      case "Enter":
      case " ":
        this.store.set({ focus: group.key });
        this.draw();
        break;
      case "x":
        if (group.run > 1) this.part(group);
        break;
      default: return;
    }
    event.preventDefault();
  }

  /** The table as it stands, for the clipboard and for files. */
  private copied(): { head: string[]; rows: string[][]; raw: (string | number | null)[][] } {
    const { own } = this.store.state;
    const { tree, columns } = this;
    const line = <T>(name: T, group: Group, cell: (value: number | null, metric: Metric) => T): (T | string)[] => [
      name, ...columns.map((metric) => cell(tree.value(metric, group, own), metric)), tree.word(tree.modules.output, group),
    ];
    return {
      head: ["module", ...columns.map((metric) => metric.label), "output"],
      rows: this.rows.map(({ group, depth }) => line(`${"  ".repeat(depth)}${tree.label(group)}${tree.times(group).replace("×", "x")}`, group, (value, metric) => say(value, metric.unit))),
      raw: this.rows.map(({ group }) => line<string | number | null>(group.key, group, (value) => value)),
    };
  }
}
