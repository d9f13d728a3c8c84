import type { KvEvent } from '../../engines/index.ts';

const EVENTS_MAX = 1024;
/** Blocks kept in all; a rank that stores thousands of blocks in each event keeps fewer events. 16 bytes a block. */
const BLOCKS_MAX = 1 << 20;

/** The last events of one rank, for routers that missed some. Ids have no gaps. */
export class EventRing {
  readonly #events: (KvEvent | undefined)[] = new Array(EVENTS_MAX);
  #first = 1;
  #next = 1;
  #blocks = 0;

  /** @param lastEventId id before the first one that is added. @default 0 */
  constructor(lastEventId = 0) {
    this.#first = lastEventId + 1;
    this.#next = lastEventId + 1;
  }

  /** Id of the last event added; one before the first id when there was none. */
  get newest(): number {
    return this.#next - 1;
  }

  /** Id of the oldest event kept; `newest + 1` when none is. */
  get oldest(): number {
    return this.#first;
  }

  /** Returns the event's id. */
  add(event: KvEvent): number {
    if (this.#next - this.#first === EVENTS_MAX) this.#drop();
    const id = this.#next++;
    this.#events[id % EVENTS_MAX] = event;
    this.#blocks += blocksOf(event);
    while (this.#blocks > BLOCKS_MAX && this.#first < id) this.#drop();
    return id;
  }

  /** Must be between `oldest` and `newest`. */
  at(id: number): KvEvent {
    const event = this.#events[id % EVENTS_MAX];
    if (event === undefined || id < this.#first || id >= this.#next) throw new RangeError(`event ${id} is not kept`);
    return event;
  }

  #drop(): void {
    this.#blocks -= blocksOf(this.at(this.#first));
    this.#events[this.#first % EVENTS_MAX] = undefined;
    this.#first++;
  }
}

function blocksOf(event: KvEvent): number {
  return event.kind === 'cleared' ? 0 : event.blockHashes.length / 2;
}
