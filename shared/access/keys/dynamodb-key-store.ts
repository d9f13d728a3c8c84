import { systemClock as clock, systemRandom as random } from '../../clock/index.ts';
import {
  type Item,
  type ItemKey,
  Table,
  type TableOptions,
  type TablePlace,
  TableTime,
} from '../../discovery/index.ts';
import { reasonOf } from '../../errors/index.ts';
import { type KeyRecord, readKeyRecord } from './key-record.ts';
import { idIsTaken, type KeyChange, type KeyStore, KeyStoreError, oldestFirst } from './key-store.ts';

export interface DynamoDbKeyStoreOptions extends TableOptions {
  /** Longest time of one operation, including retries. @default 2000 */
  readonly operationTimeoutMs?: number;
}

const REQUEST_TIMEOUT_MS = 1000;
const OPERATION_TIMEOUT_MS = 2000;
/** Number of concurrent changes of one record that a change is repeated for. */
const CHANGES_MAX = 10;

const SORT_KEY = 'key';

/**
 * Keeps keys in a table, one item per key: `pk` `key#<id>`, `sk` `key`, `record` as JSON, and a `version` that each
 * change increments. A check reads one item; only lists read the whole table.
 */
export class DynamoDbKeyStore implements KeyStore {
  readonly #table: Table;
  readonly #timeoutMs: number;

  private constructor(table: Table, timeoutMs: number) {
    this.#table = table;
    this.#timeoutMs = timeoutMs;
  }

  /** Loads the SDK. The first operation is the first to touch the table. */
  static async open(options: DynamoDbKeyStoreOptions): Promise<DynamoDbKeyStore> {
    const dependencies = { clock, random, time: new TableTime(clock), requestTimeoutMs: REQUEST_TIMEOUT_MS };
    const table = await Table.open(keysTablePlace(options), dependencies);
    return new DynamoDbKeyStore(table, options.operationTimeoutMs ?? OPERATION_TIMEOUT_MS);
  }

  async get(id: string, signal?: AbortSignal): Promise<KeyRecord | undefined> {
    return (await this.#find(id, signal))?.record;
  }

  async put(record: KeyRecord, signal?: AbortSignal): Promise<void> {
    const change = {
      key: itemKey(record.id),
      condition: 'attribute_not_exists(pk)',
      names: NAMES,
      values: { ':record': JSON.stringify(record), ':version': 1 },
    };
    const isNew = await this.#attempt(signal, (each) => this.#table.update(SET, change, each));
    // A first attempt whose answer was lost has stored this very record: no other process makes the same digest.
    if (!isNew && (await this.get(record.id, signal))?.digest !== record.digest) throw idIsTaken(record.id);
  }

  async list(signal?: AbortSignal): Promise<readonly KeyRecord[]> {
    const items = await this.#attempt(signal, (each) => this.#table.scan(each));
    return oldestFirst(items.filter((item) => item.sk?.S === SORT_KEY).map((item) => readItem(item).record));
  }

  async update(id: string, change: KeyChange, signal?: AbortSignal): Promise<KeyRecord | undefined> {
    for (let times = 0; times < CHANGES_MAX; times++) {
      const found = await this.#find(id, signal);
      if (found === undefined) return undefined;
      const changed = change(found.record);
      const item = {
        key: itemKey(id),
        condition: '#version = :seen',
        names: NAMES,
        values: { ':record': JSON.stringify(changed), ':version': found.version + 1, ':seen': found.version },
      };
      if (await this.#attempt(signal, (each) => this.#table.update(SET, item, each))) return changed;
    }
    throw new KeyStoreError('conflict', `key ${id} is being changed by another process; try again`);
  }

  async delete(id: string, signal?: AbortSignal): Promise<boolean> {
    const change = { key: itemKey(id), condition: 'attribute_exists(pk)' };
    return this.#attempt(signal, (each) => this.#table.delete(change, each));
  }

  close(): void {
    this.#table.close();
  }

  async #find(id: string, signal: AbortSignal | undefined): Promise<KeyItem | undefined> {
    const item = await this.#attempt(signal, (each) => this.#table.get(itemKey(id), each));
    return item === undefined ? undefined : readItem(item);
  }

  #attempt<T>(signal: AbortSignal | undefined, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    return this.#table.attempt(this.#timeoutMs, signal ?? NEVER, work);
  }
}

const NEVER = new AbortController().signal;

const NAMES = { '#record': 'record', '#version': 'version' } as const;
const SET = 'SET #record = :record, #version = :version';

interface KeyItem {
  readonly record: KeyRecord;
  readonly version: number;
}

function itemKey(id: string): ItemKey {
  return { pk: `key#${id}`, sk: SORT_KEY };
}

function readItem({ record, version }: Item): KeyItem {
  try {
    return { record: readKeyRecord(JSON.parse(record?.S ?? '')), version: Number(version?.N) };
  } catch (thrown) {
    throw new KeyStoreError(
      'misconfigured',
      `the keys table has an item that is not a key: ${reasonOf(thrown)}`,
      thrown,
    );
  }
}

/** Name of the table of keys in its messages. */
function keysTablePlace({ tableName, endpoint, region }: TableOptions): TablePlace {
  return {
    tableName,
    endpoint,
    region,
    kind: 'keys table',
    setting: 'STATOR_KEYS_TABLE',
    alternative: ', or keep keys in a file (--keys-file)',
    toError: (code, message, cause) => new KeyStoreError(code, message, cause),
  };
}
