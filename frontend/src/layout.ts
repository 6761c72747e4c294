// Where things go in a drawing: round ticks, labels that do not overlap, text that fits.

/** Round values from one to another, at most that many. */
export function ticks(from: number, to: number, most: number): number[] {
  const rough = (to - from) / Math.max(1, most) || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough * 0.999)!;
  const first = Math.ceil(from / step - 1e-9);
  return Array.from({ length: Math.max(0, Math.floor(to / step + 1e-9) - first + 1) }, (_, i) => (first + i) * step);
}

export interface Box { x: number; y: number; width: number; height: number }

const overlap = (a: Box, b: Box) => a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;

export interface Spot { x: number; y: number; radius: number; width: number }

/** For each spot, in their order, a box for its label beside it that is inside the room and on no other; null if there is none. */
export function placed(spots: Spot[], height: number, room: Box, taken: Box[]): (Box | null)[] {
  const used = [...taken];
  return spots.map(({ x, y, radius, width }) => {
    const gap = radius + 4;
    const corners: [number, number][] = [
      [x + gap, y - height / 2], [x - gap - width, y - height / 2], [x - width / 2, y - gap - height], [x - width / 2, y + gap],
      [x + gap, y - gap - height], [x + gap, y + gap], [x - gap - width, y - gap - height], [x - gap - width, y + gap],
    ];
    for (const [left, top] of corners) {
      const box = { x: left, y: top, width, height };
      const inside = left >= room.x && top >= room.y && left + width <= room.x + room.width && top + height <= room.y + room.height;
      if (!inside || used.some((other) => overlap(box, other))) continue;
      used.push(box);
      return box;
    }
    return null;
  });
}

/** The last name of each path, with the one above it or the whole path if another ends in the same; numbers of blocks name nothing. */
export function apart(paths: string[]): string[] {
  const names = paths.map((path) => path.split(".").filter((part) => !/^\d/.test(part)));
  const choices = [1, 2].map((parts) => names.map((name) => name.slice(-parts).join(".")));
  const often = choices.map((all) => all.reduce((sum, name) => sum.set(name, (sum.get(name) ?? 0) + 1), new Map<string, number>()));
  return paths.map((path, i) => choices.find((all, parts) => all[i] && often[parts]!.get(all[i]!) === 1)?.[i] ?? path);
}

/** As much of a text as a width holds, with an ellipsis if some is missing; nothing if next to none fits. */
export function fitted(text: string, room: number, measure: (text: string) => number): string {
  if (measure(text) <= room) return text;
  let [low, high] = [0, text.length];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (measure(`${text.slice(0, middle)}…`) <= room) low = middle;
    else high = middle - 1;
  }
  return low > 1 ? `${text.slice(0, low)}…` : "";
}
