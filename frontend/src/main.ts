// The page: the headline, then tabs for what the profile holds.
import { Details } from "./details";
import { el } from "./dom";
import { findingsView } from "./findings";
import { graphView } from "./graphview";
import { gridView } from "./grid";
import { head } from "./head";
import { Icicle } from "./icicle";
import { memoryView } from "./memory";
import { Classes } from "./palette";
import { readReport } from "./payload";
import { rooflineView } from "./roofline";
import { Store } from "./state";
import { TreeTable } from "./table";
import { timelineView } from "./timeline";
import { Tree } from "./tree";
import type { Report } from "./types";

/** Pixels of the next title that are in sight beside the chosen one. */
const PEEK = 36;

interface Tab { id: string; label: string; make: () => HTMLElement }

function tabs(report: Report, tree: Tree | null, store: Store): Tab[] {
  const classes = tree ? new Classes(tree) : null;
  const found: (Tab | null | undefined | false)[] = [
    report.diff && { id: "diff", label: "What changed", make: () => el("div", {}, ...report.diff!.map((grid) => gridView(grid, store))) },
    tree && classes && { id: "modules", label: "Modules", make: () => {
      const [icicle, table, details] = [new Icicle(tree, store, classes), new TreeTable(tree, store), new Details(tree, store)];
      return el("div", { class: "modules" }, icicle.element, el("div", { class: "beside" }, table.element, details.element));
    } },
    report.graph && tree && classes && { id: "graph", label: "Model graph", make: () =>
      el("div", { class: "beside" }, graphView(report.graph!, tree, store, classes), new Details(tree, store).element) },
    report.findings && { id: "findings", label: "Findings", make: () => findingsView(report.findings!, tree, store) },
    report.roofline && tree && classes && { id: "roofline", label: "Roofline", make: () =>
      el("div", { class: "beside" }, rooflineView(report.roofline!, tree, store, classes), new Details(tree, store).element) },
    report.operators && { id: "operators", label: "Operators", make: () => gridView(report.operators!, store) },
    report.memory && { id: "memory", label: "Memory", make: () => memoryView(report.memory!, tree, store) },
    report.timeline && { id: "timeline", label: "Timeline", make: () => timelineView(report.timeline!, tree, store) },
    report.ranks && { id: "ranks", label: "Ranks", make: () => el("div", {}, ...report.ranks!.map((grid) => gridView(grid, store))) },
  ];
  return found.filter((tab): tab is Tab => Boolean(tab));
}

function strip(all: Tab[], store: Store): HTMLElement {
  const made = new Map<string, HTMLElement>();
  const panel = el("div", { role: "tabpanel", id: "panel", tabindex: "-1" });
  const buttons = all.map((tab) => el("button", { type: "button", role: "tab", id: `tab-${tab.id}`, "aria-controls": "panel", onclick: () => store.set({ tab: tab.id }) }, tab.label));
  const bar = el("div", { role: "tablist", class: "tabs", "aria-label": "Views" }, ...buttons);
  const show = () => {
    const chosen = all.find((tab) => tab.id === store.state.tab) ?? all[0];
    if (!chosen) return;
    if (!made.has(chosen.id)) made.set(chosen.id, chosen.make());
    buttons.forEach((button, i) => {
      const on = all[i] === chosen;
      button.setAttribute("aria-selected", String(on));
      button.tabIndex = on ? 0 : -1;
    });
    panel.setAttribute("aria-labelledby", `tab-${chosen.id}`);
    const view = made.get(chosen.id)!;
    if (panel.firstChild !== view) panel.replaceChildren(view);
    const on = buttons[all.indexOf(chosen)]!;
    const [left, right] = [on.offsetLeft - bar.offsetLeft - PEEK, on.offsetLeft + on.offsetWidth - bar.offsetLeft + PEEK];
    if (left < bar.scrollLeft) bar.scrollLeft = left;
    else if (right > bar.scrollLeft + bar.clientWidth) bar.scrollLeft = right - bar.clientWidth;
  };
  bar.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const at = all.findIndex((tab) => tab.id === store.state.tab);
    const next = (Math.max(0, at) + step + all.length) % all.length;
    store.set({ tab: all[next]!.id });
    buttons[next]!.focus();
  });
  store.on((_, changed) => {
    if (changed.has("tab")) show();
  });
  /** The strip fades out where more titles are. */
  const fade = () => {
    bar.classList.toggle("before", bar.scrollLeft > 1);
    bar.classList.toggle("after", bar.scrollLeft + bar.clientWidth < bar.scrollWidth - 1);
  };
  bar.addEventListener("scroll", fade);
  new ResizeObserver(() => { show(); fade(); }).observe(bar);
  show();
  return el("main", {}, bar, panel);
}

async function start(): Promise<void> {
  const app = document.getElementById("app")!;
  const report = await readReport();
  const tree = report.modules ? new Tree(report.modules) : null;
  const store = new Store();
  if (tree && !tree.find(store.state.focus)) store.state.focus = "";
  const all = tabs(report, tree, store);
  if (!all.some((tab) => tab.id === store.state.tab) && all[0]) store.state.tab = all[0].id;
  else if (report.diff && !location.hash.includes("tab=")) store.state.tab = "diff";
  app.replaceChildren(head(report, store), strip(all, store), el("footer", { class: "soft" }, report.made));
  document.documentElement.dataset["ready"] = "yes";
  performance.mark("ready");
}

start().catch((problem: unknown) => {
  const app = document.getElementById("app")!;
  app.replaceChildren(el("p", { class: "warn" }, `The page could not be drawn: ${String(problem)}. The file's data is still in it; open the .json with flopsight show.`));
  throw problem;
});
