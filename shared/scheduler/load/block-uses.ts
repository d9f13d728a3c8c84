import { invariant } from '../../errors/index.ts';
import { roomy } from '../../records/index.ts';

/**
 * The ranks that run requests on each block. A rank counts once for a block, even if many of its requests share it.
 *
 *     slots      hash of a run's first block -> run      open addressing, no gaps after a removal
 *     run        blocks one after the other with the same users: place of their hashes, length, run before, first use
 *     hashes     of all runs, pair by pair
 *     use        one for each (run, rank): requests on it, the use of the run before, neighbours in the run's list
 *
 *     run A-H  <- use(A-H, rank 0, 2 requests)  <-> use(A-H, rank 7, 1 request)
 *     run I-K  <- use(I-K, rank 0, 1 request)         parent: use(A-H, rank 0)
 *
 * A sequence hash names a whole prefix, so a rank that uses a block uses all blocks before it. Hence a prompt of any
 * length is a path of few runs. Where a prompt leaves a run, the run is cut in two. Its first block and the run before
 * identify it. A request only has to remember its last use; if that use's run is cut, the use belongs to the tail.
 */
export class BlockUses {
  #depths = new Uint32Array(0);
  #touched = new Uint32Array(0);
  #touchedCount = 0;

  #slots = new Int32Array(256); // run number plus one; 0 = empty
  #runs = new Int32Array(RUN_WORDS * 128);
  #runCount = 0; // numbers given out so far
  #freeRun = NONE;
  #liveRuns = 0;
  #liveBlocks = 0;
  #hashes = new Uint32Array(HASHES_LEAST);
  #hashesEnd = 0; // hashes before it may belong to runs that are gone
  #uses = new Int32Array(USE_WORDS * 128);
  #useCount = 0;
  #freeUse = NONE;
  #discounts = new Float64Array(0); // of each block, by use; the first `lightenTail` allocates it

  /** Number of leading blocks of the prompt last given to `matchDepths` that each rank uses. By rank number. */
  get depths(): Uint32Array {
    return this.#depths;
  }

  /** Distinct blocks in use by any rank. */
  get blockCount(): number {
    return this.#liveBlocks;
  }

  /** @param capacity largest rank number plus one, see `reserve` */
  constructor(capacity: number) {
    this.reserve(capacity);
  }

  /** Makes room for rank numbers below `capacity`. */
  reserve(capacity: number): void {
    this.#depths = roomy(this.#depths, capacity);
    this.#touched = roomy(this.#touched, capacity);
  }

