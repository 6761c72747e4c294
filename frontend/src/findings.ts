// What to change first: ranked findings, each with its numbers and the modules that it is about.
import { el } from "./dom";
import type { Store } from "./state";
import type { Tree } from "./tree";
import type { Finding } from "./types";
import { percent, seconds } from "./units";

/** What a finding promises, in words. */
export function toWin(finding: Finding): string {
  return finding.seconds === null ? "" : `at most ${seconds(finding.seconds)}${finding.share === null ? "" : ` (${percent(finding.share)})`} to win`;
}

export function findingsView(findings: Finding[], tree: Tree | null, store: Store): HTMLElement {
  const list = el("ol", { class: "findings" });
  for (const finding of findings) {
    const win = toWin(finding);
    const places = tree ? finding.modules.slice(0, 8).flatMap((key) => tree.find(key) ?? []).map((group) =>
      el("button", { type: "button", class: "link", onclick: () => store.set({ tab: "modules", focus: group.key }) }, tree.title(group))) : [];
    list.append(el("li", {}, el("b", {}, finding.title), win ? el("span", { class: "win" }, win) : null,
      el("p", {}, finding.text), finding.next ? el("p", {}, el("b", {}, "Next: "), finding.next) : null, el("p", { class: "places" }, ...places)));
  }
  return el("section", {}, el("h2", {}, findings.length ? "What to change first" : "No findings"), list);
}
