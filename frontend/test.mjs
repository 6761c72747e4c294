// Bundles every unit test and runs it with Node's own runner.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "esbuild";

const out = mkdtempSync(join(tmpdir(), "flopsight-tests-"));
const tests = readdirSync("test").filter((name) => name.endsWith(".test.ts"));
await build({ entryPoints: tests.map((name) => `test/${name}`), outdir: out, outExtension: { ".js": ".mjs" }, bundle: true, platform: "node", format: "esm", logLevel: "warning" });
const { status } = spawnSync(process.execPath, ["--test", ...tests.map((name) => join(out, name.replace(/ts$/, "mjs")))], { stdio: "inherit" });
rmSync(out, { recursive: true });
process.exit(status ?? 1);
