// Two blocks of a norm and a sum around it, then a head that runs twice: input → stem → h.0-1 (norm, add) → head → head → output.
import assert from "node:assert/strict";
import { test } from "node:test";
import { arranged, curve, Graph } from "../src/graph";
import { Tree } from "../src/tree";
import type { Metric, ModelGraph, Modules } from "../src/types";

function modules(names: [string, number][], alike: number[][] = []): Modules {
  const path: string[] = [];
  for (const [name, parent] of names) path.push(parent > 0 ? `${path[parent]}.${name}` : name);
  const zeros = path.map(() => 0);
  const metric = { id: "time", label: "time", unit: "seconds", about: "", adds: true, total: path.map((_, at) => 100 - at), shown: true, phase: "" } as Metric;
  return { name: names.map(([name]) => name), path, parent: names.map(([, parent]) => parent), alike, kind: zeros, input: zeros, output: zeros, extra: zeros, mark: zeros, bound: zeros, words: ["Net"], calls: zeros, metrics: [metric], ops: {} };
}

const model = () => new Tree(modules([["", -1], ["stem", 0], ["h", 0], ["0", 2], ["norm", 3], ["1", 2], ["norm", 5], ["head", 0]], [[3, 5]]));
const data: ModelGraph = {
  places: [["<input>", 0, ""], ["stem", 0, ""], ["h.0-1.norm", 0, ""], ["h.0-1", 0, "add"], ["head", 0, ""], ["head", 1, ""], ["<output>", 0, ""]],
  links: [[0, 1, 8], [1, 2, 16], [1, 3, 16], [2, 3, 32], [3, 4, 16], [4, 5, 4], [5, 6, 4]],
  carried: { "h.0-1": 32 },
  aside: {},
};
const ends = (graph: Graph, open: string[]) => graph.folded(new Set(open)).links.map(({ from, to, bytes }) => `${from} > ${to}: ${bytes}`);

test("a closed module is one box, and what flows inside it is not seen", () => {
  const graph = new Graph(data, model());
  assert.deepEqual(ends(graph, [""]), ["<input> > stem#0: 8", "stem#0 > h: 32", "h > head#0: 16", "head#0 > head#1: 4", "head#1 > <output>: 4"]);
  assert.equal(graph.folded(new Set([""])).frames.length, 0);
});

test("an open stack has a box for each row in it and one for its own work, and no loop from block to block", () => {
  const graph = new Graph(data, model());
  const open = graph.folded(new Set(["", "h", "h.0-1"]));
  assert.deepEqual(ends(graph, ["", "h", "h.0-1"]).slice(1, 5), ["stem#0 > h.0-1.norm#0: 16", "stem#0 > h.0-1#0: 16", "h.0-1.norm#0 > h.0-1#0: 32", "h.0-1#0 > head#0: 16"]);
  assert.equal(open.boxes.get("h.0-1#0")!.work, "add");
  assert.deepEqual(open.frames.map((frame) => frame.key), ["h.0-1"]);
  assert.equal(graph.carried(open.frames[0]!), 32);
});

test("a module that runs twice is two boxes of the same row", () => {
  const { boxes } = new Graph(data, model()).folded(new Set([""]));
  assert.deepEqual(["head#0", "head#1"].map((id) => [boxes.get(id)!.group!.key, boxes.get(id)!.turn, boxes.get(id)!.turns]), [["head", 0, 2], ["head", 1, 2]]);
  assert.equal(boxes.get("stem#0")!.turns, 1);
});

test("a row leads to its box, or to that of what is closed above it; one block leads to its stack", () => {
  const tree = model();
  const graph = new Graph(data, tree);
  const [shut, open] = [graph.folded(new Set([""])), graph.folded(new Set(["", "h", "h.0-1"]))];
  assert.equal(graph.boxOf(tree.find("h.0-1.norm")!, shut)!.id, "h");
  assert.equal(graph.boxOf(tree.find("h.0-1.norm")!, open)!.id, "h.0-1.norm#0");
  assert.equal(graph.boxOf(tree.find("h.1")!, open)!.id, "h.0-1#0");
});

