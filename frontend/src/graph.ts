// The model as a graph of the data between its modules: what is closed is one box, what is open a frame around boxes.
import { graphlib, layout } from "@dagrejs/dagre";
import type { Group, Tree } from "./tree";
import type { ModelGraph } from "./types";

export interface Box {
  readonly id: string;
  /** The row; null for what is outside of the model: its input and output. */
  readonly group: Group | null;
  readonly name: string;
  /** Which of the turns in which its caller runs it, from 0 on, of how many. */
  readonly turn: number;
  turns: number;
  /** What a module does beside its submodules, which have boxes of their own. */
  readonly work: string;
  /** Whether it can be opened. */
  readonly closed: boolean;
}

export interface Link { readonly from: string; readonly to: string; bytes: number }

export interface Folded { boxes: Map<string, Box>; links: Link[]; frames: Group[] }

export interface Area { x: number; y: number; width: number; height: number }

export interface Drawing { width: number; height: number; boxes: Map<string, Area>; frames: Map<string, Area>; links: { link: Link; points: { x: number; y: number }[] }[] }

/** Boxes that a first look shows, and the most that are laid out at once. */
export const [FIRST_BOXES, MOST_BOXES] = [36, 500];
/** Boxes up to which frames are drawn: with them, a layout takes several times as long. */
const MOST_FRAMED = 150;
/** What the name of a frame takes of its height. */
const NAME = 9;

export class Graph {
  private readonly rows = new Map<string, Group>();

  constructor(readonly data: ModelGraph, readonly tree: Tree) {
    const visit = (group: Group) => {
      this.rows.set(group.key, group);
      tree.children(group).forEach(visit);
    };
    if (tree.size) visit(tree.root);
  }

