import type { Random } from '../../clock/index.ts';
import { roomy } from '../../records/index.ts';

/** Own decisions that other routers' bookings may still turn out to be as old as. */
const OPEN_MAX = 64;
/** Latest bookings of other routers, whose lengths are drawn. */
const LENGTHS_MAX = 32;
/** Bookings drawn for one decision at most. */
const DRAWN_MAX = 64;
/** Ranks among which a drawn booking goes to the one with the least to compute, as another router would send it. */
const CHOICES = 3;
const KEPT = 0.9;
/** Own decisions after which the mean says something. */
const SETTLED_MIN = 4;
/** Mean below which nothing is drawn. */
const MEAN_MIN = 0.02;
/** Tolerance for the rounding of instants. */
const ROUNDING_MS = 0.01;

/**
 * Load that other routers have sent to the ranks and that this router has not heard of yet. Routers that decide in one
 * instant see the same loads, and would all choose the same rank. Each therefore draws where the others' requests may
 * have gone, and decides as if they had. How many there are it learns: for each of its own decisions it counts the
 * bookings of others that arrive within the delay of such messages.
 */
export class UnseenLoad {
  /** Prompt tokens that `draw` has put on each candidate. */
  tokens = new Float64Array(64);
  /** Mean number of bookings that were under way when this router decided. */
  #mean = 0;
  /** Mean prompt tokens of those that went to the rank that this router chose, too. */
  #collidedTokens = 0;
  readonly #lengths = new Float64Array(LENGTHS_MAX);
  #lengthCount = 0;
  readonly #openSinceMs = new Float64Array(OPEN_MAX);
  readonly #openCounts = new Float64Array(OPEN_MAX);
  readonly #openRanks = new Float64Array(OPEN_MAX);
  readonly #openCollided = new Float64Array(OPEN_MAX);
  /** Own decisions that the mean has counted. */
  #settled = 0;
  #firstOpen = 0;
  #nextOpen = 0;
  readonly #lagMs: () => number;

  /** @param lagMs returns the milliseconds from a booking until other routers hear of it */
  constructor(lagMs: () => number) {
    this.#lagMs = lagMs;
  }

  /** Mean number of bookings of other routers that this router does not know of when it decides. */
  get mean(): number {
    return this.#mean;
  }

  /** Whether the mean comes from so few decisions that it says little. */
  get isNew(): boolean {
    return this.#settled < SETTLED_MIN;
  }

  /** Mean prompt tokens to compute of the latest bookings of others; 0 if there was none. */
  get meanTokens(): number {
    const count = Math.min(this.#lengthCount, LENGTHS_MAX);
    let sum = 0;
    for (let at = 0; at < count; at++) sum += this.#lengths[at] as number;
    return count === 0 ? 0 : sum / count;
  }

  /** Mean prompt tokens to compute of bookings of others that went to the same rank as a decision in that instant. */
  get collidedTokens(): number {
    return this.#collidedTokens;
  }

  /** Records a decision of this router. */
  decided(nowMs: number, rank: number): void {
    this.#settle(nowMs);
    if (this.#nextOpen - this.#firstOpen === OPEN_MAX) this.#close();
    const at = this.#nextOpen++ % OPEN_MAX;
    this.#openSinceMs[at] = nowMs;
    this.#openCounts[at] = 0;
    this.#openRanks[at] = rank;
    this.#openCollided[at] = 0;
  }

  /** Records a booking of another router, with the prompt tokens that it leaves to compute. */
  booked(tokens: number, nowMs: number, rank: number): void {
    this.#settle(nowMs);
    this.#lengths[this.#lengthCount++ % LENGTHS_MAX] = tokens;
    for (let open = this.#firstOpen; open < this.#nextOpen; open++) {
      const at = open % OPEN_MAX;
      this.#openCounts[at]!++;
      if (this.#openRanks[at] === rank) this.#openCollided[at]! += tokens;
    }
  }

  /**
   * Fills `tokens` for the candidates. Returns false if there is nothing to draw; then `tokens` is not filled.
   * @param backlogs prompt tokens that each of the `count` candidates still has to compute
   */
  draw(backlogs: Float64Array, count: number, random: Random): boolean {
    if (this.#mean < MEAN_MIN || this.#lengthCount === 0) return false;
    const drawn = Math.min(DRAWN_MAX, Math.floor(this.#mean + random.next()));
    if (drawn === 0) return false;
    this.tokens = roomy(this.tokens, count).fill(0, 0, count);
    const lengths = Math.min(this.#lengthCount, LENGTHS_MAX);
    for (let booking = 0; booking < drawn; booking++) {
      const at = this.#leastOf(CHOICES, backlogs, count, random);
      this.tokens[at]! += this.#lengths[random.below(lengths)] as number;
    }
    return true;
  }

  /** Returns the candidate with the least to compute among some that are drawn. */
  #leastOf(choices: number, backlogs: Float64Array, count: number, random: Random): number {
    let least = random.below(count);
    for (let choice = 1; choice < choices; choice++) {
      const at = random.below(count);
      const tokens = (backlogs[at] as number) + (this.tokens[at] as number);
      if (tokens < (backlogs[least] as number) + (this.tokens[least] as number)) least = at;
    }
    return least;
  }

  #settle(nowMs: number): void {
    const sinceMs = nowMs - this.#lagMs() - ROUNDING_MS;
    while (this.#firstOpen < this.#nextOpen && (this.#openSinceMs[this.#firstOpen % OPEN_MAX] as number) < sinceMs) {
      this.#close();
    }
  }

  #close(): void {
    const at = this.#firstOpen++ % OPEN_MAX;
    const count = this.#openCounts[at] as number;
    const kept = Math.min(KEPT, this.#settled / (this.#settled + 1));
    this.#settled++;
    this.#mean = kept * this.#mean + (1 - kept) * count;
    this.#collidedTokens = kept * this.#collidedTokens + (1 - kept) * (this.#openCollided[at] as number);
  }
}
