/** Fewer parts are hashed in less time than it takes to look for what is known of them. */
const PARTS_MIN = 4;

const partsOfPrompt = new WeakMap<Uint32Array, readonly Uint32Array[]>();
const lastSeen = new WeakMap<Uint32Array, KnownPart>();

/** A part behind all before it, and the hashes of the blocks that end in it. */
interface KnownPart {
  /** What stood before it, by identity; undefined = it was the first. */
  readonly before: KnownPart | undefined;
  /** What else the hashes depend on. */
  readonly recipe: string;
  /** Pairs of halves, like all hashes. */
  readonly local: Uint32Array;
  readonly sequence: Uint32Array;
}

/**
 * Says that `tokens` is `parts` joined, so that the blocks of parts that come again behind the same parts are named without
 * hashing. A part is told by its array, which must not change; its hashes are forgotten with it.
 */
export function noteParts(tokens: Uint32Array, parts: readonly Uint32Array[]): void {
  if (parts.length >= PARTS_MIN) partsOfPrompt.set(tokens, parts);
}

/** The parts that a prompt was joined of, if they are known. */
export function partsOf(tokens: Uint32Array): readonly Uint32Array[] | undefined {
  return partsOfPrompt.get(tokens);
}

export interface PartHashing {
  /** What the hashes depend on besides the tokens. */
  readonly recipe: string;
  /** Complete blocks of so many leading tokens. */
  blocksIn(tokens: number): number;
  /** Writes the hashes of all blocks from `from` on. */
  hash(from: number): void;
}

/** Names the blocks of the leading parts that are known, has `hash` name the rest, and remembers it. */
export function hashParts(
  parts: readonly Uint32Array[],
  { local, sequence }: { readonly local: Uint32Array; readonly sequence: Uint32Array },
  { recipe, blocksIn, hash }: PartHashing,
): void {
  let last: KnownPart | undefined;
  let at = 0;
  let blocks = 0;
  let lengthTokens = 0;
  for (; at < parts.length; at++) {
    const part = parts[at] as Uint32Array;
    const known = lastSeen.get(part);
    if (known === undefined || known.before !== last || known.recipe !== recipe) break;
    copy(known.local, local, 2 * blocks);
    copy(known.sequence, sequence, 2 * blocks);
    blocks += known.local.length >> 1;
    lengthTokens += part.length;
    last = known;
  }
  hash(blocks);
  for (; at < parts.length; at++) {
    const part = parts[at] as Uint32Array;
    lengthTokens += part.length;
    const from = 2 * blocks;
    blocks = blocksIn(lengthTokens);
    last = { before: last, recipe, local: local.slice(from, 2 * blocks), sequence: sequence.slice(from, 2 * blocks) };
    lastSeen.set(part, last);
  }
}

/** A part has few blocks: a loop copies them faster than a call. */
function copy(source: Uint32Array, target: Uint32Array, at: number): void {
  for (let word = 0; word < source.length; word++) target[at + word] = source[word] as number;
}
