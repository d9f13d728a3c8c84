import type { AttributeValue } from '@aws-sdk/client-dynamodb';
import type { Clock } from '../../shared/clock/index.ts';
import type { Item, ItemKey, Table } from '../../shared/discovery/index.ts';
import type { ItemChange, ItemOutcome } from '../../shared/discovery/table/table.ts';

/** Calls of one process to a table. */
export interface TableCounts {
  reads: number;
  writes: number;
}

/** A process's connection to a table in memory, and the faults that it can have. */
export interface MemoryTableClient {
  readonly table: Table;
  readonly counts: TableCounts;
  /** Makes every call fail, or ends that. */
  cut(isCut: boolean): void;
  /** Delays every call by `ms` from now on. */
  delay(ms: number): void;
  /** Makes every call wait for the request time-out and then fail, or ends that. */
  hang(isHanging: boolean): void;
  /**
   * Holds the answers of calls back, as if the process stood still, or releases them. The table has executed the calls.
   */
  stall(isStalled: boolean): void;
}

/** The default of `Table`. */
const REQUEST_TIMEOUT_MS = 2000;
/** Longest queue of a table of limited capacity; further calls are refused. */
const QUEUE_MS_MAX = 3000;

/**
 * A table in memory for tests in virtual time: the calls of `Table` with the few expressions that discovery writes.
 * Real emulators prove the expressions. This table lets many processes and many seconds pass.
 */
export class MemoryTable {
  readonly #clock: Clock;
  readonly #items = new Map<string, Map<string, Item>>();
  #callsPerSecond = Number.POSITIVE_INFINITY;
  #freeAtMs = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Serves the calls of all clients one after the other, as a table that takes `callsPerSecond`. */
  limit(callsPerSecond: number): void {
    this.#callsPerSecond = callsPerSecond;
  }

  /** Waits for the calls before this one. A call that waits for longer than its time-out fails, and takes its turn. */
  async #queue(count: number, signal: AbortSignal | undefined): Promise<void> {
    const nowMs = this.#clock.nowMs();
    const beginsAtMs = Math.max(this.#freeAtMs, nowMs);
    if (beginsAtMs - nowMs > QUEUE_MS_MAX) throw new Error('the table is throttled');
    this.#freeAtMs = beginsAtMs + (1000 * count) / this.#callsPerSecond;
    const waitMs = this.#freeAtMs - nowMs;
    await this.#clock.sleep(Math.min(waitMs, REQUEST_TIMEOUT_MS), signal);
    if (waitMs > REQUEST_TIMEOUT_MS) throw new Error(`no answer within ${REQUEST_TIMEOUT_MS} ms`);
  }

