// Text on every area can be read: WCAG's contrast of at least 4.5 in both themes, with the style sheet's own ink.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { tint } from "../src/palette";
import shared from "../src/shared.json";

function luminance(hex: string): number {
  const [r, g, b] = [1, 3, 5].map((at) => {
    const one = Number.parseInt(hex.slice(at, at + 2), 16) / 255;
    return one <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r! + 0.7152 * g! + 0.0722 * b!;
}

const contrast = (a: string, b: string) => {
  const [light, dark] = [luminance(a), luminance(b)].sort((x, y) => y - x);
  return (light! + 0.05) / (dark! + 0.05);
};
const inks = [...readFileSync("src/style.css", "utf8").matchAll(/--ink: (#[0-9a-f]{6})/g)].map((found) => found[1]!);
const hues = [...shared.hues, shared.grey];

for (const [theme, ink] of [["light", inks[0]!], ["dark", inks[1]!]] as const) {
  for (const hue of new Set(hues)) {
    test(`${hue} in ${theme}`, () => assert.ok(contrast(tint(hue, theme), ink) >= 4.5, `${contrast(tint(hue, theme), ink)}`));
  }
}
