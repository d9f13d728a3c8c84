/** Number of parts from which known hashes are looked up: hashing fewer takes less time. */
const PARTS_MIN = 4;

/** Tokens that prompts may have in common. Their hashes are stored in the part and freed with it. */
export interface Part {
  readonly ids: Uint32Array;
  /** Number that distinguishes the part from all parts ever made, so that runs need not keep a reference to it. */
  readonly serial: number;
  /** Place in the run that hashed it last; undefined until then. */
  place: PartPlace | undefined;
}

/** The parts of a run up to one of them, with everything before the run. */
export interface PartPlace {
  readonly run: HashedRun;
  readonly at: number;
}

/** Consecutive parts whose blocks were hashed together. */
interface HashedRun {
  /** Place before the run's first part; undefined if the run begins the prompt. */
  readonly before: PartPlace | undefined;
  /** Everything else that the hashes depend on. */
  readonly recipe: string;
  readonly serials: Float64Array;
  /** Tokens of the prompt up to the end of each part. */
  readonly tokensAt: Float64Array;
  /** Hashes of the blocks that end in these parts. */
  readonly hashes: Hashes;
  /** Number of blocks of the prompt before those. */
  readonly from: number;
}

/** Pairs of halves, like all hashes. */
interface Hashes {
  readonly local: Uint32Array;
  readonly sequence: Uint32Array;
}

const partsOfPrompt = new WeakMap<Uint32Array, readonly Part[]>();

/**
 * Records that `tokens` begins with `parts`, so that parts that occur again after the same parts need no hashing. A
 * part's ids must not change.
 */
export function noteParts(tokens: Uint32Array, parts: readonly Part[]): void {
  if (parts.length >= PARTS_MIN) partsOfPrompt.set(tokens, parts);
}

/** Returns the parts that a prompt begins with, if they are known. */
export function partsOf(tokens: Uint32Array): readonly Part[] | undefined {
  return partsOfPrompt.get(tokens);
}

export interface PartHashing {
  /** Everything that the hashes depend on besides the tokens. */
  readonly recipe: string;
  /** Returns how many complete blocks the first `tokens` tokens have. */
  blocksIn(tokens: number): number;
  /** Writes the hashes of all blocks from `from` on. */
  hash(from: number): void;
}

/** Copies the hashes of the leading parts that are known, has `hash` compute the rest, and stores it. */
export function hashParts(parts: readonly Part[], hashes: Hashes, { recipe, blocksIn, hash }: PartHashing): void {
  const known = countKnown(parts, recipe);
  const before = parts[known - 1]?.place;
  let tokens = before === undefined ? 0 : tokensAt(before);
  const from = blocksIn(tokens);
  copyHashes(before, from, hashes);
  hash(from);
  const added = parts.slice(known);
  if (added.length === 0) return;
  const ends = Float64Array.from(added, ({ ids }) => (tokens += ids.length));
  const to = blocksIn(tokens);
  const run: HashedRun = {
    before,
    recipe,
    serials: Float64Array.from(added, ({ serial }) => serial),
    tokensAt: ends,
    hashes: { local: hashes.local.slice(2 * from, 2 * to), sequence: hashes.sequence.slice(2 * from, 2 * to) },
    from,
  };
  for (const [at, part] of added.entries()) part.place = { run, at };
}

/** Returns how many leading parts were hashed one after another before. */
function countKnown(parts: readonly Part[], recipe: string): number {
  for (let count = parts.length; count > 0; ) {
    const { place } = parts[count - 1] as Part;
    const rest = place?.run.recipe === recipe ? knownAtMost(parts, count, place) : count - 1;
    if (rest === undefined) return count;
    count = rest;
  }
  return 0;
}

/**
 * Compares the first `count` parts, from the last one back, with the parts that led to `place`.
 * @returns undefined when they are the same; otherwise how many of them may have been hashed together elsewhere
 */
function knownAtMost(parts: readonly Part[], count: number, place: PartPlace): number | undefined {
  let at = count - 1;
  for (let here: PartPlace | undefined = place; here !== undefined; here = here.run.before) {
    const { serials } = here.run;
    for (let each = here.at; each >= 0; each--, at--) {
      if (at < 0) return 0; // the part was further into its prompt
      if ((parts[at] as Part).serial !== serials[each]) return at + 1;
    }
  }
  return at < 0 ? undefined : at + 1;
}

function tokensAt({ run, at }: PartPlace): number {
  return run.tokensAt[at] as number;
}

/**
 * Writes the hashes of the first `blocks` blocks, which end at `place`: one range for each run that hashed some of
 * them.
 */
function copyHashes(place: PartPlace | undefined, blocks: number, { local, sequence }: Hashes): void {
  let to = blocks;
  for (let here = place; here !== undefined; here = here.run.before) {
    const { from, hashes } = here.run;
    local.set(hashes.local.subarray(0, 2 * (to - from)), 2 * from);
    sequence.set(hashes.sequence.subarray(0, 2 * (to - from)), 2 * from);
    to = from;
  }
}
