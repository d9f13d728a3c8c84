import { type Clock, type Random, systemClock, systemRandom } from '../../clock/index.ts';
import {
  type Item,
  type ItemKey,
  Table,
  type TableOptions,
  type TablePlace,
  TableTime,
} from '../../discovery/index.ts';
import { packStateText, unpackStateText } from './state-bytes.ts';
import {
  COUNT_MAX,
  type Commit,
  type DecisionChange,
  type DecisionRange,
  type DecisionRecord,
  fitsBudget,
  KEPT_MS,
  type Lease,
  moved,
  type PlannerStore,
  PlannerStoreError,
  type Reservations,
  type StoredState,
  type TickRecord,
} from './types.ts';

export interface DynamoDbPlannerStoreOptions extends TableOptions {
  readonly clock?: Clock;
  readonly random?: Random;
  /** Longest time of one call, repetitions and all. @default 5000 */
  readonly operationTimeoutMs?: number;
}

const OPERATION_TIMEOUT_MS = 5000;
const REQUEST_TIMEOUT_MS = 2000;
/** Times that a change of the budget is tried while others change it too. */
const RESERVE_TRIES = 16;

/**
 * A store in a DynamoDB table:
 *
 *     PLAN#<group> / STATE           version, state (packed)
 *     PLAN#<group> / DEC#<12 digits> entry, status, ttl
 *     PLAN#<group> / LOOK#<ms>       entry, ttl
 *     PLAN#<group> / ACK             scaled_decision_id
 *     PLAN#<group> / LEASE           holder, fence, until_ms, memory
 *     PLAN / <group>                 a model that decisions are known of
 *     BUDGET / BUDGET                version, pools
 */
export class DynamoDbPlannerStore implements PlannerStore {
  readonly name = 'dynamodb';
  readonly #table: Table;
  readonly #timeoutMs: number;
  readonly #time: TableTime;
  readonly #known = new Set<string>(); // groups whose entry is written; bounded by the models of the fleet

  private constructor(table: Table, time: TableTime, timeoutMs: number) {
    this.#table = table;
    this.#time = time;
    this.#timeoutMs = timeoutMs;
  }

  /** Loads the SDK. The table itself is first touched by the first call. */
  static async open(options: DynamoDbPlannerStoreOptions): Promise<DynamoDbPlannerStore> {
    const { clock = systemClock, random = systemRandom, operationTimeoutMs = OPERATION_TIMEOUT_MS } = options;
    const time = new TableTime(clock);
    const dependencies = { clock, random, time, requestTimeoutMs: REQUEST_TIMEOUT_MS };
    const table = await Table.open(plannerTablePlace(options), dependencies);
    return new DynamoDbPlannerStore(table, time, operationTimeoutMs);
  }

  async readState(group: string, signal: AbortSignal): Promise<StoredState | undefined> {
    const item = await this.#get(stateKey(group), signal);
    return item && { version: Number(item.version?.N), state: textOfState(item) };
  }

