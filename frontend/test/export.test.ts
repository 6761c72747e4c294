import assert from "node:assert/strict";
import { test } from "node:test";
import { csv, latex, markdown } from "../src/export";

const table = { head: ["module", "50%"], rows: [["  a_b|<i>", "1"]], raw: [["=cmd()", 1], ['a,"b"\n', null]] };

test("no cell is markup in Markdown", () => {
  assert.equal(markdown(table).split("\n")[2], "| &nbsp;&nbsp;a\\_b\\|\\<i\\> | 1 |");
});

test("no cell is a formula in CSV, and numbers stay numbers", () => {
  assert.deepEqual(csv(table).split("\n"), ["module,50%", "'=cmd(),1", '"a,""b"" ",', ""]);
});

test("no cell is a command in LaTeX", () => {
  assert.ok(latex(table).includes("\\hspace{1em}a\\_b|\\textless{}i\\textgreater{} & 1 \\\\"));
  assert.ok(latex(table).includes("50\\%"));
});
