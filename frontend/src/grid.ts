// A plain table that sorts by any column; rows about a module lead to it.
import { clear, el } from "./dom";
import { copyMenu } from "./export";
import type { Store } from "./state";
import type { Grid } from "./types";
import { change, growth, say } from "./units";

const FIRST_ROWS = 300;

export function gridView(grid: Grid, store: Store | null): HTMLElement {
  let column = -1;
  let down = true;
  let most = FIRST_ROWS;
  const table = el("table", { class: "grid" });
  const more = el("button", { type: "button", onclick: () => { most = Infinity; draw(); } });
  const order = grid.rows.map((_, i) => i);
  const differs = (i: number) => grid.columns[i]!.label.startsWith("change");
  const text = (value: string | number | null, i: number) => {
    const unit = grid.columns[i]!.unit;
    if (typeof value === "string" || unit === "text" || unit === "number") return String(value ?? "");
    if (unit === "growth") return value === null ? "new" : growth(value);
    return differs(i) ? change(value, unit) : say(value, unit);
  };
  /** The longest bar of a column; none where all rows have the same. */
  const largest = grid.columns.map((_, i) => {
    const values = grid.rows.map((row) => row[i]).filter((value): value is number => typeof value === "number").map(Math.abs);
    return new Set(values).size > 1 ? values.reduce((most, value) => Math.max(most, value), 0) : 0;
  });

  const draw = () => {
    clear(table);
    const sorted = column < 0 ? order : [...order].sort((a, b) => {
      const [x, y] = [grid.rows[a]![column] ?? null, grid.rows[b]![column] ?? null];
      if (x === null || y === null) return x === y ? 0 : x === null ? 1 : -1;
      const by = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y), undefined, { numeric: true });
      return down ? -by : by;
    });
    table.append(el("thead", {}, el("tr", {}, ...grid.columns.map(({ label, unit }, i) =>
      el("th", { class: unit === "text" ? "left" : undefined, "aria-sort": column === i ? (down ? "descending" : "ascending") : "none" },
        el("button", { type: "button", onclick: () => { down = column === i ? !down : true; column = i; draw(); } },
          `${label}${column === i ? (down ? " ▼" : " ▲") : ""}`))))));
    const body = el("tbody", {});
    for (const i of sorted.slice(0, most)) {
      const module = grid.modules?.[i] ?? null;
      body.append(el("tr", {}, ...grid.rows[i]!.map((value, at) => {
        const unit = grid.columns[at]!.unit;
        const shown = text(value, at);
        if (at === 0 && module !== null && store) {
          return el("td", { class: "left" }, el("button", { type: "button", class: "link", onclick: () => store.set({ tab: "modules", focus: module }) }, shown));
        }
        const sign = differs(at) && typeof value === "number" ? (value > 0 ? " grew" : value < 0 ? " fell" : "") : "";
        const share = unit !== "text" && typeof value === "number" && largest[at] ? Math.abs(value) / largest[at]! : 0;
        return el("td", { class: (unit === "text" ? "left" : "num") + sign, style: share ? `--share:${(share * 100).toFixed(1)}%` : undefined }, shown);
      })));
    }
    table.append(body);
    more.hidden = grid.rows.length <= most;
    more.textContent = `Show all ${grid.rows.length} rows`;
  };
  draw();
  const copied = () => ({ head: grid.columns.map((one) => one.label), rows: grid.rows.map((row) => row.map(text)), raw: grid.rows });
  return el("section", {}, el("div", { class: "controls" }, el("h2", {}, grid.title), copyMenu(copied)),
    grid.about ? el("p", { class: "soft about" }, grid.about) : null, el("div", { class: "grid-box", tabindex: "0", role: "region", "aria-label": grid.title }, table), more);
}