  async commit(group: string, { version, state, decision, tick }: Commit, signal: AbortSignal): Promise<boolean> {
    const writes = [
      {
        key: stateKey(group),
        expression: 'SET #state = :state, version = :next',
        condition: version === 0 ? 'attribute_not_exists(pk)' : 'version = :seen',
        names: { '#state': 'state' },
        values: {
          ':state': packStateText(state),
          ':next': version + 1,
          ...(version === 0 ? {} : { ':seen': version }),
        },
      },
      ...(decision === undefined ? [] : [putDecision(group, decision, 'attribute_not_exists(pk)')]),
      ...(tick === undefined ? [] : [putTick(group, tick)]),
    ];
    const [own] = writes; // a transaction costs twice as much as a plain write
    const isDone = await this.#attempt(signal, (each) =>
      writes.length > 1 || own === undefined
        ? this.#table.transact(writes, each)
        : this.#table.update(own.expression, own, each),
    );
    if (isDone) await this.#noteGroup(group, signal);
    else return this.#isOwn(group, { version, state, decision }, signal);
    return true;
  }

  async decisions(group: string, range: DecisionRange, signal: AbortSignal): Promise<readonly DecisionRecord[]> {
    const { sinceMs, countMax = COUNT_MAX } = range;
    const items = await this.#latest(group, DECISION, countMax, signal);
    return items.map(readDecision).filter(({ decidedAtMs }) => decidedAtMs >= sinceMs);
  }

  async decision(group: string, decisionId: number, signal: AbortSignal): Promise<DecisionRecord | undefined> {
    const item = await this.#get(decisionKey(group, decisionId), signal);
    return item && readDecision(item);
  }

  async ticks(group: string, { sinceMs, countMax = COUNT_MAX }: DecisionRange, signal: AbortSignal) {
    const from = lookKey(Math.max(0, sinceMs));
    const items = await this.#latest(group, LOOK, countMax, signal, from);
    return items.map(readTick).filter(({ atMs }) => atMs >= sinceMs);
  }

  async move(group: string, seen: DecisionRecord, change: DecisionChange, signal: AbortSignal) {
    const now = await this.decision(group, seen.decisionId, signal);
    const next = moved(now, seen, change);
    if (next === undefined || now === undefined) return undefined;
    const put = putDecision(group, next, '#entry = :seen');
    const write = { ...put, values: { ...put.values, ':seen': JSON.stringify(now) } };
    const isDone = await this.#attempt(signal, (each) => this.#table.update(write.expression, write, each));
    if (isDone) return next;
    const kept = await this.decision(group, seen.decisionId, signal); // the answer to a first try may have been lost
    return kept !== undefined && JSON.stringify(kept) === JSON.stringify(next) ? next : undefined;
  }

  async acknowledge(group: string, decisionId: number, signal: AbortSignal): Promise<void> {
    const change = {
      key: { pk: `PLAN#${group}`, sk: 'ACK' },
      condition: 'attribute_not_exists(pk) OR scaled_decision_id < :id',
      values: { ':id': decisionId },
    };
    await this.#attempt(signal, (each) => this.#table.update('SET scaled_decision_id = :id', change, each));
  }

  async acknowledged(group: string, signal: AbortSignal): Promise<number> {
    const item = await this.#get({ pk: `PLAN#${group}`, sk: 'ACK' }, signal);
    return Number(item?.scaled_decision_id?.N ?? -1);
  }

  async takeLease(group: string, holder: string, ms: number, signal: AbortSignal): Promise<Lease | undefined> {
    const nowMs = this.#time.nowMs();
    const change = {
      key: leaseKey(group),
      condition: 'attribute_not_exists(pk) OR until_ms <= :now OR holder = :holder',
      values: { ':holder': holder, ':now': nowMs, ':until': nowMs + ms, ':one': 1 },
    };
    const set = 'SET holder = :holder, until_ms = :until, fence = if_not_exists(fence, :now) + :one';
    const { isApplied, item } = await this.#attempt(signal, (each) => this.#table.updateAndGet(set, change, each));
    return isApplied && item !== undefined ? readLease(item) : undefined;
  }

  renewLease: PlannerStore['renewLease'] = async (group, lease, { ms, memory }, signal) => {
    const untilMs = this.#time.nowMs() + ms;
    const change = {
      key: leaseKey(group),
      condition: 'fence = :fence',
      names: { '#memory': 'memory' },
      values: { ':fence': lease.fence, ':until': untilMs, ':memory': JSON.stringify(memory) },
    };
    const set = 'SET until_ms = :until, #memory = :memory';
    const isDone = await this.#attempt(signal, (each) => this.#table.update(set, change, each));
    return isDone ? { ...lease, untilMs, memory } : undefined;
  };

  async releaseLease(group: string, lease: Lease, signal: AbortSignal): Promise<void> {
    const change = { key: leaseKey(group), condition: 'fence = :fence', values: { ':fence': lease.fence, ':none': 0 } };
    await this.#attempt(signal, (each) => this.#table.update('SET until_ms = :none', change, each));
  }

  async reserve(pools: Reservations, gpusMax: number, signal: AbortSignal): Promise<boolean> {
    for (let times = 0; times < RESERVE_TRIES; times++) {
      const item = await this.#get(BUDGET, signal);
      const all = readPools(item);
      if (!fitsBudget(all, pools, gpusMax)) return false;
      if (Object.entries(pools).every(([pool, gpus]) => all[pool] === gpus)) return true;
      const version = Number(item?.version?.N ?? 0);
      const change = {
        key: BUDGET,
        condition: version === 0 ? 'attribute_not_exists(pk)' : 'version = :seen',
        values: {
          ':pools': JSON.stringify({ ...all, ...pools }),
          ':next': version + 1,
          ...(version === 0 ? {} : { ':seen': version }),
        },
      };
      const set = 'SET pools = :pools, version = :next';
      if (await this.#attempt(signal, (each) => this.#table.update(set, change, each))) return true;
    }
    throw new PlannerStoreError('unavailable', 'other planners keep changing the GPU budget; try again');
  }

  async reservations(signal: AbortSignal): Promise<Reservations> {
    return readPools(await this.#get(BUDGET, signal));
  }

  async groups(signal: AbortSignal): Promise<readonly string[]> {
    const items = await this.#attempt(signal, (each) => this.#table.query('PLAN', undefined, each));
    return items.map((item) => item.sk?.S ?? '').toSorted();
  }

  async close(): Promise<void> {
    this.#table.close();
  }

  async #noteGroup(group: string, signal: AbortSignal): Promise<void> {
    if (this.#known.has(group)) return;
    const change = { key: { pk: 'PLAN', sk: group }, values: { ':one': 1 } };
    await this.#attempt(signal, (each) => this.#table.update('SET known = :one', change, each));
    this.#known.add(group);
  }

  /** Returns whether this commit was made before, and only its answer was lost. */
  async #isOwn(group: string, { version, state, decision }: Commit, signal: AbortSignal): Promise<boolean> {
    const stored = await this.readState(group, signal);
    if (stored?.version !== version + 1 || stored.state !== state) return false;
    if (decision === undefined) return true;
    const kept = await this.decision(group, decision.decisionId, signal);
    return kept?.decidedAtMs === decision.decidedAtMs && kept.reason === decision.reason;
  }

  #latest(group: string, prefix: string, countMax: number, signal: AbortSignal, from?: string) {
    return this.#attempt(signal, (each) => this.#table.latest(`PLAN#${group}`, prefix, countMax, each, from));
  }

  #get(key: ItemKey, signal: AbortSignal): Promise<Item | undefined> {
    return this.#attempt(signal, (each) => this.#table.get(key, each));
  }

  #attempt<T>(signal: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    return this.#table.attempt(this.#timeoutMs, signal, work);
  }
}

