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
  /** By row, the index of the module that it is about; -1 where it is about none. */
  modules?: number[];
}

export interface Finding {
  title: string;
  text: string;
  next: string;
  seconds: Num;
  share: Num;
  modules: number[];
}

export interface Roofline {
  device: string;
  bandwidth: number;
  peaks: { name: string; flops: number }[];
  /** module, low and high intensity (FLOP/byte), achieved FLOP/s, seconds, FLOP/s of the unit that it runs on */
  points: { module: number; low: number; high: number; rate: Num; seconds: Num; peak: Num }[];
}

export interface Span {
  name: string;
  kind: string;
  begin: number;
  end: number;
  lane: string;
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
  timeline: Span[] | null;
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
