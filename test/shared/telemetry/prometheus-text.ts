/** One family of a `/metrics` text: what the format says of it, without the values. */
export interface ParsedFamily {
  readonly type: string;
  /** Label names of its series, `le` left out, sorted; empty when there is no series. */
  readonly labels: readonly string[];
  /** Bounds of a histogram as they are written, without `+Inf`. */
  readonly bounds: readonly string[];
}

/** Every sample of `text` by its name and labels as written. Throws on a line that is not legal Prometheus text. */
export function parseSamples(text: string): ReadonlyMap<string, number> {
  const samples = new Map<string, number>();
  for (const line of text.split('\n')) {
    if (line === '' || line.startsWith('#')) continue;
    const match = /^([a-zA-Z_:][\w:]*(?:\{(?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\[\\"n])*",?)*\})?) (\S+)$/.exec(line);
    if (match === null) throw new Error(`not a sample: ${line}`);
    samples.set(match[1]!, Number(match[2]));
  }
  return samples;
}

/** The families of `text` by name. */
export function parseFamilies(text: string): ReadonlyMap<string, ParsedFamily> {
  const families = new Map<string, { type: string; labels: Set<string>; bounds: Set<string> }>();
  let current: { type: string; labels: Set<string>; bounds: Set<string> } | undefined;
  for (const line of text.split('\n')) {
    const type = /^# TYPE (\S+) (\S+)$/.exec(line);
    if (type !== null) {
      current = { type: type[2]!, labels: new Set(), bounds: new Set() };
      families.set(type[1]!, current);
    }
    if (line.startsWith('#')) continue;
    for (const [, label, value] of line.matchAll(/([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g)) {
      if (label !== 'le') current?.labels.add(label!);
      else if (value !== '+Inf') current?.bounds.add(value!);
    }
  }
  const plain = [...families].map(([name, { type, labels, bounds }]): [string, ParsedFamily] => [
    name,
    { type, labels: [...labels].sort(), bounds: [...bounds] },
  ]);
  return new Map(plain);
}
