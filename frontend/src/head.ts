// The top of the page: what was profiled, the verdict, the figures asked for first, and every figure below a fold.
import { el } from "./dom";
import { download } from "./export";
import { toWin } from "./findings";
import type { Store } from "./state";
import type { Report, Tile } from "./types";

export function head(report: Report, store: Store): HTMLElement {
  const flip = el("button", { type: "button", class: "flip", title: "Light or dark", "aria-label": "Switch between light and dark", onclick: () => {
    document.documentElement.toggleAttribute("data-flipped");
    window.dispatchEvent(new Event("resize"));
  } }, "◐");
  const save = el("button", { type: "button", class: "save", onclick: () => download("report.json", JSON.stringify(report), "application/json") }, "Download data");
  return el("header", {},
    el("div", { class: "top" }, el("div", { class: "named" }, el("h1", {}, report.title), el("p", { class: "soft" }, report.about)), save, flip),
    report.verdict ? el("p", { class: "verdict" }, report.verdict) : null,
    first(report, store),
    el("dl", { class: "tiles" }, ...report.tiles.map((tile) => tileView(tile, report))),
    report.coverage.complete ? null : el("div", { class: "warn", role: "note" }, ...report.coverage.lines.map((line) => el("p", {}, line))),
    el("div", { class: "folds" }, figures(report), notes(report)),
  );
}

/** The finding that promises most, with the way to the others. */
function first({ findings }: Report, store: Store): HTMLElement | null {
  const [top] = findings ?? [];
  if (!top) return null;
  const win = toWin(top);
  const all = findings!.length > 1 ? `All ${findings!.length} findings` : "The finding";
  return el("p", { class: "first" }, el("b", {}, "Change first: "), top.title, win ? el("span", { class: "win" }, win) : null, top.next ? el("span", { class: "soft" }, ` ${top.next} `) : " ",
    el("button", { type: "button", class: "link", onclick: () => store.set({ tab: "findings" }) }, all));
}

/** A figure, with a sign beside it where a note is about it. */
function tileView({ label, value, note, touches, tone }: Tile, report: Report): HTMLElement {
  const doubts = touches ? report.caveats.filter((caveat) => caveat.touches === touches) : [];
  const sign = doubts.length ? el("span", { class: "doubt", role: "img", title: doubts.map(({ text }) => text).join("\n"), "aria-label": `${doubts.length} notes on this number` }, " ⚠") : null;
  return el("div", { class: "tile" }, el("dt", {}, label, sign), el("dd", { class: `value ${tone ?? ""}` }, value), el("dd", { class: "soft" }, note));
}

function figures(report: Report): HTMLElement | null {
  if (!report.cards.length) return null;
  const cards = el("div", { class: "cards" });
  for (const group of report.cards) {
    const list = el("dl", { class: "card" });
    for (const [name, text, note] of group) list.append(el("div", {}, el("dt", {}, name), el("dd", {}, text), note ? el("dd", { class: "made-of" }, note) : null));
    cards.append(list);
  }
  return unfoldedInPrint(el("details", { class: "figures" }, el("summary", {}, "All figures"), cards));
}

function notes({ caveats }: Report): HTMLElement | null {
  if (!caveats.length) return null;
  const title = `${caveats.length} note${caveats.length === 1 ? "" : "s"} on these numbers`;
  return unfoldedInPrint(el("details", { class: "caveats", open: caveats.length === 1 }, el("summary", {}, title),
    el("ul", {}, ...caveats.map(({ text, touches }) => el("li", {}, touches ? el("b", {}, `${touches}: `) : null, text)))));
}

function unfoldedInPrint(fold: HTMLElement): HTMLElement {
  window.addEventListener("beforeprint", () => fold.setAttribute("open", ""));
  return fold;
}
