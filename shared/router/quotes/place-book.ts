import type { Clock } from '../../clock/index.ts';

/** A request whose prompt is promised a place and is on its way there. */
export interface HeldPlace {
  readonly id: string;
  readonly dpRank: number;
  /** Prompt tokens that it will compute. */
  readonly tokens: number;
}

/** A place is given up when its request has not come by then: it went elsewhere, or whoever sent it is gone. */
const HELD_MS = 250;
/** Places held at once; those beyond are promised without being counted. */
const HELD_MAX = 4096;

/**
 * Requests on their way to one worker, so that those who ask it in the same instant see one another.
 *
 *     quote ──> claim ──held──> request arrives, or 250 ms are over
 *                 └──refused──> claim elsewhere
 */
export class PlaceBook {
  readonly #clock: Pick<Clock, 'nowMs'>;
  readonly #held = new Map<string, HeldPlace & { readonly untilMs: number }>(); // the oldest first
  readonly #tokens = new Map<number, number>(); // by rank

  constructor(clock: Pick<Clock, 'nowMs'>) {
    this.#clock = clock;
  }

  /** Prompt tokens on their way to a rank. */
  tokensOf(dpRank: number): number {
    this.#forgetLate();
    return this.#tokens.get(dpRank) ?? 0;
  }

  hold(place: HeldPlace): void {
    this.arrived(place.id);
    this.#forgetLate();
    if (this.#held.size >= HELD_MAX) return;
    this.#held.set(place.id, { ...place, untilMs: this.#clock.nowMs() + HELD_MS });
    this.#count(place, 1);
  }

  /** The request is there, and counted by the engine from now on. Nothing for one that holds no place. */
  arrived(id: string): void {
    const place = this.#held.get(id);
    if (place === undefined) return;
    this.#held.delete(id);
    this.#count(place, -1);
  }

  #forgetLate(): void {
    const nowMs = this.#clock.nowMs();
    for (const { id, untilMs } of this.#held.values()) {
      if (untilMs > nowMs) return;
      this.arrived(id);
    }
  }

  #count({ dpRank, tokens }: HeldPlace, sign: 1 | -1): void {
    const now = (this.#tokens.get(dpRank) ?? 0) + sign * tokens;
    if (now > 0) this.#tokens.set(dpRank, now);
    else this.#tokens.delete(dpRank);
  }
}
