// Bundles the page into src/flopsight/render/html/. The output is committed, so that installing flopsight needs no Node.
import { build } from "esbuild";

const out = new URL("../src/flopsight/render/html/", import.meta.url).pathname;
const shared = { bundle: true, minify: true, charset: "utf8", logLevel: "warning", legalComments: "none" };
await build({ ...shared, entryPoints: ["src/main.ts"], format: "iife", target: "es2022", outfile: `${out}report.js` });
await build({ ...shared, entryPoints: ["src/style.css"], outfile: `${out}report.css` });