test("levels are opened as long as the boxes fit, then the heaviest of the next level", () => {
  // 20 stages of 10 layers: 20 boxes, or 20 + 9 for every stage that is open
  const names: [string, number][] = [["", -1]];
  const links: [number, number, number][] = [];
  const places: [string, number, string][] = [];
  for (let stage = 0; stage < 20; stage += 1) {
    const at = names.push([`s${stage}`, 0]) - 1;
    for (let layer = 0; layer < 10; layer += 1) {
      names.push([`l${layer}`, at]);
      if (places.push([`s${stage}.l${layer}`, 0, ""]) > 1) links.push([places.length - 2, places.length - 1, 1]);
    }
  }
  const tree = new Tree(modules(names));
  const graph = new Graph({ places, links, carried: {}, aside: {} }, tree);
  const heaviest = (group: { modules: readonly number[] }) => 1000 - group.modules[0]!;
  assert.deepEqual([...graph.opened(199)], [""]);
  assert.equal(graph.opened(200).size, 21);
  assert.deepEqual([...graph.opened(40, heaviest)], ["", "s0", "s1"]);
  assert.equal(graph.folded(graph.opened(40, heaviest)).boxes.size, 38);
});

test("boxes do not overlap, lie inside their frame, and data flows down", () => {
  const graph = new Graph(data, model());
  const drawing = arranged(graph.folded(new Set(["", "h", "h.0-1"])), () => 100, 40);
  const areas = [...drawing.boxes.values()];
  for (const [i, a] of areas.entries()) for (const b of areas.slice(i + 1)) assert.ok(a.x + a.width <= b.x || b.x + b.width <= a.x || a.y + a.height <= b.y || b.y + b.height <= a.y);
  const frame = drawing.frames.get("h.0-1")!;
  for (const id of ["h.0-1#0", "h.0-1.norm#0"]) {
    const { x, y, width, height } = drawing.boxes.get(id)!;
    assert.ok(x >= frame.x && y >= frame.y && x + width <= frame.x + frame.width && y + height <= frame.y + frame.height);
  }
  for (const { link } of drawing.links) assert.ok(drawing.boxes.get(link.from)!.y < drawing.boxes.get(link.to)!.y, `${link.from} above ${link.to}`);
  assert.ok(drawing.width > 0 && drawing.height > 0);
});

test("frames inside each other lie inside the drawing with their names, also at the top", () => {
  const nested = new Tree(modules([["", -1], ["a", 0], ["b", 1], ["x", 2], ["y", 2], ["z", 1], ["head", 0]]));
  const inside: ModelGraph = { places: [["a.b.x", 0, ""], ["a.b.y", 0, ""], ["a.z", 0, ""], ["head", 0, ""]], links: [[0, 1, 8], [1, 2, 8], [2, 3, 8]], carried: {}, aside: {} };
  const drawing = arranged(new Graph(inside, nested).folded(new Set(["", "a", "a.b"])), () => 100, 40);
  assert.equal(drawing.frames.size, 2);
  for (const { y, height } of drawing.frames.values()) assert.ok(y >= 0 && y + height <= drawing.height, `from ${y}`);
});

test("a line goes from its first to its last point", () => {
  assert.equal(curve([{ x: 0, y: 0 }, { x: 4, y: 8 }]), "M0.0,0.0L4.0,8.0");
  assert.match(curve([{ x: 0, y: 0 }, { x: 5, y: 5 }, { x: 9, y: 5 }, { x: 9, y: 20 }]), /^M0\.0,0\.0Q5\.0,5\.0 7\.0,5\.0Q9\.0,5\.0 9\.0,20\.0$/);
});
