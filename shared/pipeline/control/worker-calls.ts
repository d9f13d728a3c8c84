import type { NamedRequest } from '../../access/index.ts';
import type { Clock, Random } from '../../clock/index.ts';
import { RateBudget, Semaphore } from '../../concurrency/index.ts';
import type { EndpointRecord } from '../../discovery/index.ts';
import { ServeError, toWire } from '../../errors/index.ts';
import { askOnce, type OneAnswer, type RequestPlane, type Transport } from '../../planes/index.ts';
import { asRecord, asWholeNumber } from '../../records/index.ts';
import type { RoutableModel, Worker } from '../models/routable-model.ts';
import { setsOf } from '../models/worker-sets.ts';

/** Dependencies of calls to workers' control endpoints. */
export interface ControlCaller {
  readonly plane: RequestPlane;
  readonly clock: Clock;
  readonly random: Random;
  /** Returns the live endpoints of every worker that serves this edge, from memory. */
  readonly instances: () => readonly EndpointRecord[];
}

/** Most workers that one operator's request asks at the same time. */
const CALLS_AT_ONCE_MAX = 64;

/** Asks each of `workers`, several at once. */
function askEach<W, Said>(workers: readonly W[], ask: (worker: W) => Promise<Said>): Promise<readonly Said[]> {
  const slots = new Semaphore(CALLS_AT_ONCE_MAX);
  return Promise.all(workers.map((worker) => slots.run(() => ask(worker))));
}

/** Asks one control endpoint. Resolves within `timeoutMs`, whatever happens. */
function askControl(
  { plane, clock, random }: ControlCaller,
  transport: Transport,
  body: object,
  timeoutMs: number,
): Promise<OneAnswer> {
  const question = { id: random.uuid(), headers: {}, deadlineMs: timeoutMs, body };
  return askOnce(plane, transport, question, { clock, timeoutMs });
}

/** Returns every live instance of a control endpoint. */
function listControl({ instances }: ControlCaller, endpoint: string): readonly EndpointRecord[] {
  return instances().filter((record) => record.endpoint === endpoint);
}

/** Result of clearing one worker's cache. */
export interface ClearedWorker {
  readonly model: string;
  /** `namespace/component/clear_kv_blocks`. */
  readonly endpoint: string;
  /** Id in hex. */
  readonly workerId: string;
  /** Reason why the cache was not cleared; undefined if it is empty now. */
  readonly failure: string | undefined;
}

export interface CacheClearerOptions extends ControlCaller {
  /** Returns the primary models with their workers. */
  readonly models: () => readonly RoutableModel[];
}

/** Endpoint of a worker that empties its prefix cache. */
const CLEAR_ENDPOINT = 'clear_kv_blocks';
/** Longest wait for one worker's answer. */
const CLEAR_MS_MAX = 10_000;

/** Empties the prefix caches of every worker of every model. */
export class CacheClearer {
  readonly #options: CacheClearerOptions;

  constructor(options: CacheClearerOptions) {
    this.#options = options;
  }

