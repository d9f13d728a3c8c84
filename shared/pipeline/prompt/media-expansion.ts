export type MediaKind = 'image' | 'video' | 'audio';

/** Tokens with which a chat template marks the place of a medium, by kind. */
export type Placeholders = ReadonlyMap<MediaKind, number>;

/** Tokens that an engine made of the media of a prompt. */
export interface Expansions {
  /** Tokens in place of each medium, in the order of the prompt. */
  readonly runs: readonly Uint32Array[];
  readonly placeholders: Placeholders;
}

/** Most tokens that are tried as a placeholder. */
const CANDIDATES_MAX = 32;

/**
 * Returns the indexes of the placeholders of a prompt's media; undefined if they are not known, or their number
 * differs.
 */
export function placesOf(
  tokens: Uint32Array,
  kinds: readonly MediaKind[],
  placeholders: Placeholders,
): readonly number[] | undefined {
  const kindOf = new Map(Array.from(placeholders, ([kind, id]) => [id, kind]));
  if (kinds.some((kind) => !placeholders.has(kind))) return undefined;
  const places: number[] = [];
  for (let at = 0; at < tokens.length; at++) {
    const kind = kindOf.get(tokens[at] as number);
    if (kind === undefined) continue;
    if (kind !== kinds[places.length]) return undefined;
    places.push(at);
  }
  return places.length === kinds.length ? places : undefined;
}

/**
 * Finds the tokens of each medium. `expanded` is the prompt as its engine has it, and `tokens` the prompt as rendered
 * here, with placeholders. Returns undefined if the two do not fit together in one clear way.
 */
export function expansionsOf(
  tokens: Uint32Array,
  expanded: Uint32Array,
  kinds: readonly MediaKind[],
  known: Placeholders,
): Expansions | undefined {
  const places = placesOf(tokens, kinds, known);
  if (places !== undefined) {
    const runs = runsBetween(tokens, expanded, places);
    return runs && { runs, placeholders: known };
  }
  const [kind] = kinds;
  if (kind === undefined || kinds.some((other) => other !== kind) || expanded.length <= tokens.length) return undefined;
  for (const id of candidates(tokens, expanded, { count: kinds.length, mustGrow: known.has(kind) })) {
    const placeholders = new Map(known).set(kind, id);
    const found = placesOf(tokens, kinds, placeholders);
    const runs = found && runsBetween(tokens, expanded, found);
    if (runs !== undefined) return { runs, placeholders };
  }
  return undefined;
}

/**
 * Returns the tokens that occur `count` times in the prompt, beginning with those of which the engine has made most.
 */
function candidates(
  tokens: Uint32Array,
  expanded: Uint32Array,
  { count, mustGrow }: { readonly count: number; readonly mustGrow: boolean },
): readonly number[] {
  const before = countsOf(tokens);
  const after = countsOf(expanded);
  const grown = [...before].filter(([, times]) => times === count).map(([id]) => [id, after.get(id) ?? 0] as const);
  return grown
    .filter(([, times]) => !mustGrow || times > count)
    .sort(([, a], [, b]) => b - a)
    .slice(0, CANDIDATES_MAX)
    .map(([id]) => id);
}

function countsOf(tokens: Uint32Array): ReadonlyMap<number, number> {
  const counts = new Map<number, number>();
  for (const id of tokens) counts.set(id, (counts.get(id) ?? 0) + 1);
  return counts;
}

/**
 * Returns the tokens in `expanded` at each of `places`. Both prompts have the same text between the places, and it is
 * not empty.
 */
function runsBetween(
  tokens: Uint32Array,
  expanded: Uint32Array,
  places: readonly number[],
): readonly Uint32Array[] | undefined {
  const runs: Uint32Array[] = [];
  let [from, start] = [0, 0]; // the text after the last place, and the start of the run there
  for (const [at, place] of places.entries()) {
    const text = tokens.subarray(from, place);
    const found = at === 0 ? (startsWith(expanded, text) ? 0 : -1) : indexOf(expanded, text, start + 1);
    if (found === -1 || (at > 0 && text.length === 0)) return undefined;
    if (at > 0) runs.push(expanded.slice(start, found));
    start = found + text.length;
    from = place + 1;
  }
  const rest = tokens.subarray(from);
  const end = expanded.length - rest.length;
  if (end <= start || !startsWith(expanded.subarray(end), rest)) return undefined;
  runs.push(expanded.slice(start, end));
  return runs;
}

function startsWith(tokens: Uint32Array, start: Uint32Array): boolean {
  return tokens.length >= start.length && bytesOf(tokens.subarray(0, start.length)).equals(bytesOf(start));
}

function indexOf(tokens: Uint32Array, part: Uint32Array, from: number): number {
  const [bytes, wanted] = [bytesOf(tokens), bytesOf(part)];
  for (let at = bytes.indexOf(wanted, 4 * from); at !== -1; at = bytes.indexOf(wanted, at + 1)) {
    if (at % 4 === 0) return at / 4;
  }
  return -1;
}

function bytesOf({ buffer, byteOffset, byteLength }: Uint32Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}
