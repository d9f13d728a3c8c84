import { type Clock, type Random, systemClock, systemRandom } from '../../clock/index.ts';
import { type Item, type ItemKey, Table, type TableOptions, TableTime } from '../../discovery/index.ts';
import { groupOf } from '../../protocol/index.ts';
import {
  HELD_PREFIX,
  type HeldNote,
  type HeldNotes,
  HeldNotesError,
  NOTE_KEPT_MS,
  NOTE_LIVE_MS,
  NOTES_MAX,
  type PlannedName,
} from './types.ts';

export interface DynamoDbHeldNotesOptions extends TableOptions {
  readonly clock?: Clock;
  readonly random?: Random;
  /** Longest time of one call, repetitions and all. @default 1000 */
  readonly operationTimeoutMs?: number;
}

const OPERATION_TIMEOUT_MS = 1000;
const REQUEST_TIMEOUT_MS = 500;
const HOLDER = 'ENV#';

/**
 * Notes in the table of the planner, each of one unit of writing:
 *
 *     HELD#<group> / ENV#<holder>    namespace, model, n, oldest, at, ttl
 *
 * One partition takes 1,000 writes a second, which are the notes of 5,000 holders of a model. Beyond that the table
 * throttles, and the sum of a moment leaves notes out.
 */
export class DynamoDbHeldNotes implements HeldNotes {
  readonly name = 'dynamodb';
  readonly #table: Table;
  readonly #clock: Clock;
  readonly #timeoutMs: number;

  private constructor(table: Table, clock: Clock, timeoutMs: number) {
    this.#table = table;
    this.#clock = clock;
    this.#timeoutMs = timeoutMs;
  }

  /** Opens the notes. The table itself is first touched by the first call. */
  static async open(options: DynamoDbHeldNotesOptions): Promise<DynamoDbHeldNotes> {
    const { clock = systemClock, random = systemRandom, operationTimeoutMs = OPERATION_TIMEOUT_MS } = options;
    const { tableName, endpoint, region } = options;
    const place = {
      ...{ tableName, endpoint, region, kind: 'planner table', setting: 'STATOR_PLANNER_TABLE' },
      toError: (code: HeldNotesError['code'], message: string, cause: unknown) =>
        new HeldNotesError(code, message, cause),
    };
    const time = new TableTime(clock);
    const table = await Table.open(place, { clock, random, time, requestTimeoutMs: REQUEST_TIMEOUT_MS });
    return new DynamoDbHeldNotes(table, clock, operationTimeoutMs);
  }

  async put(holder: string, note: HeldNote, signal: AbortSignal): Promise<void> {
    const { namespace, model, count, oldestAtMs } = note;
    const at = this.#clock.wallMs();
    const ttl = Math.ceil((at + NOTE_KEPT_MS) / 1000);
    const attributes = { namespace, model, n: count, oldest: Math.round(oldestAtMs), at, ttl };
    await this.#attempt(signal, (each) => this.#table.put(attributes, { key: keyOf(holder, note) }, each));
  }

  async remove(holder: string, model: PlannedName, signal: AbortSignal): Promise<void> {
    await this.#attempt(signal, (each) => this.#table.delete({ key: keyOf(holder, model) }, each));
  }

  async live(group: string, signal: AbortSignal): Promise<readonly HeldNote[]> {
    const pk = `${HELD_PREFIX}${group}`;
    const items = await this.#attempt(signal, (each) => this.#table.latest(pk, HOLDER, NOTES_MAX, each));
    const sinceMs = this.#clock.wallMs() - NOTE_LIVE_MS;
    return items.filter(({ at }) => Number(at?.N) > sinceMs).flatMap((item) => noteOf(item) ?? []);
  }

  async close(): Promise<void> {
    this.#table.close();
  }

  #attempt<T>(signal: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    return this.#table.attempt(this.#timeoutMs, signal, work);
  }
}

function keyOf(holder: string, model: PlannedName): ItemKey {
  return { pk: `${HELD_PREFIX}${groupOf(model)}`, sk: `${HOLDER}${holder}` };
}

/** Returns the note of an item; undefined for an item that no release of Stator wrote. */
function noteOf({ namespace, model, n, oldest }: Item): HeldNote | undefined {
  const [count, oldestAtMs] = [Number(n?.N), Number(oldest?.N)];
  if (!namespace?.S || !model?.S || !(count > 0) || !(oldestAtMs > 0)) return undefined;
  return { namespace: namespace.S, model: model.S, count, oldestAtMs };
}
