import { growInts, growNumbers, growWords } from './grow.ts';

/**
 * Which ranks run requests on which blocks, counted once a rank however many of its requests share the block.
 *
 *     slots      hash -> block            open addressing, no gaps after a removal
 *     block      low, high, holders, first use
 *     use        one for each (block, rank): requests on it, the use of the block before, neighbours in the block's list
 *
 *     block A  <- use(A, rank 0, 2 requests)  <-> use(A, rank 7, 1 request)
 *     block B  <- use(B, rank 0, 1 request)         parent: use(A, rank 0)
 *
 * A sequence hash names a whole prefix, so a rank that runs on a block runs on all before it: the holders of a block are
 * among the holders of the one before. Hence a request needs to remember only its last use, and a prompt's shared depth is
 * found for all ranks at once by looking only where the number of holders changes.
 */
export class BlockUses {
  #depths: Uint32Array<ArrayBuffer>;
  #touched: Uint32Array<ArrayBuffer>;
  #touchedCount = 0;

  #slots = new Int32Array(1024); // block number plus one; 0 = empty
  #blocks = new Int32Array(BLOCK_WORDS * 512);
  #blockCount = 0; // ever numbered
  #freeBlock = NONE;
  #liveBlocks = 0;
  #uses = new Int32Array(USE_WORDS * 512);
  #useCount = 0;
  #freeUse = NONE;
  #discounts = new Float64Array(0); // by use; grown by the first `lightenTail`

  /** @param capacity largest rank number plus one */
  constructor(capacity: number) {
    this.#depths = new Uint32Array(capacity);
    this.#touched = new Uint32Array(capacity);
  }

  /** Shared depth of each rank in the prompt last given to `matchDepths`, in blocks. By rank number. */
  get depths(): Uint32Array {
    return this.#depths;
  }

  /** Distinct blocks in use by anybody. */
  get blockCount(): number {
    return this.#liveBlocks;
  }

  reserve(capacity: number): void {
    this.#depths = growWords(this.#depths, capacity);
    this.#touched = growWords(this.#touched, capacity);
  }

