import type { AttributeValue } from '@aws-sdk/client-dynamodb';
import type { Random } from '../../clock/index.ts';
import { withDeadline } from '../../concurrency/index.ts';
import { openSdkClient, type TableCalls, type TableClient, type TableClientDependencies } from './table-client.ts';
import {
  conditionFailure,
  InterruptedCall,
  isConditionOfTransaction,
  type StoreError,
  type TablePlace,
  toTableError,
} from './table-errors.ts';
import { openWireClient, wireOptionsOf } from './wire-client.ts';

export type Item = Readonly<Record<string, AttributeValue>>;

/** Attributes by name. */
type Values = Readonly<Record<string, string | number | Uint8Array>>;

export interface ItemKey {
  readonly pk: string;
  readonly sk: string;
}

/** A write of one item: expression, its names and values, and its condition. */
export interface ItemChange {
  readonly key: ItemKey;
  readonly condition?: string;
  readonly names?: Readonly<Record<string, string>>;
  readonly values?: Values;
}

/** Result of a conditional write. */
export interface ItemOutcome {
  /** Whether the item was written; false = the condition did not hold. */
  readonly isApplied: boolean;
  /** Item after the write, or the current item if nothing was written; undefined = there is no such item. */
  readonly item: Item | undefined;
}

export type TableDependencies = TableClientDependencies & { readonly random: Random };

/** Largest number of keys of one BatchGetItem. */
const BATCH_MAX = 100;
const FIRST_RETRY_MS = 50;
const RETRY_MS_MAX = 1000;
/** Delay beyond its deadline at which a failed call shows that the process stood still instead of waiting. */
const STANDSTILL_MS = 1000;

/**
 * Calls that rooms make on a table with string keys `pk` and `sk`. Every call has a deadline. The first table that
 * needs the SDK loads it.
 */
export class Table {
  readonly #client: TableClient;
  readonly #place: TablePlace;
  readonly #options: TableDependencies;

  private constructor(client: TableClient, place: TablePlace, options: TableDependencies) {
    this.#client = client;
    this.#place = place;
    this.#options = options;
  }

  static async open(place: TablePlace, dependencies: TableDependencies): Promise<Table> {
    const wire = wireOptionsOf(place, process.env);
    const client = wire === undefined ? await openSdkClient(place, dependencies) : openWireClient(wire, dependencies);
    return new Table(client, place, dependencies);
  }

  /** Reads one item, strongly consistent by default. */
  async get(key: ItemKey, signal: AbortSignal, isConsistent = true): Promise<Item | undefined> {
    const input = {
      TableName: this.#place.tableName,
      Key: { pk: { S: key.pk }, sk: { S: key.sk } },
      ConsistentRead: isConsistent,
    };
    return (await this.#bounded(signal, (abortSignal) => this.#client.call('GetItem', input, abortSignal))).Item;
  }

  /**
   * Reads the items of `keys` that exist, eventually consistent, in no order. It makes one request for each 100 keys.
   */
  async batchGet(keys: readonly ItemKey[], signal: AbortSignal): Promise<Item[]> {
    const items: Item[] = [];
    const left = keys.map(({ pk, sk }) => ({ pk: { S: pk }, sk: { S: sk } }));
    for (let round = 0; left.length > 0; round++) {
      // each answer brings at least one
      if (round > keys.length) throw new Error('the table leaves out requested items');
      const asked = left.splice(0, BATCH_MAX);
      const { tableName } = this.#place;
      const input = { RequestItems: { [tableName]: { Keys: asked } } };
      const answer = await this.#bounded(signal, (abortSignal) =>
        this.#client.call('BatchGetItem', input, abortSignal),
      );
      items.push(...(answer.Responses?.[tableName] ?? []));
      const unread = answer.UnprocessedKeys?.[tableName]?.Keys ?? []; // the answer was full, or capacity was short
      left.push(...(unread as typeof left));
    }
    return items;
  }

