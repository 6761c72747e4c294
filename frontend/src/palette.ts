// Colours: one for each class of module, for each kind of memory, for what binds a module and for each phase.
import { isDark } from "./dom";
import shared from "./shared.json";
import type { Tree } from "./tree";

const PAGES = { light: [255, 255, 255], dark: [16, 20, 27] } as const;
/** How much of a hue is left in an area, so that text on it can be read. */
const SHARES = { light: 0.55, dark: 0.38 } as const;
const BINDS: Record<string, number> = { memory: 0, launch: 1, compute: 2, communication: 3, "depends on fusion": 4 };

const channels = (hex: string) => [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16));

/** A hue as an area of the page, in a theme. */
export function tint(hex: string, theme: "light" | "dark", share: number = SHARES[theme]): string {
  const mixed = channels(hex).map((one, i) => Math.round(one * share + PAGES[theme][i]! * (1 - share)));
  return `#${mixed.map((one) => one.toString(16).padStart(2, "0")).join("")}`;
}

/** The same where no text stands on it. */
const TEXTLESS = 0.8;
const area = (hex: string, share?: number) => tint(hex, isDark() ? "dark" : "light", share);

export const neutral = () => area(shared.grey);
export const kindColour = (kind: string) => area((shared.kinds as Record<string, string>)[kind] ?? shared.grey, TEXTLESS);
export const boundColour = (bound: string) => area(shared.hues[BINDS[bound] ?? -1] ?? shared.grey);
/** A share of the largest, from the page's own colour to a full hue. */
export const heat = (share: number) => area(shared.hues[1]!, SHARES[isDark() ? "dark" : "light"] * (0.06 + 0.94 * Math.sqrt(share)));
export const phaseColour = (phase: string) => area((shared.phases as Record<string, string>)[phase] ?? shared.grey);

/** The hues of classes: those that most of the time, or work, is in have one; what only holds other modules is grey. */
export class Classes {
  private readonly hues = new Map<string, string>();

  constructor(tree: Tree) {
    const metric = tree.area("");
    const { kind, words } = tree.modules;
    const own = metric ? tree.own(metric) : [];
    const sums = new Map<string, number>();
    kind.forEach((word, module) => { sums.set(words[word]!, (sums.get(words[word]!) ?? 0) + (own[module] ?? 0)); });
    const whole = metric?.total[0] ?? 0;
    const ranked = [...sums].filter(([, sum]) => sum > 0.002 * whole).sort((a, b) => b[1] - a[1]);
    ranked.slice(0, shared.hues.length).forEach(([word], i) => { this.hues.set(word, shared.hues[i]!); });
  }

  /** The hue itself, for lines and points. */
  hue(kind: string): string {
    return this.hues.get(kind) ?? shared.grey;
  }

  paint(kind: string): string {
    return area(this.hue(kind));
  }

  get named(): string[] {
    return [...this.hues.keys()];
  }
}