const DECISION = 'DEC#';
const LOOK = 'LOOK#';
const BUDGET: ItemKey = { pk: 'BUDGET', sk: 'BUDGET' };

function stateKey(group: string): ItemKey {
  return { pk: `PLAN#${group}`, sk: 'STATE' };
}

function decisionKey(group: string, decisionId: number): ItemKey {
  return { pk: `PLAN#${group}`, sk: `${DECISION}${String(decisionId).padStart(12, '0')}` };
}

function lookKey(atMs: number): string {
  return `${LOOK}${String(Math.floor(atMs)).padStart(14, '0')}`;
}

function leaseKey(group: string): ItemKey {
  return { pk: `PLAN#${group}`, sk: 'LEASE' };
}

function readLease({ holder, fence, until_ms: untilMs, memory }: Item): Lease {
  return {
    holder: holder?.S ?? '',
    fence: Number(fence?.N),
    untilMs: Number(untilMs?.N),
    memory: parse(memory?.S ?? '{}'),
  };
}

function putDecision(group: string, record: DecisionRecord, condition: string) {
  return {
    key: decisionKey(group, record.decisionId),
    expression: 'SET #entry = :entry, #status = :status, #ttl = :ttl',
    condition,
    names: { '#entry': 'entry', '#status': 'status', '#ttl': 'ttl' },
    values: {
      ':entry': JSON.stringify(record),
      ':status': record.status,
      ':ttl': Math.ceil((record.decidedAtMs + KEPT_MS) / 1000),
    },
  };
}

function putTick(group: string, tick: TickRecord) {
  return {
    key: { pk: `PLAN#${group}`, sk: lookKey(tick.atMs) },
    expression: 'SET #entry = :entry, #ttl = :ttl',
    names: { '#entry': 'entry', '#ttl': 'ttl' },
    values: { ':entry': JSON.stringify(tick), ':ttl': Math.ceil((tick.atMs + KEPT_MS) / 1000) },
  };
}

/** Returns the text of a state. Earlier releases stored the text itself. */
function textOfState({ state }: Item): string {
  if (state?.B === undefined) return state?.S ?? '';
  const { B: packed } = state;
  return readOwn(() => unpackStateText(packed));
}

function readDecision({ entry }: Item): DecisionRecord {
  return parse(entry?.S ?? '');
}

function readTick({ entry }: Item): TickRecord {
  return parse(entry?.S ?? '');
}

function readPools(item: Item | undefined): Reservations {
  return parse(item?.pools?.S ?? '{}');
}

function parse<T>(text: string): T {
  return readOwn(() => JSON.parse(text) as T);
}

/** Reads a value that this store wrote. @throws PlannerStoreError for any other */
function readOwn<T>(read: () => T): T {
  try {
    return read();
  } catch (thrown) {
    throw new PlannerStoreError('misconfigured', 'the planner table has an item that Stator did not write', thrown);
  }
}

/** Returns the table of planners, as its error messages name it. */
function plannerTablePlace({ tableName, endpoint, region }: TableOptions): TablePlace {
  return {
    tableName,
    endpoint,
    region,
    kind: 'planner table',
    setting: 'STATOR_PLANNER_TABLE',
    alternative: ', or keep decisions in a folder (--planner-dir)',
    toError: (code, message, cause) => new PlannerStoreError(code, message, cause),
  };
}
