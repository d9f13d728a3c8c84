import type { Clock } from '../clock/index.ts';
import type { OpenOnce } from '../concurrency/index.ts';
import type { StartReading } from '../planner/index.ts';
import type { StartSource } from './cold-starts.ts';
import { groupRow, type OwnNameOf } from './planner/groups.ts';
import type { PlannerRecords } from './planner/reader.ts';

/** Age of the list of planned models from which it is read again, in milliseconds. */
const GROUPS_MS_MAX = 30_000;

interface Groups {
  readonly readAtMs: number;
  readonly ids: Promise<readonly string[]>;
}

/** Reads how far the starts of workers are from the records of planners. */
export class PlannedStarts implements StartSource {
  readonly everyMs = 3000;
  readonly #clock: Clock;
  readonly #records: OpenOnce<PlannerRecords>;
  readonly #ownNameOf: OwnNameOf;
  #groups: Groups | undefined;

  /** @param records those of the planners. Their owner closes them */
  constructor(clock: Clock, records: OpenOnce<PlannerRecords>, ownNameOf: OwnNameOf) {
    this.#clock = clock;
    this.#records = records;
    this.#ownNameOf = ownNameOf;
  }

  async read(model: string, signal: AbortSignal): Promise<StartReading | undefined> {
    const store = await this.#records.get();
    const ids = await this.#groupsIn(store, signal);
    const ownName = this.#ownNameOf(model).toLowerCase();
    const group = ids.find((id) => groupRow(id).model.toLowerCase() === ownName);
    if (group === undefined) return undefined;
    const { readStart } = await import('../planner/index.ts'); // most frontends never hold a request
    return readStart(store, group, this.#clock.wallMs(), signal);
  }

  /** Returns the planned models. All readings of one round share one list. */
  async #groupsIn(store: PlannerRecords, signal: AbortSignal): Promise<readonly string[]> {
    const nowMs = this.#clock.nowMs();
    if (this.#groups === undefined || nowMs - this.#groups.readAtMs >= GROUPS_MS_MAX) {
      this.#groups = { readAtMs: nowMs, ids: store.groups(signal) };
    }
    try {
      const ids = await this.#groups.ids;
      if (ids.length === 0) this.#groups = undefined; // a planner has its first model with its first request
      return ids;
    } catch (thrown) {
      this.#groups = undefined;
      throw thrown;
    }
  }
}
