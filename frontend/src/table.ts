// The tree table: only the rows in sight are drawn, so that fifty thousand modules scroll like fifty.
import { clear, el } from "./dom";
import { copyMenu } from "./export";
import type { Store } from "./state";
import type { Row, Tree } from "./tree";
import type { Metric } from "./types";
import { say } from "./units";

const HEIGHT = 26;
const SPARE = 8;
const MOST_PRINTED = 400;

export class TreeTable {
  readonly element = el("section", { class: "table-box", "aria-label": "Modules" });
  private readonly scroller = el("div", { class: "scroller", tabindex: "0", role: "treegrid", "aria-label": "Module tree" });
  private readonly head = el("div", { class: "tr head", role: "row" });
  private readonly body = el("div", { class: "rows" });
  private readonly status = el("span", { class: "soft", role: "status" });
  private rows: Row[] = [];
  private at = 0;

  constructor(private readonly tree: Tree, private readonly store: Store) {
    this.scroller.append(this.head, this.body);
    this.element.append(this.controls(), this.scroller);
    this.scroller.addEventListener("scroll", () => this.draw());
    this.scroller.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(this.scroller);
    window.addEventListener("beforeprint", () => this.drawRows(0, MOST_PRINTED));
    window.addEventListener("afterprint", () => this.draw());
    store.on((_, changed) => {
      if (changed.has("focus")) this.show(store.state.focus);
      else if (["sort", "query", "least", "metric", "columns", "own", "flat"].some((key) => changed.has(key as never))) this.update();
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
    const check = (key: "own" | "flat", label: string, about: string) => {
      const box = el("input", { type: "checkbox", onchange: () => store.set({ [key]: (box as HTMLInputElement).checked }) }) as HTMLInputElement;
      box.checked = store.state[key];
      store.on((state) => (box.checked = state[key]));
      return el("label", { class: "check", title: about }, box, label);
    };
    return el("div", { class: "controls" },
      search,
      check("own", "self only", "Figures of the module itself, without its submodules"),
      check("flat", "flat list", "Every module by itself, so that sorting ranks all of them"),
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

  private order(): ((a: Row, b: Row) => number) | null {
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
  private large(): (row: Row) => boolean {
    const [least, metric] = [Number(this.store.state.least), this.tree.area(this.store.state.metric)];
    const whole = metric?.total[0] ?? 0;
    if (!least || !metric || !whole) return () => true;
    return (row) => (this.tree.value(metric, row, false) ?? 0) >= least * whole;
  }

  update(): void {
    const { state } = this.store;
    const keeps = this.tree.search(state.query);
    const [order, large] = [this.order(), this.large()];
    this.rows = state.flat ? this.tree.flat(order, keeps, large) : this.tree.rows(order, keeps, large);
    const matches = keeps ? keeps.reduce((sum, keep) => sum + (keep & 1), 0) : 0;
    this.status.textContent = keeps ? `${matches} match${matches === 1 ? "" : "es"}` : `${this.rows.length} of ${this.tree.size} modules`;
    this.at = Math.min(this.at, Math.max(0, this.rows.length - 1));
    const widths = `var(--first, minmax(9rem, 22rem)) ${this.columns.map((metric) => (metric.label.length > 10 ? "8.6rem" : "6.6rem")).join(" ")} minmax(8rem, 1fr)`;
    this.scroller.style.setProperty("--columns", widths);
    this.scroller.setAttribute("aria-rowcount", String(this.rows.length + 1));
    this.drawHead();
    this.draw();
  }

  private drawHead(): void {
    clear(this.head);
    const [sorted, direction] = this.store.state.sort.split(":");
    const title = (id: string, label: string, about: string) => {
      const arrow = sorted === id ? (direction === "asc" ? " ▲" : " ▼") : "";
      return el("button", {
        type: "button", class: id === "name" ? "td name" : "td", role: "columnheader", title: about, "data-sort": id,
        "aria-sort": arrow ? (direction === "asc" ? "ascending" : "descending") : "none",
        onclick: () => {
          const next = sorted !== id ? `${id}:${id === "name" ? "asc" : "desc"}` : direction === "desc" ? `${id}:asc` : "";
          this.store.set({ sort: next });
        },
      }, `${label}${arrow}`);
    };
    this.head.append(title("name", "module", "The module's name and class"));
    for (const metric of this.columns) this.head.append(title(metric.id, metric.label, metric.about));
    this.head.append(el("span", { class: "td shape" }, "output"));
  }

  /** Draw the rows in sight. */
  private draw(): void {
    const top = this.scroller.scrollTop;
    this.drawRows(Math.floor(top / HEIGHT) - SPARE, Math.ceil((top + this.scroller.clientHeight) / HEIGHT) + SPARE);
    this.body.style.height = `${this.rows.length * HEIGHT}px`;
  }

  private drawRows(from: number, to: number): void {
    const drawn: HTMLElement[] = [];
    for (let i = Math.max(0, from); i < Math.min(this.rows.length, to); i += 1) drawn.push(this.row(i));
    this.body.style.height = `${Math.min(this.rows.length, to) * HEIGHT}px`;
    this.body.replaceChildren(...drawn);
  }

  private row(place: number): HTMLElement {
    const { tree, store } = this;
    const row = this.rows[place]!;
    const { own } = store.state;
    const opens = tree.hasChildren(row) && !store.state.flat && !store.state.query;
    const times = row.run ? ` × ${row.run.length}` : "";
    const mark = tree.word(tree.modules.mark, row.module);
    const name = el("span", { class: "td name", role: "gridcell", title: tree.path(row.module) || "the model", style: `--depth:${row.depth}` },
      el("button", {
        type: "button", class: "twist", tabindex: "-1", "aria-label": tree.isOpen(row) ? "Collapse" : "Expand", "data-opens": String(opens),
        onclick: (event: MouseEvent) => { event.stopPropagation(); this.toggle(row); },
      }, opens ? (tree.isOpen(row) ? "▾" : "▸") : ""),
      store.state.flat && tree.path(row.module) ? `${tree.path(row.module)}: ${tree.word(tree.modules.kind, row.module)}` : tree.label(row),
      times ? el("b", { class: "times" }, times) : null,
      mark ? el("i", { class: "soft" }, ` ${mark}`) : null,
    );
    const cells = this.columns.map((metric) => {
      const value = tree.value(metric, row, own);
      const whole = metric.total[0];
      const share = metric.adds && value && whole ? Math.min(1, value / whole) : 0;
      return el("span", { class: "td num", role: "gridcell", style: share ? `--share:${(share * 100).toFixed(1)}%` : undefined }, say(value, metric.unit));
    });
    const chosen = !row.run && row.module === store.state.focus;
    return el("div", {
      class: `tr${chosen ? " chosen" : ""}${place === this.at ? " at" : ""}`, role: "row", style: `top:${place * HEIGHT}px`, "aria-level": row.depth + 1,
      "aria-expanded": opens ? String(tree.isOpen(row)) : undefined, "aria-selected": String(chosen), "aria-rowindex": place + 2,
      "data-path": row.run ? `${tree.path(row.module)}*` : tree.path(row.module),
      onclick: () => { this.at = place; row.run ? this.toggle(row) : store.set({ focus: row.module }); this.draw(); },
      ondblclick: () => this.toggle(row),
    }, name, ...cells, el("span", { class: "td shape soft", role: "gridcell" }, tree.word(tree.modules.output, row.module)));
  }

  private toggle(row: Row): void {
    if (!this.tree.hasChildren(row)) return;
    this.tree.toggle(row);
    this.update();
  }

  private show(module: number): void {
    this.tree.reveal(module);
    this.update();
    const place = this.rows.findIndex((row) => !row.run && row.module === module);
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
    const row = this.rows[this.at];
    if (!row) return;
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
        if (this.tree.hasChildren(row) && !this.tree.isOpen(row)) this.toggle(row);
        else step(this.at + 1);
        break;
      case "ArrowLeft":
        if (this.tree.hasChildren(row) && this.tree.isOpen(row)) this.toggle(row);
        else {
          let up = this.at;
          while (up > 0 && this.rows[up]!.depth >= row.depth) up -= 1;
          step(up);
        }
        break;
      case "Enter":
      case " ":
        if (row.run) this.toggle(row);
        else this.store.set({ focus: row.module });
        this.draw();
        break;
      default: return;
    }
    event.preventDefault();
  }

  /** The table as it stands, for the clipboard and for files. */
  private copied(): { head: string[]; rows: string[][]; raw: (string | number | null)[][] } {
    const { own } = this.store.state;
    const names = this.rows.map((row) => `${"  ".repeat(row.depth)}${this.tree.label(row)}${row.run ? ` x ${row.run.length}` : ""}`);
    return {
      head: ["module", ...this.columns.map((metric) => metric.label), "output"],
      rows: this.rows.map((row, i) => [names[i]!, ...this.columns.map((metric) => say(this.tree.value(metric, row, own), metric.unit)), this.tree.word(this.tree.modules.output, row.module)]),
      raw: this.rows.map((row) => [this.tree.path(row.module), ...this.columns.map((metric) => this.tree.value(metric, row, own)), this.tree.word(this.tree.modules.output, row.module)]),
    };
  }
}