  /** Reads every item under `pk` whose sort key starts with `sortPrefix`, strongly consistent by default. */
  query(pk: string, sortPrefix: string | undefined, signal: AbortSignal, isConsistent = true): Promise<Item[]> {
    return this.#pages('Query', { ...under(pk, sortPrefix), ConsistentRead: isConsistent }, signal);
  }

  /**
   * Reads the last `countMax` items under `pk` whose sort key starts with `sortPrefix`, the last one first; strongly
   * consistent.
   * @param from first sort key that it reads, if the keys consist of the prefix and digits
   */
  latest(pk: string, sortPrefix: string, countMax: number, signal: AbortSignal, from?: string): Promise<Item[]> {
    const input = { ...under(pk, sortPrefix, from), ConsistentRead: true, ScanIndexForward: false };
    return this.#pages('Query', input, signal, countMax);
  }

  /** Applies several update expressions as one, or none of them. Returns false if a condition does not hold. */
  async transact(
    changes: readonly (ItemChange & { readonly expression: string })[],
    signal: AbortSignal,
  ): Promise<boolean> {
    const input = {
      TransactItems: changes.map(({ expression, ...change }) => ({
        Update: { ...this.#input(change), UpdateExpression: expression },
      })),
    };
    try {
      await this.#bounded(signal, (abortSignal) => this.#client.call('TransactWriteItems', input, abortSignal));
      return true;
    } catch (error) {
      if (isConditionOfTransaction(error)) return false;
      throw error;
    }
  }

  /** Reads every item of the table, page by page. It is for operators' lists of small tables, never for a request. */
  scan(signal: AbortSignal): Promise<Item[]> {
    return this.#pages('Scan', { ConsistentRead: true }, signal);
  }

  /** Writes a whole item over any earlier one. Returns false if the condition does not hold. */
  async put(attributes: Values, change: ItemChange, signal: AbortSignal): Promise<boolean> {
    const { Key, ...rest } = this.#input(change);
    const input = { ...rest, Item: { ...Key, ...marshalled(attributes) } };
    const outcome = await this.#write(signal, (abortSignal) => this.#client.call('PutItem', input, abortSignal));
    return outcome.isApplied;
  }

  /** Applies an update expression. Returns false if the condition does not hold. */
  async update(expression: string, change: ItemChange, signal: AbortSignal): Promise<boolean> {
    const input = { ...this.#input(change), UpdateExpression: expression };
    const outcome = await this.#write(signal, (abortSignal) => this.#client.call('UpdateItem', input, abortSignal));
    return outcome.isApplied;
  }

  /** Works like `update`, and also returns the resulting item without a further request. */
  updateAndGet(expression: string, change: ItemChange, signal: AbortSignal): Promise<ItemOutcome> {
    const input = {
      ...this.#input(change),
      UpdateExpression: expression,
      ReturnValues: 'ALL_NEW' as const,
      ReturnValuesOnConditionCheckFailure: 'ALL_OLD' as const,
    };
    return this.#write(signal, (abortSignal) => this.#client.call('UpdateItem', input, abortSignal));
  }

  /** Deletes an item. Returns false if the condition does not hold. */
  async delete(change: ItemChange, signal: AbortSignal): Promise<boolean> {
    const input = this.#input(change);
    const outcome = await this.#write(signal, (abortSignal) => this.#client.call('DeleteItem', input, abortSignal));
    return outcome.isApplied;
  }

  /**
   * Repeats `work` with growing pauses while the table cannot be reached or throttles, for at most `timeoutMs`. Rejects
   * with an error of the room that says what to do, or with the signal's reason.
   */
  async attempt<T>(timeoutMs: number, signal: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const { clock, random } = this.#options;
    const deadlineMs = clock.nowMs() + timeoutMs;
    for (let delayMs = FIRST_RETRY_MS; ; delayMs = Math.min(2 * delayMs, RETRY_MS_MAX)) {
      signal.throwIfAborted();
      try {
        return await work(signal);
      } catch (thrown) {
        signal.throwIfAborted();
        const error = toTableError(thrown, this.#place);
        const pauseMs = delayMs * (0.5 + random.next() / 2);
        if (error.code !== 'unavailable' || clock.nowMs() + pauseMs >= deadlineMs) throw error;
        await clock.sleep(pauseMs, signal);
      }
    }
  }

  /** Returns the failure of a single call as an error of the room, for callers that repeat calls themselves. */
  explain(thrown: unknown): StoreError {
    return toTableError(thrown, this.#place);
  }

  close(): void {
    this.#client.destroy();
  }

  async #pages(
    name: 'Query' | 'Scan',
    asked: Omit<TableCalls['Query']['input'], 'TableName'>,
    signal: AbortSignal,
    countMax = Number.POSITIVE_INFINITY,
  ): Promise<Item[]> {
    const items: Item[] = [];
    let start: Record<string, AttributeValue> | undefined;
    do {
      const input = {
        TableName: this.#place.tableName,
        ...asked,
        ...(Number.isFinite(countMax) ? { Limit: countMax - items.length } : {}),
        ...(start === undefined ? {} : { ExclusiveStartKey: start }),
      };
      const page = await this.#bounded(signal, (abortSignal) => this.#client.call(name, input, abortSignal));
      items.push(...(page.Items ?? []));
      start = page.LastEvaluatedKey;
    } while (start !== undefined && items.length < countMax);
    return items;
  }

  #input(change: ItemChange) {
    const { key, condition, names, values } = change;
    return {
      TableName: this.#place.tableName,
      Key: { pk: { S: key.pk }, sk: { S: key.sk } },
      ...(condition === undefined ? {} : { ConditionExpression: condition }),
      ...(names === undefined ? {} : { ExpressionAttributeNames: names }),
      ...(values === undefined ? {} : { ExpressionAttributeValues: marshalled(values) }),
    };
  }

  async #write(
    signal: AbortSignal,
    send: (signal: AbortSignal) => Promise<{ readonly Attributes?: Item | undefined }>,
  ): Promise<ItemOutcome> {
    try {
      return { isApplied: true, item: (await this.#bounded(signal, send)).Attributes };
    } catch (error) {
      const failure = conditionFailure(error);
      if (failure !== undefined) return { isApplied: false, item: failure.item as Item | undefined };
      throw error;
    }
  }

  /** Races the call against its deadline, because the SDK ignores the signal while it looks for credentials. */
  async #bounded<T>(signal: AbortSignal, send: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const { clock, requestTimeoutMs: timeoutMs } = this.#options;
    const sentMs = clock.nowMs();
    try {
      return await withDeadline({ clock, timeoutMs, signal, lateMessage: `no answer within ${timeoutMs} ms` }, send);
    } catch (error) {
      const lateMs = clock.nowMs() - sentMs - timeoutMs;
      throw lateMs > STANDSTILL_MS && !signal.aborted ? new InterruptedCall(error) : error;
    }
  }
}

/** Query for the items under `pk`, from the sort key `from` on. */
function under(pk: string, sortPrefix: string | undefined, from?: string) {
  if (sortPrefix !== undefined && from !== undefined) {
    return {
      KeyConditionExpression: 'pk = :pk AND sk BETWEEN :from AND :to',
      ExpressionAttributeValues: { ':pk': { S: pk }, ':from': { S: from }, ':to': { S: `${sortPrefix}~` } },
    };
  }
  const isWhole = sortPrefix === undefined;
  return {
    KeyConditionExpression: isWhole ? 'pk = :pk' : 'pk = :pk AND begins_with(sk, :prefix)',
    ExpressionAttributeValues: { ':pk': { S: pk }, ...(isWhole ? {} : { ':prefix': { S: sortPrefix } }) },
  };
}

function marshalled(values: Values): Record<string, AttributeValue> {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, marshal(value)]));
}

function marshal(value: Values[string]): AttributeValue {
  if (value instanceof Uint8Array) return { B: value };
  return typeof value === 'string' ? { S: value } : { N: String(value) };
}
