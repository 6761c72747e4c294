// Elements made from text only: nothing of a profile is ever parsed as markup.

type Child = Node | string | null | undefined | false;
type Attributes = Record<string, string | number | boolean | ((event: any) => void) | undefined>;

export function el(tag: string, attributes: Attributes = {}, ...children: Child[]): HTMLElement {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    if (typeof value === "function") node.addEventListener(name.replace(/^on/, ""), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.filter((child): child is Node | string => child !== null && child !== undefined && child !== false));
  return node;
}

export function clear(node: Element): void {
  node.replaceChildren();
}

export function svg(tag: string, attributes: Record<string, string | number> = {}, ...children: (Node | string)[]): SVGElement {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, String(value));
  node.append(...children);
  return node;
}

/** A colour of the style sheet, for what is drawn on a canvas. */
export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

export function isDark(): boolean {
  return matchMedia("(prefers-color-scheme: dark)").matches !== document.documentElement.hasAttribute("data-flipped");
}

/** A canvas as large as its box, sharp on every screen. */
export function fit(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.height = `${height}px`;
  const ink = canvas.getContext("2d")!;
  ink.setTransform(ratio, 0, 0, ratio, 0, 0);
  return ink;
}

let ruler: CanvasRenderingContext2D | undefined;

/** How wide a text is in a font, before it is drawn. */
export function textWidth(text: string, font: string): number {
  ruler ??= document.createElement("canvas").getContext("2d")!;
  ruler.font = font;
  return ruler.measureText(text).width;
}