  connect(): MemoryTableClient {
    const counts = { reads: 0, writes: 0 };
    let isCut = false;
    let isHanging = false;
    let delayMs = 0;
    let stalled: { readonly over: Promise<void>; readonly end: () => void } | undefined;
    const call = async <T>(kind: keyof TableCounts, count: number, work: () => T, signal?: AbortSignal): Promise<T> => {
      if (isHanging) {
        await this.#clock.sleep(REQUEST_TIMEOUT_MS, signal);
        throw new Error(`no answer within ${REQUEST_TIMEOUT_MS} ms`);
      }
      if (delayMs > 0) await this.#clock.sleep(delayMs, signal);
      if (isCut) throw new Error('the network is down');
      counts[kind] += count;
      if (this.#callsPerSecond < Number.POSITIVE_INFINITY) await this.#queue(count, signal);
      const answer = work();
      if (stalled !== undefined) await stalled.over;
      else await Promise.resolve();
      return answer;
    };
    const table = {
      get: (key: ItemKey, signal?: AbortSignal) => call('reads', 1, () => this.#get(key), signal),
      batchGet: (keys: readonly ItemKey[], signal?: AbortSignal) =>
        call(
          'reads',
          Math.ceil(keys.length / 100),
          () => keys.map((key) => this.#get(key)).filter((item) => item !== undefined),
          signal,
        ),
      query: (pk: string, _prefix?: string, signal?: AbortSignal) =>
        call('reads', 1, () => [...(this.#items.get(pk)?.values() ?? [])], signal),
      update: async (expression: string, change: ItemChange, signal?: AbortSignal) =>
        (await call('writes', 1, () => this.#update(expression, change), signal)).isApplied,
      updateAndGet: (expression: string, change: ItemChange, signal?: AbortSignal) =>
        call('writes', 1, () => this.#update(expression, change), signal),
      delete: (change: ItemChange, signal?: AbortSignal) => call('writes', 1, () => this.#delete(change), signal),
      attempt: async <T>(
        timeoutMs: number,
        signal: AbortSignal,
        work: (signal: AbortSignal) => Promise<T>,
      ): Promise<T> => {
        const deadlineMs = this.#clock.nowMs() + timeoutMs;
        for (;;) {
          signal.throwIfAborted();
          try {
            return await work(signal);
          } catch (error) {
            signal.throwIfAborted();
            if (this.#clock.nowMs() >= deadlineMs) throw error;
            await this.#clock.sleep(100, signal);
          }
        }
      },
      explain: (error: unknown) => error as Error,
      close() {},
    };
    return {
      table: table as unknown as Table,
      counts,
      delay: (ms) => {
        delayMs = ms;
      },
      hang: (now) => {
        isHanging = now;
      },
      cut: (now) => {
        isCut = now;
      },
      stall: (now) => {
        if (!now) {
          stalled?.end();
          stalled = undefined;
        } else if (stalled === undefined) {
          let end = (): void => {};
          const over = new Promise<void>((resolve) => {
            end = resolve;
          });
          stalled = { over, end };
        }
      },
    };
  }

  #get({ pk, sk }: ItemKey): Item | undefined {
    return this.#items.get(pk)?.get(sk);
  }

  #delete({ key, ...change }: ItemChange): boolean {
    if (!holds(change.condition, this.#get(key), change)) return false;
    this.#items.get(key.pk)?.delete(key.sk);
    return true;
  }

  #update(expression: string, { key, ...change }: ItemChange): ItemOutcome {
    const before = this.#get(key);
    if (!holds(change.condition, before, change)) return { isApplied: false, item: before };
    const item: Record<string, AttributeValue> = { pk: { S: key.pk }, sk: { S: key.sk }, ...before };
    for (const assignment of expression.replace(/^SET /, '').split(', ')) {
      const [name = '', value = ''] = assignment.split(' = ');
      item[change.names?.[name] ?? name] = attribute(change.values?.[value]);
    }
    const partition = this.#items.get(key.pk) ?? new Map<string, Item>();
    this.#items.set(key.pk, partition.set(key.sk, item));
    return { isApplied: true, item };
  }
}

/** Evaluates `a = :b AND c <= :d OR attribute_not_exists(e)`: comparisons joined by AND, then by OR. */
function holds(condition: string | undefined, item: Item | undefined, change: Omit<ItemChange, 'key'>): boolean {
  if (condition === undefined) return true;
  return condition.split(' OR ').some((all) => all.split(' AND ').every((one) => compare(one, item, change)));
}

function compare(text: string, item: Item | undefined, { names, values }: Omit<ItemChange, 'key'>): boolean {
  const exists = /^attribute_(not_)?exists\((\w+)\)$/.exec(text);
  if (exists !== null) return (item?.[exists[2] ?? ''] === undefined) === (exists[1] !== undefined);
  const [name = '', operator, value = ''] = text.split(' ');
  const [left, right] = [plain(item?.[names?.[name] ?? name]), values?.[value]];
  if (left === undefined || right === undefined) return false;
  switch (operator) {
    case '=':
      return left === right;
    case '<>':
      return left !== right;
    case '<':
      return left < right;
    case '<=':
      return left <= right;
    default:
      throw new Error(`the table in memory does not know the condition ${text}`);
  }
}

function plain(value: AttributeValue | undefined): string | number | undefined {
  return value?.S ?? (value?.N === undefined ? undefined : Number(value.N));
}

function attribute(value: string | number | Uint8Array | undefined): AttributeValue {
  if (value instanceof Uint8Array) return { B: value };
  if (value === undefined) throw new Error('an expression names a value that is not there');
  return typeof value === 'string' ? { S: value } : { N: String(value) };
}
