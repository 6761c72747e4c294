// What Python hands over (src/flopsight/analysis/report/page_data.py writes exactly this).

export type Num = number | null;

export interface Metric {
  id: string;
  label: string;
  /** How its numbers are written: a count, bytes, seconds, a rate, an intensity or a share. */
  unit: "count" | "bytes" | "seconds" | "rate" | "intensity" | "share";
  /** What the metric is, in one sentence. */
  about: string;
  /** Whether the values of the children add up to the parent's, so that areas can show it. */
  adds: boolean;
  total: Num[];
  /** The module's own part; absent where it is the same question. */
  own?: Num[];
  /** Shown without being asked for. */
  shown: boolean;
  /** The phase that it belongs to; empty where it is about the module or the whole step. */
  phase: string;
}

export interface Modules {
  name: string[];
  path: string[];
  /** Indices into `words`. */
  kind: number[];
  input: number[];
  output: number[];
  extra: number[];
  mark: number[];
  bound: number[];
  words: string[];
  parent: number[];
  calls: number[];
  /** Runs of identical siblings, by index. */
  alike: number[][];
  metrics: Metric[];
  /** By module, its operators: [op, phase, calls, flops, bytes, status, dtype]. */
  ops: Record<string, OpRow[]>;
}

export type OpRow = [op: number, phase: number, calls: number, flops: number, bytes: number, status: number, dtype: number];

export interface Grid {
  title: string;
  about?: string;
  columns: { label: string; unit: Metric["unit"] | "text" | "number" | "growth" }[];
  rows: (string | number | null)[][];
  /** By row, the path of the row of modules that it is about; null if it is about none that is shown. */
  modules?: (string | null)[];
}

export interface Finding {
  title: string;
  text: string;
  next: string;
  seconds: Num;
  share: Num;
  /** Paths of rows; a stack's holds a range: h.0-23.mlp. */
  modules: string[];
}

export interface RooflinePoint {
  /** The path of its row. */
  path: string;
  kind: string;
  /** FLOPs per byte: unfused, and with nothing but inputs, parameters and outputs moved. */
  low: number;
  high: number;
  /** FLOP/s; null if the times are not this device's. */
  rate: Num;
  seconds: Num;
  limit: Num;
  bound: string;
  /** FLOP/s of the unit that does most of its products, and what that is. */
  peak: Num;
  unit: string;
  /** Why it stands above its roof; empty if it does not. */
  above: string;
}

export interface Roofline {
  device: string;
  bandwidth: number;
  cache: Num;
  /** Bytes a second of what stays in the cache, where that is known. */
  cacheBandwidth?: Num;
  peaks: { name: string; flops: number }[];
  points: RooflinePoint[];
}

export interface Timeline {
  words: string[];
  /** name, kind, begin and end in nanoseconds, thread or stream, phase, path; texts are indices into `words`. */
  spans: [name: number, kind: number, begin: number, end: number, lane: number, phase: number, path: number][];
  /** By path of a module, the path of its row. */
  rows: Record<string, string>;
}

export interface ModelGraph {
  /** The path of a row, the turn in which its caller runs it, and what it does beside its submodules. */
  places: [row: string, turn: number, work: string][];
  /** Numbers of the places that made and took data, and its bytes over all calls. */
  links: [from: number, to: number, bytes: number][];
  /** By the row of a stack, bytes that go from one of its blocks to another. */
  carried: Record<string, number>;
  /** Rows that no data is seen to pass: never called, or handing on what they get. */
  aside: { idle?: string[]; passing?: string[] };
}

export interface Tile {
  label: string;
  value: string;
  note: string;
  /** The kind of doubts that touch it. */
  touches: string;
  tone?: string;
}

export interface Report {
  title: string;
  about: string;
  tiles: Tile[];
  made: string;
  verdict: string;
  /** Groups of a label, its value, and what the value is made of. */
  cards: [string, string, string][][];
  caveats: { text: string; touches: string }[];
  coverage: { complete: boolean; lines: string[] };
  modules: Modules | null;
  operators: Grid | null;
  memory: { peak: Num; kinds: [string, number][]; curve: MemoryCurve | null; grid: Grid | null } | null;
  roofline?: Roofline | null;
  timeline: Timeline | null;
  graph?: ModelGraph | null;
  findings?: Finding[] | null;
  ranks?: Grid[] | null;
  diff?: Grid[] | null;
}

/** Memory over the step, a value for each point in every column. */
export interface MemoryCurve {
  /** Allocations and releases before each point. */
  at: number[];
  kinds: string[];
  /** By kind, the bytes at each point. */
  bytes: number[][];
  /** The module that allocated last; -1 where none did. */
  modules: number[];
  phases: string[];
  /** The number of the highest point. */
  peak: number;
}