  /** Asks every worker, several at once. Resolves with the result of each. */
  async clear(): Promise<readonly ClearedWorker[]> {
    const records = listControl(this.#options, CLEAR_ENDPOINT);
    const transports = new Map(records.map((record) => [keyOf(record, record.instance_id), record.transport]));
    const asked = this.#options
      .models()
      .flatMap(setsOf)
      .flatMap((model) => model.workers.map((worker) => ({ model: model.primaryName, worker })));
    return askEach(asked, ({ model, worker }) =>
      this.#clearOne(model, worker, transports.get(keyOf(worker.scope, worker.id))),
    );
  }

  async #clearOne(model: string, worker: Worker, transport: Transport | undefined): Promise<ClearedWorker> {
    const endpoint = `${worker.scope.namespace}/${worker.scope.component}/${CLEAR_ENDPOINT}`;
    const about = { model, endpoint, workerId: worker.id };
    if (transport === undefined) return { ...about, failure: 'the worker cannot clear its cache' };
    const answer = await askControl(this.#options, transport, {}, CLEAR_MS_MAX);
    return { ...about, failure: answer.kind === 'answered' ? undefined : toWire(answer.error).message };
  }
}

function keyOf({ namespace, component }: Pick<EndpointRecord, 'namespace' | 'component'>, workerId: string): string {
  return `${namespace}/${component}/${workerId}`;
}

/** Answers of workers to a cancel. */
export interface CancelOutcome {
  /** Whether one of them worked on the request, which it has ended. */
  readonly isCancelled: boolean;
  /** Number of workers that did not answer. */
  readonly silent: number;
}

const CANCEL_ENDPOINT = 'cancel';
/** Longest wait for all workers together. */
const CANCEL_MS_MAX = 2000;
/** Requests that are cancelled at the same time. */
const CANCELS_AT_ONCE_MAX = 64;
/**
 * Calls per second to workers: some tenths of a processor core. They suffice for 100 cancels a second in a fleet of 50
 * workers, or for a cancel now and then in a fleet of any size.
 */
const CALLS_PER_SECOND_MAX = 5000;

/** Answer of one worker. */
interface Said {
  /** Calls of the request that it has ended; undefined if it did not answer. */
  readonly cancelled: number | undefined;
  /** Whether it had a part of the request and passed the request on before its end. */
  readonly hasLeft: boolean;
}

const SILENT: Said = Object.freeze({ cancelled: undefined, hasLeft: false });

/**
 * Ends requests of other edges. The name of a request says at which worker it began. The canceller first asks only that
 * worker, which has the request unless the request has moved. It asks every worker in these cases: the name has no
 * worker, because the request was at several or at none; or the named worker is gone, silent, or has passed the request
 * on. The cost of that has a bound.
 */
export class RequestCanceller {
  readonly #options: ControlCaller;
  readonly #budget: RateBudget;
  readonly #underWay = new Map<string, Promise<CancelOutcome>>(); // by request key

  constructor(options: ControlCaller) {
    this.#options = options;
    this.#budget = new RateBudget(options.clock, CALLS_PER_SECOND_MAX, CALLS_PER_SECOND_MAX);
  }

  /**
   * Resolves within two seconds. A second caller for the same request shares the answer.
   * @throws ServeError `server_overloaded` if cancelling needs more calls than the bound allows
   */
  async cancel(named: NamedRequest): Promise<CancelOutcome> {
    const known = this.#underWay.get(named.key);
    if (known !== undefined) return known;
    if (this.#underWay.size >= CANCELS_AT_ONCE_MAX) throw tooMany();
    const asking = this.#ask(named).finally(() => this.#underWay.delete(named.key));
    this.#underWay.set(named.key, asking);
    return asking;
  }

  async #ask({ key, workerId }: NamedRequest): Promise<CancelOutcome> {
    const endMs = this.#options.clock.nowMs() + CANCEL_MS_MAX;
    const workers = listControl(this.#options, CANCEL_ENDPOINT);
    const said: Said[] = [];
    const named = workers.filter((record) => workerId !== undefined && record.instance_id === workerId);
    if (named.length > 0) {
      // A worker that does not answer must leave enough time for the others.
      said.push(...(await this.#askAll(named, key, endMs - CANCEL_MS_MAX / 2)));
      const isElsewhere = said.some(({ cancelled, hasLeft }) => cancelled === undefined || hasLeft);
      const isCancelled = said.some(({ cancelled = 0 }) => cancelled > 0);
      if (isCancelled || !isElsewhere) return outcomeOf(said);
    }
    const others = workers.filter((record) => !named.includes(record));
    said.push(...(await this.#askAll(others, key, endMs)));
    return outcomeOf(said);
  }

  #askAll(workers: readonly EndpointRecord[], key: string, endMs: number): Promise<readonly Said[]> {
    if (!this.#budget.take(workers.length)) throw tooMany();
    return askEach(workers, (worker) => this.#askOne(worker, key, endMs));
  }

  async #askOne({ transport }: EndpointRecord, key: string, endMs: number): Promise<Said> {
    const leftMs = endMs - this.#options.clock.nowMs();
    if (leftMs <= 0) return SILENT;
    const answer = await askControl(this.#options, transport, { id: key }, leftMs);
    if (answer.kind === 'failed') return SILENT;
    const { cancelled, left } = asRecord(answer.output?.body) ?? {};
    return { cancelled: asWholeNumber(cancelled), hasLeft: left === true };
  }
}

function outcomeOf(said: readonly Said[]): CancelOutcome {
  return {
    isCancelled: said.some(({ cancelled = 0 }) => cancelled > 0),
    silent: said.filter(({ cancelled }) => cancelled === undefined).length,
  };
}

function tooMany(): ServeError {
  return new ServeError('server_overloaded', 'Too many requests are being cancelled', { retryAfterMs: 1000 });
}
