import { type Clock, type Random, systemClock, systemRandom } from '../clock/index.ts';
import { withEither } from '../concurrency/index.ts';
import { type Item, type ItemKey, Table, type TableOptions, type TablePlace, TableTime } from '../discovery/index.ts';
import { encodeSegment } from '../planes/index.ts';
import {
  type LeaseRow,
  type RouterState,
  RouterStateError,
  type SnapshotPlace,
  type SnapshotPointer,
  type StateName,
} from './router-state.ts';

export interface DynamoDbRouterStateOptions extends TableOptions {
  /** @default systemClock */
  readonly clock?: Clock;
  /** @default systemRandom */
  readonly random?: Random;
  /** Deadline of one call, with all its repetitions. @default 3000 */
  readonly operationTimeoutMs?: number;
  /** Deadline of one answer of the table. @default 1000 */
  readonly requestTimeoutMs?: number;
}

const OPERATION_TIMEOUT_MS = 3000;
const REQUEST_TIMEOUT_MS = 1000;

/** Router state in a DynamoDB table. Its rows are described below. */
export class DynamoDbRouterState implements RouterState {
  readonly #table: Table;
  readonly #time: TableTime;
  readonly #operationTimeoutMs: number;
  readonly #closing = new AbortController();

  private constructor(table: Table, time: TableTime, operationTimeoutMs: number) {
    this.#table = table;
    this.#time = time;
    this.#operationTimeoutMs = operationTimeoutMs;
  }

  /** Loads the SDK. Only the first call accesses the table. */
  static async open(options: DynamoDbRouterStateOptions): Promise<DynamoDbRouterState> {
    const { clock = systemClock, random = systemRandom, requestTimeoutMs = REQUEST_TIMEOUT_MS } = options;
    const time = new TableTime(clock);
    const table = await Table.open(placeOf(options), { clock, random, time, requestTimeoutMs });
    return new DynamoDbRouterState(table, time, options.operationTimeoutMs ?? OPERATION_TIMEOUT_MS);
  }

  nowMs(): number {
    return this.#time.nowMs();
  }

  readLease(lease: StateName, given: AbortSignal): Promise<LeaseRow | undefined> {
    return this.#attempt(given, async (signal) => toLeaseRow(await this.#table.get(leaseKey(lease), signal)));
  }

  /** Takes the lease in one attempt, because the lease must contain the time at which the request was sent. */
  takeLease(...args: Parameters<RouterState['takeLease']>): Promise<LeaseRow | undefined> {
    const [lease, { holder, ttlMs, seenFence }, given] = args;
    const seen = seenFence === undefined ? undefined : { ':seen': seenFence };
    const condition = seen === undefined ? 'attribute_not_exists(sk)' : 'fence = :seen';
    return this.#once(given, (signal) => this.#writeLease(lease, { holder, ttlMs, condition, values: seen }, signal));
  }

