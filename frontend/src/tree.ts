// The modules as a tree of rows: a stack of identical blocks is one row, and so is each module inside it.
import type { Metric, Modules } from "./types";

/** A row: one module, or those of a stack that stand at the same place. */
export interface Group {
  /** The path, with a range for a stack: h.0-23.mlp. */
  readonly key: string;
  readonly modules: readonly number[];
  readonly name: string;
  /** Blocks of the stack that this row itself is; 1 if it is none, also inside a stack. */
  readonly run: number;
  readonly parent: Group | null;
  readonly depth: number;
  /** The stack that it is a block of, if it is shown apart from it. */
  readonly stack: Group | null;
}

export interface Choice {
  /** Sorts siblings. */
  order: ((a: Group, b: Group) => number) | null;
  /** By module, what a search leaves; see `search`. */
  keeps: Uint8Array | null;
  /** Whether a filter leaves a row. */
  large: (group: Group) => boolean;
  /** Every block of every stack by itself. */
  apart: boolean;
}

const ADDS = new Set(["count", "bytes", "seconds"]);
const FIRST_ROWS = 60;

export class Tree {
  readonly size: number;
  readonly root: Group;
  readonly open = new Set<string>();
  /** Stacks that are shown block by block. */
  readonly apart = new Set<string>();
  private readonly below: number[][];
  private readonly runOf = new Map<number, number[]>();
  private readonly made = new Map<Group, Group[]>();
  private readonly blocks = new Map<Group, Group[]>();
  private readonly homes = new Map<number, Group>();
  private readonly sums = new Map<string, number | null>();
  private readonly owns = new Map<string, readonly (number | null)[]>();

  constructor(readonly modules: Modules) {
    this.size = modules.name.length;
    this.below = Array.from({ length: this.size }, () => []);
    modules.parent.forEach((parent, module) => {
      if (parent >= 0) this.below[parent]!.push(module);
    });
    for (const run of modules.alike) for (const member of run) this.runOf.set(member, run);
    this.root = { key: "", modules: [0], name: "", run: 1, parent: null, depth: 0, stack: null };
    this.homes.set(0, this.root);
    this.openFirst();
  }

  word(column: readonly number[], group: Group): string {
    return this.modules.words[column[group.modules[0]!]!] ?? "";
  }

  kind(group: Group): string {
    return this.word(this.modules.kind, group);
  }

  metric(id: string): Metric | undefined {
    return this.modules.metrics.find((metric) => metric.id === id);
  }

  /** The metric of that name whose parts add up, else the first of them. */
  area(id: string): Metric | undefined {
    const adding = this.modules.metrics.filter((metric) => metric.adds && metric.total[0]);
    return adding.find((metric) => metric.id === id) ?? adding[0];
  }

  /** The rows below one: of a stack, those inside its blocks. */
  children(group: Group): readonly Group[] {
    const known = this.made.get(group);
    if (known) return known;
    const siblings = this.below[group.modules[0]!]!;
    const found: Group[] = [];
    for (let from = 0; from < siblings.length; ) {
      const first = siblings[from]!;
      const run = this.runOf.get(first)?.[0] === first ? this.runOf.get(first)!.length : 1;
      const to = from + run;
      const modules = group.modules.flatMap((parent) => this.below[parent]!.slice(from, to));
      found.push(this.row(group, modules, run, this.span(siblings[from]!, siblings[to - 1]!), null));
      from = to;
    }
    this.made.set(group, found);
    // rows of whole stacks are where a module is looked up; blocks shown apart are others of the same modules
    if (this.homes.get(group.modules[0]!) === group) for (const child of found) for (const module of child.modules) this.homes.set(module, child);
    return found;
  }

  /** The blocks of a stack, each a row; none if the row is not a stack. */
  split(group: Group): readonly Group[] {
    if (group.run < 2) return [];
    const known = this.blocks.get(group);
    if (known) return known;
    const found = Array.from({ length: group.run }, (_, block) => {
      const modules = group.modules.filter((_module, i) => i % group.run === block);
      return this.row(group.parent!, modules, 1, this.modules.name[modules[0]!]!, group);
    });
    this.blocks.set(group, found);
    return found;
  }

  /** The row of a module, with all that are like it. */
  home(module: number): Group {
    const parent = this.modules.parent[module]!;
    if (parent >= 0) this.children(this.home(parent));
    return this.homes.get(module) ?? this.root;
  }

  find(key: string): Group | null {
    let at = this.root;
    while (at.key !== key) {
      const below: Group[] = this.children(at).flatMap((child) => [child, ...this.split(child)]);
      const next = below.find((one) => key === one.key || key.startsWith(`${one.key}.`));
      if (!next) return null;
      at = next;
    }
    return at;
  }

  ancestors(group: Group): Group[] {
    const found: Group[] = [];
    for (let at = group.parent; at; at = at.parent) found.unshift(at);
    return found;
  }

  /** The name and the class, as a row shows them. */
  label(group: Group): string {
    const kind = this.kind(group);
    return group.parent ? [group.name, kind].filter(Boolean).join(": ") : kind;
  }

  /** The path, or what the whole is, and how many modules share it. */
  title(group: Group): string {
    return `${group.key || this.kind(group)}${this.times(group)}`;
  }

  /** The last part of the path, with the one above it if it is a mere number, and how many share it. */
  short(group: Group): string {
    const name = /^[\d-]+$/.test(group.name) && group.parent?.name ? `${group.parent.name}.${group.name}` : group.name;
    return `${name || this.kind(group)}${this.times(group)}`;
  }

  times(group: Group): string {
    return group.modules.length > 1 ? ` × ${group.modules.length}` : "";
  }