  /**
   * How many leading blocks of the prompt each rank runs on already, for all ranks at once; read them from `depths`.
   * @param hashes pairs of sequence hashes
   */
  matchDepths(hashes: Uint32Array): void {
    for (let at = 0; at < this.#touchedCount; at++) this.#depths[this.#touched[at] as number] = 0;
    this.#touchedCount = 0;
    const count = hashes.length >> 1;
    let position = 0;
    while (position < count) {
      const first = this.#find(hashes[2 * position] as number, hashes[2 * position + 1] as number);
      if (first === NONE) return;
      const holders = this.#blocks[first * BLOCK_WORDS + HOLDERS] as number;
      const last = this.#lastWith(holders, hashes, position, count);
      const block = last === position ? first : this.#find(hashes[2 * last] as number, hashes[2 * last + 1] as number);
      this.#raise(block, last + 1);
      position = last + 1;
    }
  }

  /**
   * Starts a request on `rank`.
   * @param depth its shared depth on the rank; found here where `matchDepths` was not asked for this prompt just before
   * @returns its last use, for `release`; -1 for a prompt without blocks. `added` tells how many blocks the rank did not run
   * on before.
   */
  acquire(rank: number, hashes: Uint32Array, depth = this.#depthOf(rank, hashes)): number {
    const count = hashes.length >> 1;
    let use = depth === 0 ? NONE : this.#useOf(hashes, depth - 1, rank);
    for (let shared = use; shared !== NONE; shared = this.#uses[shared * USE_WORDS + PARENT] as number) {
      (this.#uses[shared * USE_WORDS + REQUESTS] as number)++;
    }
    for (let position = depth; position < count; position++) {
      const block = this.#findOrAdd(hashes[2 * position] as number, hashes[2 * position + 1] as number);
      use = this.#addUse(block, rank, use);
    }
    this.added = count - depth;
    return use;
  }

  /** Blocks new to their rank in the last `acquire`. */
  added = 0;

  /** Discount of the blocks that left in the last `release`. */
  releasedDiscount = 0;

  /** Ends a request. `releasedDiscount` tells by how much they were lightened. @returns blocks its rank no longer runs on */
  release(lastUse: number): number {
    let gone = 0;
    this.releasedDiscount = 0;
    for (let use = lastUse; use !== NONE; ) {
      const at = use * USE_WORDS;
      const parent = this.#uses[at + PARENT] as number;
      if (--(this.#uses[at + REQUESTS] as number) === 0) {
        this.#dropUse(use);
        gone++;
      }
      use = parent;
    }
    return gone;
  }

  /**
   * Lightens each block that no other request of the rank runs on by `discount`, from the request's last block back to the
   * first that is shared. @returns by how much more than before in all
   */
  lightenTail(lastUse: number, discount: number): number {
    if (this.#discounts.length < this.#useCount)
      this.#discounts = growNumbers(this.#discounts, this.#uses.length / USE_WORDS);
    let change = 0;
    for (let use = lastUse; use !== NONE; use = this.#uses[use * USE_WORDS + PARENT] as number) {
      if (this.#uses[use * USE_WORDS + REQUESTS] !== 1) break;
      change += discount - (this.#discounts[use] as number);
      this.#discounts[use] = discount;
    }
    return change;
  }

  /** Last position from `from` on whose block has as many holders: gallop, then halve. */
  #lastWith(holders: number, hashes: Uint32Array, from: number, count: number): number {
    let low = from;
    let step = 1;
    while (low + step < count && this.#holdersAt(hashes, low + step) === holders) {
      low += step;
      step *= 2;
    }
    let high = Math.min(low + step, count); // exclusive
    while (high - low > 1) {
      const middle = (low + high) >>> 1;
      if (this.#holdersAt(hashes, middle) === holders) low = middle;
      else high = middle;
    }
    return low;
  }

  #holdersAt(hashes: Uint32Array, position: number): number {
    const block = this.#find(hashes[2 * position] as number, hashes[2 * position + 1] as number);
    return block === NONE ? 0 : (this.#blocks[block * BLOCK_WORDS + HOLDERS] as number);
  }

  #raise(block: number, depth: number): void {
    let use = this.#blocks[block * BLOCK_WORDS + FIRST_USE] as number;
    for (; use !== NONE; use = this.#uses[use * USE_WORDS + NEXT] as number) {
      const rank = this.#uses[use * USE_WORDS + RANK] as number;
      if (this.#depths[rank] === 0) this.#touched[this.#touchedCount++] = rank;
      this.#depths[rank] = depth;
    }
  }

  /** Shared depth of one rank: the last position at which it holds the block, by halving. */
  #depthOf(rank: number, hashes: Uint32Array): number {
    const count = hashes.length >> 1;
    let low = 0; // blocks known to be held
    let high = count; // blocks known not to be held begin here
    for (let step = 1; low + step <= count; step *= 2) {
      if (this.#useOf(hashes, low + step - 1, rank) === NONE) {
        high = low + step - 1;
        break;
      }
      low += step;
    }
    while (low < high) {
      const middle = (low + high + 1) >>> 1;
      if (this.#useOf(hashes, middle - 1, rank) === NONE) high = middle - 1;
      else low = middle;
    }
    return low;
  }

  #useOf(hashes: Uint32Array, position: number, rank: number): number {
    const block = this.#find(hashes[2 * position] as number, hashes[2 * position + 1] as number);
    if (block === NONE) return NONE;
    let use = this.#blocks[block * BLOCK_WORDS + FIRST_USE] as number;
    while (use !== NONE && this.#uses[use * USE_WORDS + RANK] !== rank)
      use = this.#uses[use * USE_WORDS + NEXT] as number;
    return use;
  }

  #addUse(block: number, rank: number, parent: number): number {
    let use = this.#freeUse;
    if (use === NONE) {
      use = this.#useCount++;
      this.#uses = growInts(this.#uses, this.#useCount * USE_WORDS);
    } else {
      this.#freeUse = this.#uses[use * USE_WORDS + NEXT] as number;
    }
    const uses = this.#uses;
    const at = use * USE_WORDS;
    const next = this.#blocks[block * BLOCK_WORDS + FIRST_USE] as number;
    uses[at + RANK] = rank;
    uses[at + REQUESTS] = 1;
    uses[at + BLOCK] = block;
    uses[at + PARENT] = parent;
    uses[at + NEXT] = next;
    uses[at + PREVIOUS] = NONE;
    if (next !== NONE) uses[next * USE_WORDS + PREVIOUS] = use;
    this.#blocks[block * BLOCK_WORDS + FIRST_USE] = use;
    (this.#blocks[block * BLOCK_WORDS + HOLDERS] as number)++;
    return use;
  }

  #dropUse(use: number): void {
    const uses = this.#uses;
    if (use < this.#discounts.length) {
      this.releasedDiscount += this.#discounts[use] as number;
      this.#discounts[use] = 0;
    }
    const at = use * USE_WORDS;
    const block = uses[at + BLOCK] as number;
    const next = uses[at + NEXT] as number;
    const previous = uses[at + PREVIOUS] as number;
    if (previous === NONE) this.#blocks[block * BLOCK_WORDS + FIRST_USE] = next;
    else uses[previous * USE_WORDS + NEXT] = next;
    if (next !== NONE) uses[next * USE_WORDS + PREVIOUS] = previous;
    uses[at + NEXT] = this.#freeUse;
    this.#freeUse = use;
    if (--(this.#blocks[block * BLOCK_WORDS + HOLDERS] as number) === 0) this.#dropBlock(block);
  }

  #find(low: number, high: number): number {
    const mask = this.#slots.length - 1;
    for (let slot = home(low, high) & mask; ; slot = (slot + 1) & mask) {
      const block = (this.#slots[slot] as number) - 1;
      if (block === NONE) return NONE;
      const at = block * BLOCK_WORDS;
      if (this.#blocks[at + LOW] === (low | 0) && this.#blocks[at + HIGH] === (high | 0)) return block;
    }
  }

  #findOrAdd(low: number, high: number): number {
    const known = this.#find(low, high);
    if (known !== NONE) return known;
    let block = this.#freeBlock;
    if (block === NONE) {
      block = this.#blockCount++;
      this.#blocks = growInts(this.#blocks, this.#blockCount * BLOCK_WORDS);
    } else {
      this.#freeBlock = this.#blocks[block * BLOCK_WORDS + FIRST_USE] as number;
    }
    const at = block * BLOCK_WORDS;
    this.#blocks[at + LOW] = low;
    this.#blocks[at + HIGH] = high;
    this.#blocks[at + HOLDERS] = 0;
    this.#blocks[at + FIRST_USE] = NONE;
    if (2 * ++this.#liveBlocks > this.#slots.length) this.#rehash();
    this.#place(block);
    return block;
  }

  #place(block: number): void {
    const mask = this.#slots.length - 1;
    let slot = this.#homeOf(block) & mask;
    while (this.#slots[slot] !== 0) slot = (slot + 1) & mask;
    this.#slots[slot] = block + 1;
  }

  #rehash(): void {
    const old = this.#slots;
    this.#slots = new Int32Array(2 * old.length);
    for (let slot = 0; slot < old.length; slot++) if (old[slot] !== 0) this.#place((old[slot] as number) - 1);
  }

  /** Takes the block off the table and closes the gap, so that no probe ends too early. */
  #dropBlock(block: number): void {
    const slots = this.#slots;
    const mask = slots.length - 1;
    let gap = this.#homeOf(block) & mask;
    while (slots[gap] !== block + 1) gap = (gap + 1) & mask;
    for (let slot = (gap + 1) & mask; slots[slot] !== 0; slot = (slot + 1) & mask) {
      const wanted = this.#homeOf((slots[slot] as number) - 1) & mask;
      if (((slot - wanted) & mask) < ((slot - gap) & mask)) continue; // it lies between its home and the gap's other side
      slots[gap] = slots[slot] as number;
      gap = slot;
    }
    slots[gap] = 0;
    this.#blocks[block * BLOCK_WORDS + FIRST_USE] = this.#freeBlock;
    this.#freeBlock = block;
    this.#liveBlocks--;
  }

  #homeOf(block: number): number {
    return home(this.#blocks[block * BLOCK_WORDS + LOW] as number, this.#blocks[block * BLOCK_WORDS + HIGH] as number);
  }
}

const NONE = -1;
const BLOCK_WORDS = 4;
const [LOW, HIGH, HOLDERS, FIRST_USE] = [0, 1, 2, 3] as const;
const USE_WORDS = 6;
const [RANK, REQUESTS, BLOCK, PARENT, NEXT, PREVIOUS] = [0, 1, 2, 3, 4, 5] as const;

/** Hashes that others make may be small numbers; the table wants all bits to count. */
function home(low: number, high: number): number {
  const mixed = Math.imul(low ^ Math.imul(high, 0x85ebca6b), 0x9e3779b1);
  return mixed ^ (mixed >>> 15);
}