  renewLease(...args: Parameters<RouterState['renewLease']>): Promise<LeaseRow | undefined> {
    const [lease, holder, ttlMs, given] = args;
    const condition = 'holder = :holder';
    return this.#once(given, (signal) =>
      this.#writeLease(lease, { holder, ttlMs, condition, values: undefined }, signal),
    );
  }

  endLease(lease: StateName, holder: string, given: AbortSignal): Promise<void> {
    return this.#attempt(given, async (signal) => {
      await this.#table.update(
        'SET holder = :none, expiresAtMs = :zero ADD fence :one',
        {
          key: leaseKey(lease),
          condition: 'holder = :holder',
          values: { ':holder': holder, ':none': '', ':zero': 0, ':one': 1 },
        },
        signal,
      );
    });
  }

  readPointer(pointer: StateName, given: AbortSignal): Promise<SnapshotPointer | undefined> {
    return this.#attempt(given, async (signal) => toPointer(await this.#table.get(pointerKey(pointer), signal)));
  }

  /**
   * Moves the pointer. If the answer of a successful call is lost, the repetition finds another version and returns
   * false. The caller then reads the pointer to learn the outcome.
   */
  movePointer(...args: Parameters<RouterState['movePointer']>): Promise<boolean> {
    const [pointer, { to, fence, seen }, given] = args;
    const previous = seen === undefined ? '' : ', prevCreatedAt = :pc, prevSequence = :ps, prevObject = :po';
    return this.#attempt(given, (signal) =>
      this.#table.update(
        `SET createdAt = :c, #sequence = :s, #object = :o, fence = :fence, version = :version${previous}`,
        {
          key: pointerKey(pointer),
          condition: seen === undefined ? 'attribute_not_exists(sk)' : 'version = :seen AND fence <= :fence',
          names: { '#sequence': 'sequence', '#object': 'object' },
          values: {
            ':c': to.createdAt,
            ':s': to.sequence,
            ':o': to.object,
            ':fence': fence,
            ':version': (seen?.version ?? 0) + 1,
            ...(seen === undefined
              ? {}
              : { ':seen': seen.version, ':pc': seen.createdAt, ':ps': seen.sequence, ':po': seen.object }),
          },
        },
        signal,
      ),
    );
  }

  dropPointer(pointer: StateName, given: AbortSignal): Promise<void> {
    return this.#attempt(given, async (signal) => {
      await this.#table.delete({ key: pointerKey(pointer) }, signal);
    });
  }

  close(): void {
    this.#closing.abort(new RouterStateError('closed', 'this handle of the router state was closed'));
    this.#table.close();
  }

  async #writeLease(
    lease: StateName,
    { holder, ttlMs, condition, values }: LeaseWrite,
    signal: AbortSignal,
  ): Promise<LeaseRow | undefined> {
    const outcome = await this.#table.updateAndGet(
      'SET holder = :holder, expiresAtMs = :expires, ttlMs = :ttlMs ADD fence :one',
      {
        key: leaseKey(lease),
        condition,
        values: { ':holder': holder, ':expires': this.nowMs() + ttlMs, ':ttlMs': ttlMs, ':one': 1, ...values },
      },
      signal,
    );
    return outcome.isApplied ? toLeaseRow(outcome.item) : undefined;
  }

  #attempt<T>(given: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    return this.#underEither(given, (signal) => this.#table.attempt(this.#operationTimeoutMs, signal, work));
  }

  #once<T>(given: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    return this.#underEither(given, async (signal) => {
      try {
        return await work(signal);
      } catch (error) {
        signal.throwIfAborted();
        throw this.#table.explain(error);
      }
    });
  }

  /** Runs `work` with a signal that aborts with `given` and if the handle closes. */
  #underEither<T>(given: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    return withEither([given, this.#closing.signal], work);
  }
}

interface LeaseWrite {
  readonly holder: string;
  readonly ttlMs: number;
  readonly condition: string;
  readonly values: Readonly<Record<string, number>> | undefined;
}

function placeOf({ tableName, endpoint, region }: TableOptions): TablePlace {
  return {
    tableName,
    endpoint,
    region,
    kind: 'router-state table',
    setting: 'STATOR_STATE_TABLE',
    toError: (code, message, cause) => new RouterStateError(code, message, cause),
  };
}

/*
 * The router-state table.
 *
 *   pk                  sk       attributes, by writer
 *   v1/leases#{ns}      {name}   holders: holder fence expiresAtMs ttlMs
 *   v1/snapshots#{ns}   {name}   lease holder: createdAt sequence object fence version prev*
 */

function leaseKey({ namespace, name }: StateName): ItemKey {
  return { pk: `v1/leases#${encodeSegment(namespace)}`, sk: encodeSegment(name) };
}

function pointerKey({ namespace, name }: StateName): ItemKey {
  return { pk: `v1/snapshots#${encodeSegment(namespace)}`, sk: encodeSegment(name) };
}

function toLeaseRow(item: Item | undefined): LeaseRow | undefined {
  if (item === undefined) return undefined;
  return {
    holder: item.holder?.S ?? '',
    fence: numberOf(item.fence),
    expiresAtMs: numberOf(item.expiresAtMs),
    ttlMs: numberOf(item.ttlMs),
  };
}

function toPointer(item: Item | undefined): SnapshotPointer | undefined {
  if (item === undefined) return undefined;
  const previous = snapshotPlaceOf(item.prevCreatedAt, item.prevSequence, item.prevObject);
  const place = snapshotPlaceOf(item.createdAt, item.sequence, item.object);
  if (place === undefined) return undefined;
  return { ...place, fence: numberOf(item.fence), version: numberOf(item.version), previous };
}

function snapshotPlaceOf(
  createdAt: Item[string] | undefined,
  sequence: Item[string] | undefined,
  object: Item[string] | undefined,
): SnapshotPlace | undefined {
  if (createdAt?.S === undefined || object?.S === undefined) return undefined;
  return { createdAt: createdAt.S, sequence: numberOf(sequence), object: object.S };
}

function numberOf(attribute: Item[string] | undefined): number {
  return Number(attribute?.N ?? 0);
}