  value(metric: Metric, group: Group, own: boolean): number | null {
    const column = own ? this.own(metric) : metric.total;
    if (group.modules.length === 1) return column[group.modules[0]!] ?? null;
    if (!ADDS.has(metric.unit)) return null;
    const key = `${metric.id} ${own} ${group.key}`;
    const known = this.sums.get(key);
    if (known !== undefined) return known;
    let sum: number | null = null;
    for (const module of group.modules) {
      const value = column[module];
      if (value !== null && value !== undefined) sum = (sum ?? 0) + value;
    }
    this.sums.set(key, sum);
    return sum;
  }

  /** What every module has itself: as recorded, else beside its children's; all of it if parts do not add up. */
  own(metric: Metric): readonly (number | null)[] {
    if (metric.own || !metric.adds) return metric.own ?? metric.total;
    const known = this.owns.get(metric.id);
    if (known) return known;
    const { total } = metric;
    const found = total.map((value, module) => (value === null ? null : Math.max(0, value - this.below[module]!.reduce((sum, child) => sum + (total[child] ?? 0), 0))));
    this.owns.set(metric.id, found);
    return found;
  }

  hasChildren(group: Group): boolean {
    return group.run > 1 || this.below[group.modules[0]!]!.length > 0;
  }

  toggle(group: Group, open = !this.open.has(group.key)): void {
    if (open) this.open.add(group.key);
    else this.open.delete(group.key);
  }

  /** Open whatever hides a row. */
  reveal(group: Group): void {
    for (const one of [...this.ancestors(group), group]) {
      if (one !== group) this.open.add(one.key);
      if (!one.stack) continue;
      this.open.add(one.stack.key);
      this.apart.add(one.stack.key);
    }
  }

  setAll(open: boolean): void {
    this.open.clear();
    this.open.add("");
    if (!open) return;
    const visit = (group: Group) => {
      if (!this.hasChildren(group)) return;
      this.open.add(group.key);
      for (const child of this.children(group)) visit(child);
    };
    visit(this.root);
  }

  /** The visible rows in order. */
  rows(choice: Choice): { group: Group; depth: number }[] {
    const rows: { group: Group; depth: number }[] = [];
    const visit = (groups: readonly Group[], depth: number) => {
      const kept = groups.flatMap((group) => this.kept(group, choice.keeps)).filter(choice.large);
      if (choice.order) kept.sort(choice.order);
      for (const group of kept) {
        rows.push({ group, depth });
        const opens = choice.keeps ? group.modules.some((module) => choice.keeps![module]! & 2) : this.open.has(group.key);
        if (!opens) continue;
        const apart = group.run > 1 && !choice.keeps && (choice.apart || this.apart.has(group.key));
        visit(apart ? this.split(group) : this.children(group), depth + 1);
      }
    };
    if (this.size) visit([this.root], 0);
    return rows;
  }

  /** Every row without nesting, stacks as one unless they are to be apart. */
  flat(choice: Choice): { group: Group; depth: number }[] {
    const found: Group[] = [];
    const visit = (group: Group) => {
      if (!choice.keeps || group.modules.some((module) => choice.keeps![module]! & 1)) found.push(group);
      for (const child of this.children(group)) for (const one of choice.apart && child.run > 1 ? this.split(child) : [child]) visit(one);
    };
    if (this.size) visit(this.root);
    const shown = found.filter(choice.large);
    if (choice.order) shown.sort(choice.order);
    return shown.map((group) => ({ group, depth: 0 }));
  }

  /** By module, in bits: 1 it matches, 2 it is above a match. */
  search(query: string): Uint8Array | null {
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) return null;
    const keeps = new Uint8Array(this.size);
    const { words: texts, kind, path, parent } = this.modules;
    const lower = texts.map((text) => text.toLowerCase());
    for (let module = 0; module < this.size; module += 1) {
      const text = `${path[module]!.toLowerCase()} ${lower[kind[module]!]!}`;
      if (words.every((word) => text.includes(word))) keeps[module] = 1;
    }
    for (let module = this.size - 1; module > 0; module -= 1) if (keeps[module] && parent[module]! >= 0) keeps[parent[module]!]! |= 2;
    return keeps;
  }

  /** What a search leaves of a row: all of it, those of its blocks that match, or nothing. */
  private kept(group: Group, keeps: Uint8Array | null): readonly Group[] {
    if (!keeps) return [group];
    const found = group.modules.filter((module) => keeps[module]).length;
    if (!found) return [];
    return found === group.modules.length || group.run < 2 ? [group] : this.split(group).flatMap((block) => this.kept(block, keeps));
  }

  private row(parent: Group, modules: number[], run: number, name: string, stack: Group | null): Group {
    return { key: parent.key ? `${parent.key}.${name}` : name, modules, name, run, parent, depth: parent.depth + 1, stack };
  }

  private span(first: number, last: number): string {
    const { name } = this.modules;
    return first === last ? name[first]! : `${name[first]}-${(/\d+$/.exec(name[last]!) ?? [""])[0]}`;
  }

  /** Open rows level by level, the heaviest first, until about as many are visible as a reader looks through. */
  private openFirst(): void {
    const metric = this.area("");
    const weight = (group: Group) => (metric && this.value(metric, group, false)) || 0;
    let seen = 1;
    for (let level: Group[] = this.size ? [this.root] : []; level.length; ) {
      const below: Group[] = [];
      for (const group of level.sort((a, b) => weight(b) - weight(a))) {
        if (seen > FIRST_ROWS) return;
        const children = this.children(group);
        if (!children.length || (seen > 1 && seen + children.length > FIRST_ROWS)) continue;
        this.open.add(group.key);
        below.push(...children);
        seen += children.length;
      }
      level = below;
    }
  }
}
