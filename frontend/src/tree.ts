// The modules as a tree: children, runs of identical blocks, and the rows that are visible.
import type { Metric, Modules } from "./types";

/** A row of the table: a module, or a run of identical siblings drawn as one. */
export interface Row {
  /** The module; for a run its first member. */
  module: number;
  /** The members of a run, or null. */
  run: number[] | null;
  depth: number;
}

export class Tree {
  readonly children: number[][];
  readonly depth: number[];
  readonly size: number;
  readonly runOf = new Map<number, number[]>();
  private readonly byPath = new Map<string, number>();
  readonly open = new Set<string>();

  constructor(readonly modules: Modules) {
    this.size = modules.name.length;
    this.children = Array.from({ length: this.size }, () => []);
    this.depth = new Array<number>(this.size).fill(0);
    modules.parent.forEach((parent, module) => {
      this.byPath.set(modules.path[module]!, module);
      if (parent < 0) return;
      this.children[parent]!.push(module);
      this.depth[module] = this.depth[parent]! + 1;
    });
    for (const run of modules.alike) for (const member of run) this.runOf.set(member, run);
    this.openFirst(60);
  }

  word(column: number[], module: number): string {
    return this.modules.words[column[module]!] ?? "";
  }

  path(module: number): string {
    return this.modules.path[module] ?? "";
  }

  find(path: string): number {
    return this.byPath.get(path) ?? -1;
  }

  metric(id: string): Metric | undefined {
    return this.modules.metrics.find((metric) => metric.id === id);
  }

  /** The metric of that name whose parts add up, else the first of them. */
  area(id: string): Metric | undefined {
    const adding = this.modules.metrics.filter((metric) => metric.adds);
    return adding.find((metric) => metric.id === id) ?? adding[0];
  }

  ancestors(module: number): number[] {
    const found: number[] = [];
    for (let at = this.modules.parent[module]!; at >= 0; at = this.modules.parent[at]!) found.unshift(at);
    return found;
  }

  label(row: Row): string {
    const { name, kind } = this.modules;
    const first = name[row.module]!;
    const text = row.run ? `${first}-${(/\d+$/.exec(name[row.run[row.run.length - 1]!]!) ?? [""])[0]}` : first;
    const what = this.modules.words[kind[row.module]!] || "loss, glue";
    return text && this.modules.parent[row.module]! >= 0 ? `${text}: ${what}` : what;
  }

  value(metric: Metric, row: Row, own: boolean): number | null {
    const column = own && metric.own ? metric.own : metric.total;
    if (!row.run) return column[row.module] ?? null;
    if (!metric.adds) return null;
    let sum: number | null = null;
    for (const member of row.run) {
      const value = column[member];
      if (value !== null && value !== undefined) sum = (sum ?? 0) + value;
    }
    return sum;
  }

  key(row: Row): string {
    return row.run ? `${row.module}*` : String(row.module);
  }

  isOpen(row: Row): boolean {
    return this.open.has(this.key(row));
  }

  hasChildren(row: Row): boolean {
    return row.run !== null || this.children[row.module]!.length > 0;
  }

  toggle(row: Row, open = !this.isOpen(row)): void {
    if (open) this.open.add(this.key(row));
    else this.open.delete(this.key(row));
  }

  /** Open whatever hides a module. */
  reveal(module: number): void {
    for (const above of this.ancestors(module)) this.open.add(String(above));
    for (const one of [...this.ancestors(module), module]) {
      const run = this.runOf.get(one);
      if (run) this.open.add(`${run[0]}*`);
    }
  }

  setAll(open: boolean): void {
    this.open.clear();
    if (!open) {
      this.open.add("0");
      return;
    }
    for (let module = 0; module < this.size; module += 1) if (this.children[module]!.length) this.open.add(String(module));
    for (const run of this.modules.alike) this.open.add(`${run[0]}*`);
  }

  /** The visible rows in order; `order` sorts siblings, `keeps` says which modules a search leaves, `large` which rows a filter leaves. */
  rows(order: ((a: Row, b: Row) => number) | null, keeps: Uint8Array | null, large: (row: Row) => boolean): Row[] {
    const rows: Row[] = [];
    const visit = (siblings: number[], depth: number) => {
      let shown = keeps ? siblings.map((module) => ({ module, run: null, depth }) as Row) : this.folded(siblings, depth);
      if (keeps) shown = shown.filter((row) => keeps[row.module]);
      shown = shown.filter(large);
      if (order) shown.sort(order);
      for (const row of shown) {
        rows.push(row);
        if (row.run) {
          if (!this.isOpen(row)) continue;
          const members = row.run.map((module) => ({ module, run: null, depth: depth + 1 }) as Row).filter(large);
          if (order) members.sort(order);
          for (const member of members) {
            rows.push(member);
            if (this.isOpen(member)) visit(this.children[member.module]!, depth + 2);
          }
        } else if (keeps ? keeps[row.module]! & 2 : this.isOpen(row)) {
          visit(this.children[row.module]!, depth + 1);
        }
      }
    };
    if (this.size) visit([0], 0);
    return rows;
  }

  /** Every module by itself, for a list without nesting. */
  flat(order: ((a: Row, b: Row) => number) | null, keeps: Uint8Array | null, large: (row: Row) => boolean): Row[] {
    const rows: Row[] = [];
    for (let module = 0; module < this.size; module += 1) {
      if (!keeps || keeps[module]! & 1) rows.push({ module, run: null, depth: 0 });
    }
    const shown = rows.filter(large);
    return order ? shown.sort(order) : shown;
  }

  /** By module, in bits: 1 it matches, 2 it is above a match. */
  search(query: string): Uint8Array | null {
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) return null;
    const keeps = new Uint8Array(this.size);
    const { words: texts, kind, path } = this.modules;
    const lower = texts.map((text) => text.toLowerCase());
    for (let module = 0; module < this.size; module += 1) {
      const text = `${path[module]!.toLowerCase()} ${lower[kind[module]!]!}`;
      if (words.every((word) => text.includes(word))) keeps[module] = 1;
    }
    for (let module = this.size - 1; module > 0; module -= 1) {
      const parent = this.modules.parent[module]!;
      if (keeps[module] && parent >= 0) keeps[parent]! |= 2;
    }
    return keeps;
  }

  /** Siblings in groups: a run of identical blocks is one. Of several parents that are alike, each group has the members of all. */
  grouped(parents: number[]): number[][] {
    let from = 0;
    return this.folded(this.children[parents[0]!]!, 0).map((row) => {
      const to = from + (row.run?.length ?? 1);
      const members = parents.flatMap((parent) => this.children[parent]!.slice(from, to));
      from = to;
      return members;
    });
  }

  private folded(siblings: number[], depth: number): Row[] {
    const rows: Row[] = [];
    for (let i = 0; i < siblings.length; i += 1) {
      const module = siblings[i]!;
      const run = this.runOf.get(module);
      if (run && run[0] === module) {
        rows.push({ module, run, depth });
        i += run.length - 1;
      } else rows.push({ module, run: null, depth });
    }
    return rows;
  }

  /** Open levels from the top until about that many rows are visible. */
  private openFirst(most: number): void {
    let level: Row[] = this.size ? [{ module: 0, run: null, depth: 0 }] : [];
    let seen = 1;
    while (level.length) {
      const below: Row[] = level.flatMap((row) => (row.run ? [] : this.folded(this.children[row.module]!, row.depth + 1)));
      if (seen + below.length > most && seen > 1) return;
      for (const row of level) if (!row.run && this.children[row.module]!.length) this.open.add(String(row.module));
      seen += below.length;
      level = below;
    }
  }
}
