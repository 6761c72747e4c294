// What the reader chose, kept in the address so that a link shows the same view.

export interface State {
  tab: string;
  /** The path of the row in focus; a stack's holds a range: h.0-23.mlp. */
  focus: string;
  metric: string;
  colour: string;
  /** What colours the boxes of the model graph. */
  paint: string;
  sort: string;
  query: string;
  /** Rows with a smaller share of what the icicle shows are hidden; empty hides none. */
  least: string;
  columns: string;
  own: boolean;
  flat: boolean;
  /** Every block of a stack by itself. */
  apart: boolean;
}

type Listener = (state: State, changed: ReadonlySet<keyof State>) => void;

const DEFAULTS: State = {
  tab: "modules", focus: "", metric: "", colour: "kind", paint: "share", sort: "", query: "", least: "", columns: "", own: false, flat: false, apart: false,
};

export class Store {
  readonly state: State = { ...DEFAULTS };
  private readonly listeners: Listener[] = [];

  constructor() {
    this.read();
    window.addEventListener("hashchange", () => {
      if (location.hash.slice(1) === this.text()) return;
      this.read();
      this.tell(new Set(Object.keys(DEFAULTS) as (keyof State)[]));
    });
  }

  set(change: Partial<State>): void {
    const keys = (Object.keys(change) as (keyof State)[]).filter((key) => this.state[key] !== change[key]);
    if (!keys.length) return;
    Object.assign(this.state, change);
    try {
      history.replaceState(null, "", `#${this.text()}`);
    } catch {
      location.hash = this.text();
    }
    this.tell(new Set(keys));
  }

  on(listener: Listener): void {
    this.listeners.push(listener);
  }

  private tell(changed: ReadonlySet<keyof State>): void {
    for (const listener of this.listeners) listener(this.state, changed);
  }

  private text(): string {
    const words = new URLSearchParams();
    for (const key of Object.keys(DEFAULTS) as (keyof State)[]) {
      const value = this.state[key];
      if (value === DEFAULTS[key]) continue;
      words.set(key, String(value));
    }
    return words.toString();
  }

  private read(): void {
    Object.assign(this.state, DEFAULTS);
    const words = new URLSearchParams(location.hash.slice(1));
    for (const [key, value] of words) {
      if (!(key in DEFAULTS)) continue;
      const read = typeof DEFAULTS[key as keyof State] === "boolean" ? value === "true" : value;
      (this.state as unknown as Record<string, unknown>)[key] = read;
    }
  }
}
