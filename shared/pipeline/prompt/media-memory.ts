import { BoundedMap } from '../../records/index.ts';
import { mediaIdentity } from '../../tokens/index.ts';
import type { MediaKind, Placeholders } from './media-expansion.ts';

/** Knowledge about how one model takes media. */
interface ModelMedia {
  placeholders: Placeholders;
  /** Average number of tokens of a medium. */
  meanTokens: number;
}

const MODELS_MAX = 256;
const SHAPES_MAX = 20_000;
const URLS_MAX = 20_000;
const SHAPE_WORDS_MAX = 8 << 20;
/** Tokens of a picture of medium size, until an engine has read one. */
const TOKENS_GUESS = 576;
/** Weight of the latest medium in the average. */
const LATEST = 0.1;
const NONE: Placeholders = new Map<MediaKind, number>();

/**
 * Remembers how many tokens, and which, engines have made of media. Only engines know that, and they make the same
 * tokens of the same medium again. The memory is bounded: the entry used longest ago leaves.
 */
export class MediaMemory {
  readonly #models = new BoundedMap<string, ModelMedia>(MODELS_MAX);
  /** Tokens by model and medium, as runs of equal tokens: `[token, count, ...]`. */
  readonly #shapes = new BoundedMap<string, Uint32Array>(SHAPES_MAX, (shape) => {
    this.#shapeWords -= shape.length;
  });
  /** Identity of the medium that was last read at a URL, by the URL's own identity. */
  readonly #identities = new BoundedMap<string, string>(URLS_MAX);
  readonly #shapeWordsMax: number;
  #shapeWords = 0;

  /** @param shapeWordsMax words of all shapes together @default 32 MiB of them */
  constructor(shapeWordsMax = SHAPE_WORDS_MAX) {
    this.#shapeWordsMax = shapeWordsMax;
  }

  placeholdersOf(model: string): Placeholders {
    return this.#models.get(model)?.placeholders ?? NONE;
  }

  /** Returns the expected tokens of an unknown medium. */
  expectedTokens(model: string): number {
    return Math.round(this.#models.get(model)?.meanTokens ?? TOKENS_GUESS);
  }

  /** Returns the identity of the medium at `url`; undefined if no worker has reported it. */
  identityOf(url: string): string | undefined {
    return isInline(url) ? mediaIdentity(url) : this.#identities.use(mediaIdentity(url));
  }

  /** Notes the identity that a worker has read at `url`. */
  noteIdentity(url: string, identity: string): void {
    if (isInline(url)) return;
    this.#identities.set(mediaIdentity(url), identity);
  }

  /** Returns the tokens of a medium at a model; undefined if they are not known. */
  tokensOf(model: string, identity: string): Uint32Array | undefined {
    const shape = this.#shapes.use(`${model}/${identity}`);
    return shape && unpack(shape);
  }

  noteTokens(model: string, identity: string, tokens: Uint32Array): void {
    const known = this.#models.get(model);
    if (known !== undefined) known.meanTokens += LATEST * (tokens.length - known.meanTokens);
    const key = `${model}/${identity}`;
    const shape = pack(tokens);
    this.#shapeWords += shape.length - (this.#shapes.get(key)?.length ?? 0);
    this.#shapes.set(key, shape);
    while (this.#shapeWords > this.#shapeWordsMax) this.#shapes.dropOldest();
  }

  notePlaceholders(model: string, placeholders: Placeholders): void {
    const known = this.#models.get(model);
    this.#models.set(model, { meanTokens: known?.meanTokens ?? TOKENS_GUESS, placeholders });
  }
}

function isInline(url: string): boolean {
  return /^data:/i.test(url);
}

function pack(tokens: Uint32Array): Uint32Array {
  const runs: number[] = [];
  for (const id of tokens) {
    const last = runs.length - 2;
    if (last >= 0 && runs[last] === id) runs[last + 1] = (runs[last + 1] as number) + 1;
    else runs.push(id, 1);
  }
  return Uint32Array.from(runs);
}

function unpack(runs: Uint32Array): Uint32Array {
  let length = 0;
  for (let at = 1; at < runs.length; at += 2) length += runs[at] as number;
  const tokens = new Uint32Array(length);
  let end = 0;
  for (let at = 0; at < runs.length; at += 2) {
    tokens.fill(runs[at] as number, end, end + (runs[at + 1] as number));
    end += runs[at + 1] as number;
  }
  return tokens;
}