  /**
   * Finds how many leading blocks of the prompt each rank already uses, for all ranks at once. Read the result from
   * `depths`.
   * @param hashes pairs of sequence hashes
   */
  matchDepths(hashes: Uint32Array): void {
    for (let at = 0; at < this.#touchedCount; at++) this.#depths[this.#touched[at] as number] = 0;
    this.#touchedCount = 0;
    const count = hashes.length >> 1;
    let run = NONE;
    for (let position = 0; position < count; ) {
      run = this.#find(hashes, position, run);
      if (run === NONE) return;
      const common = this.#commonBlocks(run, hashes, position);
      position += common;
      this.#raise(run, position);
      if (common < (this.#runs[run * RUN_WORDS + LENGTH] as number)) return;
    }
  }

  /**
   * Starts a request on `rank`. Sets `added` to the number of blocks that are new to the rank.
   * @returns its last use, for `release`; -1 for a prompt without blocks
   */
  acquire(rank: number, hashes: Uint32Array): number {
    const count = hashes.length >> 1;
    let use = NONE;
    let before = NONE;
    this.added = 0;
    for (let position = 0; position < count; ) {
      let run = this.#find(hashes, position, before);
      if (run === NONE) run = this.#addRun(this.#keep(hashes, 2 * position), count - position, before);
      else run = this.#cut(run, this.#commonBlocks(run, hashes, position));
      before = run;
      const length = this.#runs[run * RUN_WORDS + LENGTH] as number;
      const known = this.#useOf(run, rank);
      if (known === NONE) {
        use = this.#addUse(run, rank, 1, use);
        this.added += length;
      } else {
        (this.#uses[known * USE_WORDS + REQUESTS] as number)++;
        use = known;
      }
      position += length;
    }
    return use;
  }

  /** Number of blocks new to their rank in the last `acquire`. */
  added = 0;

  /** Discount of the blocks that left in the last `release`. */
  releasedDiscount = 0;

  /**
   * Ends a request. Sets `releasedDiscount` to the discount of the blocks that left. @returns blocks that its rank no
   * longer uses
   */
  release(lastUse: number): number {
    let gone = 0;
    this.releasedDiscount = 0;
    for (let use = lastUse; use !== NONE; ) {
      const at = use * USE_WORDS;
      const parent = this.#uses[at + PARENT] as number;
      const requests = --(this.#uses[at + REQUESTS] as number);
      invariant(requests >= 0, 'a request ends its use of a block once');
      if (requests === 0) gone += this.#dropUse(use);
      use = parent;
    }
    return gone;
  }

  /**
   * Lowers the weight of each block that no other request of the rank uses by `discount`. Goes from the request's last
   * block back to the first shared one. @returns how much larger the sum of the discounts is than before
   */
  lightenTail(lastUse: number, discount: number): number {
    this.#makeDiscounts();
    let change = 0;
    for (let use = lastUse; use !== NONE; use = this.#uses[use * USE_WORDS + PARENT] as number) {
      if (this.#uses[use * USE_WORDS + REQUESTS] !== 1) break;
      change += (discount - (this.#discounts[use] as number)) * this.#lengthOf(use);
      this.#discounts[use] = discount;
    }
    return change;
  }

  /**
   * Returns the number of leading blocks of the run that the prompt has from `position` on: usually all, otherwise
   * found by bisection.
   */
  #commonBlocks(run: number, hashes: Uint32Array, position: number): number {
    const place = (this.#runs[run * RUN_WORDS + PLACE] as number) - 2 * position;
    const length = this.#runs[run * RUN_WORDS + LENGTH] as number;
    const end = Math.min(position + length, hashes.length >> 1);
    if (this.#isAt(place, hashes, end - 1)) return end - position;
    let low = position + 1; // its first block is how the run was found
    let high = end - 1;
    while (low < high) {
      const middle = (low + high + 1) >>> 1;
      if (this.#isAt(place, hashes, middle - 1)) low = middle;
      else high = middle - 1;
    }
    return low - position;
  }

  #isAt(place: number, hashes: Uint32Array, position: number): boolean {
    const at = 2 * position;
    return this.#hashes[place + at] === hashes[at] && this.#hashes[place + at + 1] === hashes[at + 1];
  }

  #raise(run: number, depth: number): void {
    let use = this.#runs[run * RUN_WORDS + FIRST_USE] as number;
    for (; use !== NONE; use = this.#uses[use * USE_WORDS + NEXT] as number) {
      const rank = this.#uses[use * USE_WORDS + RANK] as number;
      if (this.#depths[rank] === 0) this.#touched[this.#touchedCount++] = rank;
      this.#depths[rank] = depth;
    }
  }

  /**
   * Cuts the first `blocks` blocks off a run. Returns the new run of these blocks. The old run keeps its number and
   * becomes the tail.
   */
  #cut(run: number, blocks: number): number {
    const at = run * RUN_WORDS;
    const [place, length, before] = [this.#runs[at + PLACE]!, this.#runs[at + LENGTH]!, this.#runs[at + BEFORE]!];
    if (blocks === length) return run;
    this.#takeOff(run);
    this.#liveBlocks -= blocks;
    const head = this.#addRun(place, blocks, before);
    this.#describe(run, place + 2 * blocks, length - blocks, head);
    this.#place(run);
    for (let use = this.#runs[run * RUN_WORDS + FIRST_USE] as number; use !== NONE; ) {
      const own = use * USE_WORDS;
      const [rank, requests, parent] = [
        this.#uses[own + RANK]!,
        this.#uses[own + REQUESTS]!,
        this.#uses[own + PARENT]!,
      ];
      const ahead = this.#addUse(head, rank, requests, parent);
      this.#uses[own + PARENT] = ahead;
      if (use < this.#discounts.length) {
        this.#makeDiscounts();
        this.#discounts[ahead] = this.#discounts[use] as number;
      }
      use = this.#uses[own + NEXT] as number;
    }
    return head;
  }

  /** Allocates the discount of every use. */
  #makeDiscounts(): void {
    if (this.#discounts.length >= this.#useCount) return;
    this.#discounts = roomy(this.#discounts, this.#uses.length / USE_WORDS);
  }

  #useOf(run: number, rank: number): number {
    let use = this.#runs[run * RUN_WORDS + FIRST_USE] as number;
    while (use !== NONE && this.#uses[use * USE_WORDS + RANK] !== rank)
      use = this.#uses[use * USE_WORDS + NEXT] as number;
    return use;
  }

  #lengthOf(use: number): number {
    return this.#runs[(this.#uses[use * USE_WORDS + RUN] as number) * RUN_WORDS + LENGTH] as number;
  }

  #addUse(run: number, rank: number, requests: number, parent: number): number {
    let use = this.#freeUse;
    if (use === NONE) {
      use = this.#useCount++;
      this.#uses = roomy(this.#uses, this.#useCount * USE_WORDS);
    } else {
      this.#freeUse = this.#uses[use * USE_WORDS + NEXT] as number;
    }
    const uses = this.#uses;
    const at = use * USE_WORDS;
    const next = this.#runs[run * RUN_WORDS + FIRST_USE] as number;
    uses[at + RANK] = rank;
    uses[at + REQUESTS] = requests;
    uses[at + RUN] = run;
    uses[at + PARENT] = parent;
    uses[at + NEXT] = next;
    uses[at + PREVIOUS] = NONE;
    if (next !== NONE) uses[next * USE_WORDS + PREVIOUS] = use;
    this.#runs[run * RUN_WORDS + FIRST_USE] = use;
    return use;
  }

  /** @returns the number of blocks of its run */
  #dropUse(use: number): number {
    const uses = this.#uses;
    const length = this.#lengthOf(use);
    if (use < this.#discounts.length) {
      this.releasedDiscount += (this.#discounts[use] as number) * length;
      this.#discounts[use] = 0;
    }
    const at = use * USE_WORDS;
    const run = uses[at + RUN] as number;
    const next = uses[at + NEXT] as number;
    const previous = uses[at + PREVIOUS] as number;
    if (previous === NONE) this.#runs[run * RUN_WORDS + FIRST_USE] = next;
    else uses[previous * USE_WORDS + NEXT] = next;
    if (next !== NONE) uses[next * USE_WORDS + PREVIOUS] = previous;
    uses[at + NEXT] = this.#freeUse;
    this.#freeUse = use;
    if (previous === NONE && next === NONE) this.#dropRun(run);
    return length;
  }

  /** Returns the run that begins with the prompt's block at `position`, after the run `before`. */
  #find(hashes: Uint32Array, position: number, before: number): number {
    const low = hashes[2 * position] as number;
    const high = hashes[2 * position + 1] as number;
    const runs = this.#runs;
    const mask = this.#slots.length - 1;
    for (let slot = home(low, high) & mask; ; slot = (slot + 1) & mask) {
      const run = (this.#slots[slot] as number) - 1;
      if (run === NONE) return NONE;
      const at = run * RUN_WORDS;
      const place = runs[at + PLACE] as number;
      if (this.#hashes[place] === low && this.#hashes[place + 1] === high && runs[at + BEFORE] === before) return run;
    }
  }

  #addRun(place: number, length: number, before: number): number {
    let run = this.#freeRun;
    if (run === NONE) {
      run = this.#runCount++;
      this.#runs = roomy(this.#runs, this.#runCount * RUN_WORDS);
    } else {
      this.#freeRun = this.#runs[run * RUN_WORDS + FIRST_USE] as number;
    }
    this.#describe(run, place, length, before);
    this.#runs[run * RUN_WORDS + FIRST_USE] = NONE;
    this.#liveBlocks += length;
    if (2 * ++this.#liveRuns > this.#slots.length) this.#rehash();
    this.#place(run);
    return run;
  }

  #describe(run: number, place: number, length: number, before: number): void {
    const at = run * RUN_WORDS;
    this.#runs[at + PLACE] = place;
    this.#runs[at + LENGTH] = length;
    this.#runs[at + BEFORE] = before;
  }

  /** Stores the hashes from `from` on. Returns their place. */
  #keep(hashes: Uint32Array, from: number): number {
    const count = hashes.length - from;
    if (this.#hashesEnd + count > this.#hashes.length) this.#makeRoom(count);
    const place = this.#hashesEnd;
    this.#hashes.set(from === 0 ? hashes : hashes.subarray(from), place);
    this.#hashesEnd += count;
    return place;
  }

  /**
   * Compacts the hashes, leaving out those that belong to no run. The new array is twice as large as needed, so that
   * this is rare.
   */
  #makeRoom(count: number): void {
    const kept = this.#hashes;
    this.#hashes = new Uint32Array(Math.max(HASHES_LEAST, 2 * (2 * this.#liveBlocks + count)));
    this.#hashesEnd = 0;
    for (let at = 0; at < this.#runCount * RUN_WORDS; at += RUN_WORDS) {
      const [place, length] = [this.#runs[at + PLACE]!, this.#runs[at + LENGTH]!];
      this.#hashes.set(kept.subarray(place, place + 2 * length), this.#hashesEnd);
      this.#runs[at + PLACE] = this.#hashesEnd;
      this.#hashesEnd += 2 * length;
    }
  }

  #place(run: number): void {
    const mask = this.#slots.length - 1;
    let slot = this.#homeOf(run) & mask;
    while (this.#slots[slot] !== 0) slot = (slot + 1) & mask;
    this.#slots[slot] = run + 1;
  }

  #rehash(): void {
    const old = this.#slots;
    this.#slots = new Int32Array(2 * old.length);
    for (let slot = 0; slot < old.length; slot++) if (old[slot] !== 0) this.#place((old[slot] as number) - 1);
  }

  #dropRun(run: number): void {
    this.#takeOff(run);
    this.#liveBlocks -= this.#runs[run * RUN_WORDS + LENGTH] as number;
    this.#liveRuns--;
    this.#runs[run * RUN_WORDS + LENGTH] = 0;
    this.#runs[run * RUN_WORDS + FIRST_USE] = this.#freeRun;
    this.#freeRun = run;
  }

  /** Removes the run from the table and closes the gap, so that no probe ends too early. */
  #takeOff(run: number): void {
    const slots = this.#slots;
    const mask = slots.length - 1;
    let gap = this.#homeOf(run) & mask;
    while (slots[gap] !== run + 1) gap = (gap + 1) & mask;
    for (let slot = (gap + 1) & mask; slots[slot] !== 0; slot = (slot + 1) & mask) {
      const wanted = this.#homeOf((slots[slot] as number) - 1) & mask;
      // An entry between its home and the other side of the gap stays.
      if (((slot - wanted) & mask) < ((slot - gap) & mask)) continue;
      slots[gap] = slots[slot] as number;
      gap = slot;
    }
    slots[gap] = 0;
  }

  #homeOf(run: number): number {
    const place = this.#runs[run * RUN_WORDS + PLACE] as number;
    return home(this.#hashes[place] as number, this.#hashes[place + 1] as number);
  }
}

const NONE = -1;
const HASHES_LEAST = 4096;
const RUN_WORDS = 4;
const [PLACE, LENGTH, BEFORE, FIRST_USE] = [0, 1, 2, 3] as const;
const USE_WORDS = 6;
const [RANK, REQUESTS, RUN, PARENT, NEXT, PREVIOUS] = [0, 1, 2, 3, 4, 5] as const;

/** Returns the slot where a hash belongs. Hashes of other programs may be small numbers, so all bits are mixed. */
function home(low: number, high: number): number {
  const mixed = Math.imul(low ^ Math.imul(high, 0x85ebca6b), 0x9e3779b1);
  return mixed ^ (mixed >>> 15);
}
