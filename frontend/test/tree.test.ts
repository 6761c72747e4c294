// A model of two stacks, one inside the other: 3 blocks, each of a norm and 2 experts, then a head.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Tree } from "../src/tree";
import type { Metric, Modules } from "../src/types";

function model(): Modules {
  const path = ["", "h"];
  const parent = [-1, 0];
  const alike: number[][] = [];
  const blocks: number[] = [];
  const add = (name: string, above: number) => parent.push(above) && path.push(path[above] ? `${path[above]}.${name}` : name) - 1;
  for (let i = 0; i < 3; i += 1) {
    const block = add(String(i), 1);
    blocks.push(block);
    add("norm", block);
    const experts = add("experts", block);
    alike.push([add("0", experts), add("1", experts)]);
  }
  alike.unshift(blocks);
  add("head", 0);
  const zeros = path.map(() => 0);
  const leaf = path.map((one) => /norm$|experts\.\d$|^head$/.test(one));
  const weight = (at: number): number => (leaf[at] ? at : parent.reduce((sum, above, child) => sum + (above === at ? weight(child) : 0), 0));
  const metric = { id: "flops", label: "FLOPs", unit: "count", about: "", adds: true, total: path.map((_, at) => weight(at)), shown: true, phase: "" } as Metric;
  const rate = { ...metric, id: "rate", unit: "rate", adds: false } as Metric;
  return {
    name: path.map((one) => one.split(".").pop()!), path, parent, alike, kind: zeros, input: zeros, output: zeros, extra: zeros, mark: zeros, bound: zeros, words: ["Net"], calls: zeros, metrics: [metric, rate], ops: {},
  };
}

const everything = { order: null, keeps: null, large: () => true, apart: false };
const keys = (rows: { group: { key: string } }[]) => rows.map(({ group }) => group.key);

test("a stack is one row, and so is what stands inside it, at every depth", () => {
  const tree = new Tree(model());
  tree.setAll(true);
  assert.deepEqual(keys(tree.rows(everything)), ["", "h", "h.0-2", "h.0-2.norm", "h.0-2.experts", "h.0-2.experts.0-1", "head"]);
  assert.equal(tree.find("h.0-2.experts.0-1")!.modules.length, 6);
});

test("a row of several modules has their sum, and no rate", () => {
  const tree = new Tree(model());
  const { path, metrics } = tree.modules;
  const norms = path.flatMap((one, at) => (one.endsWith("norm") ? [at] : []));
  const group = tree.find("h.0-2.norm")!;
  assert.equal(tree.value(metrics[0]!, group, false), norms[0]! + norms[1]! + norms[2]!);
  assert.equal(tree.value(metrics[1]!, group, false), null);
});

test("the blocks of a stack inside a stack stay together by their place", () => {
  const tree = new Tree(model());
  const [first, second] = tree.split(tree.find("h.0-2.experts.0-1")!);
  assert.equal(first!.key, "h.0-2.experts.0");
  assert.deepEqual(second!.modules.map((module) => tree.modules.path[module]), ["h.0.experts.1", "h.1.experts.1", "h.2.experts.1"]);
});

test("a module leads to the row of its stack", () => {
  const tree = new Tree(model());
  assert.equal(tree.home(tree.modules.path.indexOf("h.1.experts.0")).key, "h.0-2.experts.0-1");
  assert.equal(tree.home(tree.modules.path.indexOf("head")).key, "head");
});

test("an address of one block opens its stack block by block", () => {
  const tree = new Tree(model());
  tree.setAll(false);
  const one = tree.find("h.1.norm")!;
  assert.equal(one.modules.length, 1);
  tree.reveal(one);
  assert.ok(keys(tree.rows(everything)).includes("h.1.norm"));
  assert.equal(tree.find("h.7.norm"), null);
});

test("a search keeps a stack whole if all of it matches, else the blocks that do", () => {
  const tree = new Tree(model());
  assert.deepEqual(keys(tree.rows({ ...everything, keeps: tree.search("norm") })), ["", "h", "h.0-2", "h.0-2.norm"]);
  assert.deepEqual(keys(tree.rows({ ...everything, keeps: tree.search("h.1.norm") })), ["", "h", "h.1", "h.1.norm"]);
  assert.deepEqual(keys(tree.rows({ ...everything, keeps: tree.search("experts.1") })), ["", "h", "h.0-2", "h.0-2.experts", "h.0-2.experts.1"]);
  assert.equal(tree.search("  "), null);
});

test("a flat list ranks rows, or single blocks on request", () => {
  const tree = new Tree(model());
  const order = (a: { key: string }, b: { key: string }) => a.key.localeCompare(b.key);
  assert.equal(tree.flat({ ...everything, order }).length, 7);
  assert.equal(tree.flat({ ...everything, apart: true }).length, tree.size);
});

test("what a module does beside its children adds up to the whole", () => {
  const tree = new Tree(model());
  const metric = { ...tree.modules.metrics[0]!, own: undefined };
  assert.equal(tree.value(metric, tree.root, true), 0);
  assert.equal(tree.own(metric).reduce<number>((sum, one) => sum + (one ?? 0), 0), metric.total[0]);
  assert.equal(tree.own({ ...metric, id: "share", adds: false })[0], metric.total[0], "of what does not add up there is no part");
});
