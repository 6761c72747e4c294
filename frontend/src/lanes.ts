// The lanes of a timeline: phases as bands, modules of each thread, the modules of backward and of kernels, ops and kernels.
import type { Timeline } from "./types";

export interface Span { name: string; path: string; kind: string; phase: string; begin: number; end: number }
export interface Lane { title: string; rows: Span[][] }

const MOST_DEPTHS = 6;

/** Every span with its texts. */
export function spansOf({ words, spans }: Timeline): (Span & { lane: number })[] {
  return spans.map(([name, kind, begin, end, lane, phase, path]) => ({
    name: words[name]!, kind: words[kind]!, begin, end, lane, phase: words[phase]!, path: words[path]!,
  }));
}

export function lanesOf(timeline: Timeline): Lane[] {
  const all = spansOf(timeline);
  const of = (kind: string) => all.filter((span) => span.kind === kind);
  const root = all.find((span) => span.kind === "module" && !span.path)?.name ?? "the model";
  const phases = bands(all);
  const lanes: Lane[] = phases.length ? [{ title: "phases", rows: [phases] }] : [];
  const threads = [...new Set(all.filter((span) => span.kind !== "kernel").map((span) => span.lane))];
  threads.forEach((thread, i) => {
    const here = all.filter((span) => span.lane === thread && span.kind !== "kernel");
    const title = threads.length > 1 ? `thread ${i + 1}` : "host";
    const called = here.filter((span) => span.kind === "module");
    const ops = outermost(here.filter((span) => span.kind === "op"));
    const back = ops.filter((span) => span.phase === "backward" || span.phase === "recompute");
    const modules = nested(called);
    modulesOf(back, root).forEach((row, depth) => { modules[depth] = [...(modules[depth] ?? []), ...row]; });
    if (modules.length) lanes.push({ title: `modules, ${title}`, rows: modules.slice(0, MOST_DEPTHS) });
    if (ops.length) lanes.push({ title: `ops, ${title}`, rows: [ops] });
  });
  const streams = [...new Set(of("kernel").map((span) => span.lane))].sort((a, b) => a - b);
  for (const stream of streams) {
    const kernels = of("kernel").filter((span) => span.lane === stream);
    lanes.push({ title: `modules, stream ${stream}`, rows: modulesOf(kernels, root).slice(0, MOST_DEPTHS) }, { title: `kernels, stream ${stream}`, rows: nested(kernels) });
  }
  return lanes;
}

/** Phases from the first to the last op of each stretch; what has no phase, as in older files, has no band. */
export function bands(spans: Span[]): Span[] {
  const found: Span[] = [];
  for (const span of spans.filter((one) => one.phase && one.kind === "op").sort((a, b) => a.begin - b.begin)) {
    const phase = span.phase === "recompute" ? "backward" : span.phase;
    const last = found[found.length - 1];
    if (last?.phase === phase) last.end = Math.max(last.end, span.end);
    else found.push({ name: phase, path: "", kind: "phase", phase, begin: last ? Math.max(last.end, span.begin) : span.begin, end: span.end });
  }
  return found.filter((band) => band.end > band.begin);
}

/** Spans in rows, one inside another a row further down. */
export function nested(spans: Span[]): Span[][] {
  const rows: Span[][] = [];
  const open: number[] = [];
  for (const span of [...spans].sort((a, b) => a.begin - b.begin || b.end - a.end)) {
    while (open.length && open[open.length - 1]! <= span.begin) open.pop();
    (rows[open.length] ??= []).push(span);
    open.push(span.end);
  }
  return rows;
}

/** Spans that no earlier one covers. */
export function outermost(spans: Span[]): Span[] {
  let until = -Infinity;
  return [...spans].sort((a, b) => a.begin - b.begin || b.end - a.end).filter((span) => {
    if (span.begin < until) return false;
    until = span.end;
    return true;
  });
}

/** A row as it is drawn: spans shorter than `least` join neighbours of their phase that are as near, so that none is left out. */
export function joined(row: Span[], least: number): Span[] {
  const found: Span[] = [];
  let open: Span | null = null;
  for (const span of row) {
    if (span.end - span.begin >= least) {
      found.push(span);
      open = null;
    } else if (open?.phase === span.phase && span.begin - open.end < least) open.end = Math.max(open.end, span.end);
    else found.push((open = { ...span, name: "" }));
  }
  return found;
}

/** The modules that work was done for, as rows by depth: neighbours in one module, or below it, are one span. */
export function modulesOf(work: Span[], root: string): Span[][] {
  const rows: Span[][] = [];
  for (const span of [...work].sort((a, b) => a.begin - b.begin)) {
    const parts = span.path.startsWith("<") ? [] : [root, ...(span.path ? span.path.split(".") : [])];
    parts.forEach((name, depth) => {
      const path = parts.slice(1, depth + 1).join(".");
      const row = (rows[depth] ??= []);
      const last = row[row.length - 1];
      const whole = last && last.path === path && last.phase === span.phase && (depth === 0 || rows[depth - 1]!.at(-1)!.begin <= last.begin);
      if (whole) last.end = Math.max(last.end, span.end);
      else row.push({ name, path, kind: "module", phase: span.phase, begin: span.begin, end: span.end });
    });
  }
  return rows;
}
