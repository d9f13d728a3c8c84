import type { EventPlane, EventTransport } from './types.ts';

/** Bound of the planes that records can make a process open. Each has connections of its own. */
const OTHER_PLANES_MAX = 8;

interface OtherPlanesOptions {
  /** Opens a plane that follows publishers of `transport`. */
  open(transport: EventTransport): EventPlane;
  /** Called with the failure to close a plane. */
  readonly onProblem: (problem: unknown) => void;
}

interface OpenPlane {
  readonly plane: EventPlane;
  /** Number of subscriptions that use it. */
  uses: number;
  /** Set once nothing uses the plane; its place is free when it resolves. */
  closing: Promise<void> | undefined;
}

/**
 * Planes that subscriptions share, at most eight at a time. A plane opens for the first subscription that needs it and
 * closes after the last. One that is still closing counts, and its place opens again only after that.
 */
export class OtherPlanes {
  readonly #options: OtherPlanesOptions;
  readonly #open = new Map<string, OpenPlane>(); // by place
  #isClosed = false;

  constructor(options: OtherPlanesOptions) {
    this.#options = options;
  }

  /**
   * Returns the plane at a place, for a caller that will `release` it. Rejects if it cannot be opened, or if eight
   * others are in use.
   */
  async acquire(place: string, transport: EventTransport): Promise<EventPlane> {
    for (;;) {
      if (this.#isClosed) throw new Error('the event plane is closed');
      const known = this.#open.get(place);
      if (known !== undefined && known.closing === undefined) {
        known.uses++;
        return known.plane;
      }
      const leaving = known?.closing ?? this.#firstToLeave();
      if (leaving === undefined) break;
      await leaving;
    }
    const plane = this.#options.open(transport);
    this.#open.set(place, { plane, uses: 1, closing: undefined });
    return plane;
  }

  /** Closes the plane at a place if no other subscription uses it. */
  release(place: string): void {
    const known = this.#open.get(place);
    if (known === undefined || --known.uses > 0) return;
    known.closing = this.#close(place, known.plane);
  }

  /** Returns the first broker that a plane needs and cannot reach; undefined if none is missing. */
  absence(): string | undefined {
    return [...this.#open.values()].map(({ plane }) => plane.absence?.()).find((each) => each !== undefined);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    const closing = [...this.#open].map(([place, each]) => {
      each.closing ??= this.#close(place, each.plane);
      return each.closing;
    });
    await Promise.all(closing);
  }

  /**
   * Returns the end of the next plane that closes if there is no place for another one; undefined if there is.
   * @throws RangeError if all places are in use
   */
  #firstToLeave(): Promise<void> | undefined {
    if (this.#open.size < OTHER_PLANES_MAX) return undefined;
    const closing = [...this.#open.values()].flatMap((each) => each.closing ?? []);
    if (closing.length === 0)
      throw new RangeError(`event publishers use more than ${OTHER_PLANES_MAX} different brokers`);
    return Promise.race(closing);
  }

  async #close(place: string, plane: EventPlane): Promise<void> {
    try {
      await plane.close();
    } catch (problem) {
      this.#options.onProblem(problem);
    } finally {
      this.#open.delete(place);
    }
  }
}
