// Bundles the page into src/flopsight/render/html/. The output is committed, so that installing flopsight needs no Node.
import { readFileSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const out = new URL("../src/flopsight/render/html/", import.meta.url).pathname;
const shared = { bundle: true, minify: true, charset: "utf8", logLevel: "warning", legalComments: "none" };
await build({ ...shared, entryPoints: ["src/main.ts"], format: "iife", target: "es2022", outfile: `${out}report.js` });
await build({ ...shared, entryPoints: ["src/style.css"], outfile: `${out}report.css` });

// A library's strings hold control characters; a page has none, so they are written as escapes.
const script = readFileSync(`${out}report.js`, "utf8");
const escaped = (found) => `\\x${found.charCodeAt(0).toString(16).padStart(2, "0")}`;
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
writeFileSync(`${out}report.js`, script.replace(/[\x01-\x08\x0b-\x1f\x7f]/g, escaped));

// The terms of what others wrote and the script holds.
const parts = ["@dagrejs/dagre", "@dagrejs/graphlib"].map((name) => {
  const { version } = JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8"));
  return `${name} ${version}\n\n${readFileSync(`node_modules/${name}/LICENSE`, "utf8").trim()}\n`;
});
writeFileSync(`${out}report.js.LICENSE.txt`, `report.js holds these libraries beside flopsight's own code.\n\n${parts.join("\n")}`);