  /** The graph with these rows open. */
  folded(open: ReadonlySet<string>): Folded {
    const boxes = new Map<string, Box>();
    const ids = this.data.places.map(([row, turn, work]) => this.box(boxes, row, turn, work, open));
    const counted = new Map<string, Set<number>>();
    for (const { id, turn } of boxes.values()) {
      const all = id.replace(/#\d+$/, "");
      counted.set(all, (counted.get(all) ?? new Set()).add(turn));
    }
    for (const box of boxes.values()) box.turns = counted.get(box.id.replace(/#\d+$/, ""))!.size;
    const links = new Map<string, Link>();
    for (const [from, to, bytes] of this.data.links) {
      const [a, b] = [ids[from]!, ids[to]!];
      if (a === b) continue;
      const known = links.get(`${a}\n${b}`);
      if (known) known.bytes += bytes;
      else links.set(`${a}\n${b}`, { from: a, to: b, bytes });
    }
    const frames = new Set<Group>();
    for (const { group, closed } of boxes.values()) for (let at = group && (closed ? group.parent : group); at?.parent; at = at.parent) if (open.has(at.key)) frames.add(at);
    return { boxes, links: [...links.values()], frames: boxes.size > MOST_FRAMED ? [] : telling([...frames], boxes) };
  }

  /** Open level by level, as long as there are at most that many boxes; with weights, the heaviest of the last level too. */
  opened(most: number, weight?: (group: Group) => number): Set<string> {
    const open = new Set([""]);
    const full = new Set<string>();
    for (;;) {
      const closed = [...this.folded(open).boxes.values()].filter((box) => box.closed && !full.has(box.group!.key));
      if (!closed.length) return open;
      const together = new Set([...open, ...closed.map((box) => box.group!.key)]);
      if (this.folded(together).boxes.size <= most) {
        for (const key of together) open.add(key);
        continue;
      }
      if (!weight) return open;
      const next = closed.reduce((best, box) => (weight(box.group!) > weight(best.group!) ? box : best)).group!.key;
      open.add(next);
      if (this.folded(open).boxes.size <= most) continue;
      open.delete(next);
      full.add(next);
    }
  }

  /** Bytes that go from block to block of a stack. */
  carried(group: Group): number {
    return this.data.carried[group.key] ?? 0;
  }

  /** The box that a row is in, if it has one: its own, or that of what is closed above it. */
  boxOf(group: Group, { boxes }: Folded): Box | undefined {
    for (let at: Group | null = group; at; at = at.parent) {
      const rows = at.stack ?? at;
      const found = boxes.get(rows.key) ?? boxes.get(`${rows.key}#0`);
      if (found) return found;
    }
    return undefined;
  }

  private box(boxes: Map<string, Box>, row: string, turn: number, work: string, open: ReadonlySet<string>): string {
    const place = this.rows.get(row) ?? null;
    const path: Group[] = [];
    for (let at = place; at; at = at.parent) path.unshift(at);
    const group = path.find((one) => !open.has(one.key)) ?? place;
    const inner = group !== null && this.tree.children(group).length > 0;
    const closed = inner && !open.has(group.key);
    const id = group === null ? row : closed ? group.key : `${group.key}#${turn}`;
    if (!boxes.has(id)) boxes.set(id, { id, group, name: group ? this.tree.short(group) : row.replace(/[<>]/g, ""), turn: closed ? 0 : turn, turns: 1, work: closed || group !== place || !inner ? "" : work || "other work", closed });
    return id;
  }
}

/** Frames from the outermost on, without those around a single other frame. */
function telling(frames: Group[], boxes: ReadonlyMap<string, Box>): Group[] {
  const inside = new Map<Group, number>();
  const put = (group: Group | null) => { if (group) inside.set(group, (inside.get(group) ?? 0) + 1); };
  for (const frame of frames) put(frame.parent);
  for (const { group, closed, work } of boxes.values()) put(group && (closed || !work ? group.parent : group));
  return frames.filter((frame) => inside.get(frame) !== 1 || !frames.some((one) => one.parent === frame)).sort((a, b) => a.depth - b.depth);
}

/** Where boxes, frames and lines go. */
export function arranged({ boxes, links, frames }: Folded, widthOf: (box: Box) => number, height: number): Drawing {
  const graph = new graphlib.Graph({ compound: true });
  graph.setGraph({ rankdir: "TB", nodesep: 18, ranksep: 34, edgesep: 10, marginx: 12, marginy: frames.length ? 12 + 2 * NAME : 12 });
  for (const frame of frames) graph.setNode(`frame ${frame.key}`, {});
  const framed = new Set(frames.map((frame) => frame.key));
  const around = (group: Group | null) => {
    for (let at = group; at?.parent; at = at.parent) if (framed.has(at.key)) return `frame ${at.key}`;
    return undefined;
  };
  for (const frame of frames) {
    const outer = around(frame.parent);
    if (outer) graph.setParent(`frame ${frame.key}`, outer);
  }
  for (const box of boxes.values()) {
    graph.setNode(box.id, { width: widthOf(box), height });
    const frame = around(box.group && (box.closed ? box.group.parent : box.group));
    if (frame) graph.setParent(box.id, frame);
  }
  const most = links.reduce((top, link) => Math.max(top, link.bytes), 1);
  for (const link of links) graph.setEdge(link.from, link.to, { weight: 1 + Math.round((3 * link.bytes) / most) });
  layout(graph);
  const area = (id: string): Area => {
    const { x, y, width, height: tall } = graph.node(id) as unknown as Area;
    return { x: x - width / 2, y: y - tall / 2, width, height: tall };
  };
  // names of frames stand above the boxes in them
  const levels = new Map<string, number>();
  for (const frame of [...frames].reverse()) {
    const below = frames.filter((one) => around(one.parent) === `frame ${frame.key}`).map((one) => levels.get(one.key)!);
    levels.set(frame.key, Math.min(2, 1 + Math.max(0, ...below)));
  }
  const framedArea = (frame: Group): Area => {
    const [found, more] = [area(`frame ${frame.key}`), levels.get(frame.key)! * NAME];
    return { ...found, y: found.y - more, height: found.height + more };
  };
  const whole = graph.graph() as { width?: number; height?: number };
  return {
    width: whole.width ?? 0, height: whole.height ?? 0,
    boxes: new Map([...boxes.keys()].map((id) => [id, area(id)])),
    frames: new Map(frames.map((frame) => [frame.key, framedArea(frame)])),
    links: links.map((link) => ({ link, points: (graph.edge(link.from, link.to) as { points: { x: number; y: number }[] }).points })),
  };
}

/** A line through points that bends smoothly. */
export function curve(points: { x: number; y: number }[]): string {
  const at = ({ x, y }: { x: number; y: number }) => `${x.toFixed(1)},${y.toFixed(1)}`;
  const [first, ...rest] = points;
  if (!first || !rest.length) return "";
  const middle = rest.slice(0, -1).map((point, i) => {
    const next = rest[i + 1]!;
    return i === rest.length - 2 ? `Q${at(point)} ${at(next)}` : `Q${at(point)} ${at({ x: (point.x + next.x) / 2, y: (point.y + next.y) / 2 })}`;
  });
  return `M${at(first)}${middle.length ? middle.join("") : `L${at(rest[0]!)}`}`;
}
