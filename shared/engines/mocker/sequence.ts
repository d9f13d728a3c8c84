import { grown } from '../../records/index.ts';
import type { BlockHasher } from '../../tokens/index.ts';

/**
 * Names of the full blocks of one sequence. Pairs of u32 halves, low half first: entry `i` stands at `2i` and `2i + 1`.
 * The live engine derives them from the tokens, the simulator from the ids of a trace.
 */
export interface BlockNames {
  /** Names of whole prefixes. */
  readonly hashes: Uint32Array;
  /** Names of each block's own tokens. */
  readonly tokensHashes: Uint32Array;
  /** Ensures that the first `count` blocks have names. The arrays may be replaced by larger ones. */
  ensure(count: number): void;
}

const BLOCKS_INITIAL = 8;

/** One choice of one request, as the scheduler sees it: lengths and blocks, no token ids. */
export abstract class Sequence {
  readonly promptLength: number;
  readonly names: BlockNames;
  /** Length of the prompt and the longest answer. */
  readonly lengthMax: number;
  /** Known tokens: prompt and generated ones. */
  length: number;
  /** Number of tokens whose KV entries exist. */
  computed = 0;
  /** Prompt tokens found in the cache at the first admission; -1 before it. */
  cachedTokens = -1;
  /** Tokens found in the cache at all admissions: a preempted sequence finds its own blocks again. */
  reusedTokens = 0;
  preemptions = 0;
  state: 'new' | 'waiting' | 'running' | 'held' | 'gone' = 'new';
  /** True from an admission until every known token is computed. */
  isPrefilling = false;
  /**
   * Whether its prompt was computed on another engine: all but the last token are there from the first admission on.
   */
  isTransferred = false;
  /** Whether its blocks stay when it is finished, until they are released. */
  keepsBlocks = false;
  /** Tokens scheduled in the pass under way. */
  passTokens = 0;
  isCancelled = false;
  blocks = new Int32Array(BLOCKS_INITIAL);
  blockCount = 0;
  /** Number of leading blocks that are shared by hash. */
  sealedCount = 0;
  next: Sequence | undefined; // links of the waiting queue
  previous: Sequence | undefined;

  /** @param lengthMax @default not known */
  constructor(promptLength: number, names: BlockNames, lengthMax = Number.POSITIVE_INFINITY) {
    this.promptLength = promptLength;
    this.lengthMax = lengthMax;
    this.length = promptLength;
    this.names = names;
  }

  /**
   * Takes the next token: `length` grows by one, unless the sequence ends without a token. Returns true when it is
   * finished.
   */
  abstract emit(): boolean;

  get generated(): number {
    return this.length - this.promptLength;
  }

  pushBlock(slot: number): void {
    if (this.blockCount === this.blocks.length) this.blocks = grown(this.blocks);
    this.blocks[this.blockCount++] = slot;
  }
}

/** Number of waiting sequences, and their known tokens. */
export interface Waiting {
  /** Sequences that have not run yet. */
  requests: number;
  tokens: number;
  /** Sequences that were preempted. */
  preempted: number;
  preemptedTokens: number;
}

/**
 * Waiting sequences in arrival order; preempted ones return to the front. Linked, so that a cancelled one leaves at
 * once.
 */
export class WaitingQueue {
  #head: Sequence | undefined;
  #tail: Sequence | undefined;
  /** Sums, updated with each change because there may be thousands of sequences. The same object each time. */
  readonly sums: Readonly<Waiting>;
  readonly #sums: Waiting = { requests: 0, tokens: 0, preempted: 0, preemptedTokens: 0 };

  constructor() {
    this.sums = this.#sums;
  }

  get size(): number {
    return this.#sums.requests + this.#sums.preempted;
  }

  get head(): Sequence | undefined {
    return this.#head;
  }

  pushBack(sequence: Sequence): void {
    sequence.previous = this.#tail;
    sequence.next = undefined;
    if (this.#tail === undefined) this.#head = sequence;
    else this.#tail.next = sequence;
    this.#tail = sequence;
    this.#count(sequence, 1);
  }

  pushFront(sequence: Sequence): void {
    sequence.next = this.#head;
    sequence.previous = undefined;
    if (this.#head === undefined) this.#tail = sequence;
    else this.#head.previous = sequence;
    this.#head = sequence;
    this.#count(sequence, 1);
  }

  remove(sequence: Sequence): void {
    if (sequence.previous === undefined) this.#head = sequence.next;
    else sequence.previous.next = sequence.next;
    if (sequence.next === undefined) this.#tail = sequence.previous;
    else sequence.next.previous = sequence.previous;
    sequence.next = undefined;
    sequence.previous = undefined;
    this.#count(sequence, -1);
  }

  /** Updates the sums. Neither the length nor the preemptions of a sequence change while it waits. */
  #count({ length, preemptions }: Sequence, change: 1 | -1): void {
    const sums = this.#sums;
    if (preemptions > 0) {
      sums.preempted += change;
      sums.preemptedTokens += change * length;
    } else {
      sums.requests += change;
      sums.tokens += change * length;
    }
  }
}

/** Scope that separates the blocks of a sequence from those of others with the same tokens. */
export interface NameScope {
  readonly loraName?: string | undefined;
  readonly cacheSalt?: string | undefined;
}

/** Tokens of one sequence with the names of their full blocks, computed on demand. */
export class TokenNames implements BlockNames {
  tokens: Uint32Array;
  length: number;
  hashes: Uint32Array;
  tokensHashes: Uint32Array;
  readonly scope: NameScope;
  #named = 0;
  readonly #blockSizeTokens: number;
  readonly #hasher: BlockHasher;

  /** @param scope values that `hasher` hashes besides the tokens */
  constructor(
    prompt: Uint32Array,
    spareTokens: number,
    blockSizeTokens: number,
    hasher: BlockHasher,
    scope: NameScope = {},
  ) {
    this.scope = scope;
    this.tokens = new Uint32Array(prompt.length + spareTokens);
    this.tokens.set(prompt);
    this.length = prompt.length;
    this.#blockSizeTokens = blockSizeTokens;
    this.#hasher = hasher;
    const pairs = Math.floor(this.tokens.length / blockSizeTokens) * 2;
    this.hashes = new Uint32Array(pairs);
    this.tokensHashes = new Uint32Array(pairs);
  }

  push(token: number): void {
    if (this.length === this.tokens.length) this.tokens = grown(this.tokens, this.length * 2);
    this.tokens[this.length++] = token;
  }

  ensure(count: number): void {
    if (count <= this.#named) return;
    if (count * 2 > this.hashes.length) {
      const words = 2 * Math.ceil(this.tokens.length / this.#blockSizeTokens);
      this.hashes = grown(this.hashes, words);
      this.tokensHashes = grown(this.tokensHashes, words);
    }
    this.#hasher.name(this.tokens, this.#named, count, this.tokensHashes, this.hashes);
    this.#named = count;
  }
}
