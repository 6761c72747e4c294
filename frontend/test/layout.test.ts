import assert from "node:assert/strict";
import { test } from "node:test";
import { bands, joined, modulesOf, nested, type Span } from "../src/lanes";
import { apart, fitted, placed, ticks } from "../src/layout";

test("ticks are round and inside", () => {
  assert.deepEqual(ticks(0, 12.9, 7), [0, 2, 4, 6, 8, 10, 12]);
  assert.deepEqual(ticks(0.31, 0.58, 3), [0.4, 0.5]);
  assert.deepEqual(ticks(0, 7, 5), [0, 2, 4, 6]);
});

test("labels lie on no other and inside the room; one without room is left out", () => {
  const room = { x: 0, y: 0, width: 100, height: 40 };
  const boxes = placed([{ x: 50, y: 20, radius: 2, width: 30 }, { x: 50, y: 20, radius: 2, width: 30 }, { x: 50, y: 20, radius: 2, width: 300 }], 10, room, []);
  assert.ok(boxes[0] && boxes[1]);
  assert.ok(boxes[0]!.x >= boxes[1]!.x + 30 || boxes[1]!.x >= boxes[0]!.x + 30 || Math.abs(boxes[0]!.y - boxes[1]!.y) >= 10);
  assert.equal(boxes[2], null);
});

test("a text that does not fit ends in an ellipsis", () => {
  const measure = (text: string) => text.length * 10;
  assert.equal(fitted("abcdef", 60, measure), "abcdef");
  assert.equal(fitted("abcdef", 45, measure), "abc…");
  assert.equal(fitted("abcdef", 15, measure), "");
});

const span = (path: string, begin: number, end: number, phase = "backward", kind = "op"): Span => ({ name: path, path, kind, phase, begin, end });

test("work of one module is one span at each depth, until another module runs", () => {
  const rows = modulesOf([span("h.1.mlp", 0, 2), span("h.1.attn", 2, 5), span("h.0.mlp", 5, 6), span("<outside>", 6, 7)], "Net");
  assert.deepEqual(rows.map((row) => row.map(({ path, begin, end }) => [path, begin, end])), [
    [["", 0, 6]],
    [["h", 0, 6]],
    [["h.1", 0, 5], ["h.0", 5, 6]],
    [["h.1.mlp", 0, 2], ["h.1.attn", 2, 5], ["h.0.mlp", 5, 6]],
  ]);
});

test("phases are bands from the first to the last op of each stretch", () => {
  const found = bands([span("a", 0, 2, "forward"), span("b", 2, 5, "forward"), span("b", 5, 9), span("b", 6, 8, "recompute"), span("", 9, 12, "optimizer"), span("k", 0, 99, "forward", "kernel")]);
  assert.deepEqual(found.map(({ name, begin, end }) => [name, begin, end]), [["forward", 0, 5], ["backward", 5, 9], ["optimizer", 9, 12]]);
});

test("a span inside another is a row further down", () => {
  const rows = nested([span("a", 0, 10), span("b", 2, 4), span("c", 10, 11)]);
  assert.deepEqual(rows.map((row) => row.map(({ path }) => path)), [["a", "c"], ["b"]]);
});

test("a name is as long as tells it apart from the others", () => {
  assert.deepEqual(apart(["", "h.0-23.attn.c_proj", "h.0-23.mlp.c_proj", "h.0-23.mlp.c_fc"]), ["", "attn.c_proj", "mlp.c_proj", "c_fc"]);
  assert.deepEqual(apart(["layer1.0-1.conv1", "layer2.0.conv1", "layer2.1.conv1", "4"]), ["layer1.conv1", "layer2.0.conv1", "layer2.1.conv1", "4"]);
});

test("spans too narrow to be drawn join their neighbours of the same phase, and none is left out", () => {
  const span = (begin: number, end: number, phase: string): Span => ({ name: "op", path: "", kind: "op", phase, begin, end });
  // a pixel is 10 wide: one span of its own, three that touch or nearly do, one of another phase, one far away
  const row = [span(0, 20, "forward"), span(20, 22, "forward"), span(24, 26, "forward"), span(26, 29, "forward"), span(29, 30, "backward"), span(95, 96, "backward")];
  assert.deepEqual(joined(row, 10).map(({ begin, end, phase }) => [begin, end, phase]), [
    [0, 20, "forward"], [20, 29, "forward"], [29, 30, "backward"], [95, 96, "backward"],
  ]);
  assert.equal(row[1]!.end, 22);
});
