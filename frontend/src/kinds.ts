// One colour for each kind of memory, wherever it is drawn.
const HUES: Record<string, number> = {
  parameters: 214, buffers: 192, optimizer: 262, inputs: 172, gradients: 32, buckets: 52, gathered: 312, activations: 142, recomputed: 84, temporaries: 352,
};

export function kindColour(kind: string): string {
  return `hsl(${HUES[kind] ?? 0} ${kind in HUES ? 52 : 0}% 60%)`;
}
