// A table as Markdown, CSV or LaTeX: on the clipboard or in a file.
import { el } from "./dom";
import shared from "./shared.json";

export interface Table {
  head: string[];
  rows: string[][];
  raw: (string | number | null)[][];
}

/** A name from a profile may hold anything: no control characters, no markup of the target. */
const plain = (text: string) => text.replace(/\p{Cc}+/gu, " ");
const MARKUP = new RegExp(shared.markdown, "g");
const LATEX = shared.latex as Record<string, string>;

export function markdown({ head, rows }: Table): string {
  const cell = (text: string) => plain(text).replace(MARKUP, (letter) => `\\${letter}`).replace(/^ +/, (pad) => "&nbsp;".repeat(pad.length));
  const line = (cells: string[]) => `| ${cells.map(cell).join(" | ")} |`;
  const rule = `| :--- |${head.slice(1).map(() => " ---: |").join("")}`;
  return [line(head), rule, ...rows.map(line)].join("\n");
}

export function csv({ head, raw }: Table): string {
  const cell = (value: string | number | null) => {
    if (value === null) return "";
    if (typeof value === "number") return String(value);
    const text = plain(value);
    const safe = shared.formula.some((sign) => text.startsWith(sign)) ? `'${text}` : text;
    return /[",]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return `${[head, ...raw].map((cells) => cells.map(cell).join(",")).join("\n")}\n`;
}

export function latex({ head, rows }: Table): string {
  const cell = (text: string) => [...plain(text)].map((letter) => LATEX[letter] ?? letter).join("").replace(/^ +/, (pad) => `\\hspace{${pad.length / 2}em}`);
  const line = (cells: string[]) => `${cells.map(cell).join(" & ")} \\\\`;
  return [`\\begin{tabular}{l${"r".repeat(head.length - 1)}}`, "\\toprule", line(head), "\\midrule", ...rows.map(line), "\\bottomrule", "\\end{tabular}"].join("\n");
}

export function download(name: string, text: string, type: string): void {
  const url = URL.createObjectURL(new Blob([text], { type }));
  el("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = el("textarea", { class: "offscreen" }) as HTMLTextAreaElement;
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

export function copyMenu(table: () => Table): HTMLElement {
  const said = el("span", { role: "status", class: "soft" });
  const menu = el("details", { class: "drop" }, el("summary", {}, "Copy"));
  const button = (label: string, act: () => Promise<boolean> | undefined) =>
    el("button", { type: "button", onclick: async () => {
      const done = await act();
      said.textContent = done === false ? "The browser refused" : "Done";
      menu.removeAttribute("open");
      setTimeout(() => (said.textContent = ""), 2000);
    } }, label);
  menu.append(el("div", { class: "menu" },
    button("as Markdown", () => copy(markdown(table()))),
    button("as CSV", () => copy(csv(table()))),
    button("as LaTeX", () => copy(latex(table()))),
    button("Download CSV", () => { download("modules.csv", csv(table()), "text/csv"); return undefined; }),
  ));
  return el("span", {}, menu, said);
}
