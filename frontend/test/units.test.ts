import assert from "node:assert/strict";
import { test } from "node:test";
import type { Metric } from "../src/types";
import { change, growth, percent, say, seconds, si, tick, told } from "../src/units";

test("three significant digits, also where rounding adds one", () => {
  assert.equal(si(9.996e9, "B"), "10.0 GB");
  assert.equal(si(999.6e3), "1.00 M");
  assert.equal(si(156), "156");
  assert.equal(si(0.5), "0.500");
  assert.equal(si(-1500), "-1.50 k");
});

test("a time has the unit that suits it", () => {
  assert.deepEqual([0, 2.5, 0.0257, 3.3e-5, 4e-9].map(seconds), ["0 s", "2.50 s", "25.7 ms", "33.0 us", "4.00 ns"]);
});

test("a number on an axis loses the zeros behind its point and no others", () => {
  assert.deepEqual([0.2, 0.02, 1, 1.2, 0.00105, 1e-4].map((value) => tick(seconds(value))), ["200 ms", "20 ms", "1 s", "1.2 s", "1.05 ms", "100 us"]);
  assert.deepEqual([1e12, 1e10, 500, 2.5e8].map((value) => tick(si(value, "B"))), ["1 TB", "10 GB", "500 B", "250 MB"]);
});

test("shares and changes", () => {
  assert.deepEqual([0, 0.0004, 0.325, 0.9999, 1.2].map(percent), ["0.0%", "<0.1%", "32.5%", "100%", "120.0%"]);
  assert.deepEqual([0, 0.5, -0.25].map(growth), ["=", "+50.0%", "−25.0%"]);
});

test("a difference has its sign", () => {
  assert.deepEqual([38.7e9, -2048, 0].map((value) => change(value, "count")), ["+38.7 G", "-2.05 k", "0"]);
  const metric = (id: string) => ({ id, unit: "count" }) as Metric;
  assert.deepEqual(["more_flops", "flops"].map((id) => told(77.4e9, metric(id))), ["+77.4 G", "77.4 G"]);
});

test("what is not known is empty", () => {
  assert.equal(say(null, "bytes"), "");
  assert.equal(say(2048, "bytes"), "2.05 kB");
});
