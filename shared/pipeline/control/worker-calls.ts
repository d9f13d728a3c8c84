import type { Clock, Random } from '../../clock/index.ts';
import { Semaphore } from '../../concurrency/index.ts';
import type { EndpointRecord } from '../../discovery/index.ts';
import { ServeError, toWire } from '../../errors/index.ts';
import { askOnce, type OneAnswer, type RequestPlane, type Transport } from '../../planes/request/index.ts';
import { requestKeyOf } from '../../protocol/generation/index.ts';
import type { RoutableModel, Worker } from '../models/model-directory.ts';

/** What asks a worker's control endpoints. */
export interface ControlCaller {
  readonly plane: RequestPlane;
  readonly clock: Clock;
  readonly random: Random;
  /** The live endpoints of every worker that serves this edge, from memory. */
  readonly instances: () => readonly EndpointRecord[];
}

/** Workers that one operator's request asks at once. */
const CALLS_AT_ONCE_MAX = 64;

/** Asks every one of `workers`, some at once. */
function askEach<W, Said>(workers: readonly W[], ask: (worker: W) => Promise<Said>): Promise<readonly Said[]> {
  const slots = new Semaphore(CALLS_AT_ONCE_MAX);
  return Promise.all(workers.map((worker) => slots.run(undefined, () => ask(worker))));
}

/** Asks one control endpoint; resolves within `timeoutMs`, whatever happens. */
function askControl(
  { plane, clock, random }: ControlCaller,
  transport: Transport,
  body: object,
  timeoutMs: number,
): Promise<OneAnswer> {
  const question = { id: random.uuid(), headers: {}, deadlineMs: timeoutMs, body };
  return askOnce(plane, transport, question, { clock, timeoutMs });
}

/** Every live instance of a control endpoint. */
function listControl({ instances }: ControlCaller, endpoint: string): readonly EndpointRecord[] {
  return instances().filter((record) => record.endpoint === endpoint);
}

/** What became of one worker's cache. */
export interface ClearedWorker {
  readonly model: string;
  /** `namespace/component/clear_kv_blocks`. */
  readonly endpoint: string;
  /** Hex. */
  readonly workerId: string;
  /** Why the cache is as it was; undefined when it is empty now. */
  readonly failure: string | undefined;
}

export interface CacheClearerOptions extends ControlCaller {
  /** Primary models with their workers. */
  readonly models: () => readonly RoutableModel[];
}

/** Endpoint of a worker that empties its prefix cache. */
const CLEAR_ENDPOINT = 'clear_kv_blocks';
/** For one worker to answer. */
const CLEAR_MS_MAX = 10_000;

/** Empties the prefix caches of every worker of every model. */
export class CacheClearer {
  readonly #options: CacheClearerOptions;

  constructor(options: CacheClearerOptions) {
    this.#options = options;
  }

  /** Asks every worker, some at once; resolves with what became of each. */
  async clear(): Promise<readonly ClearedWorker[]> {
    const records = listControl(this.#options, CLEAR_ENDPOINT);
    const transports = new Map(records.map((record) => [keyOf(record, record.instance_id), record.transport]));
    const asked = this.#options
      .models()
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

/** What the workers said to a cancel. */
export interface CancelOutcome {
  /** Whether one of them worked on the request, which it does no more. */
  readonly isCancelled: boolean;
  /** Workers that did not say. */
  readonly silent: number;
}

const CANCEL_ENDPOINT = 'cancel';
/** For all workers together. */
const CANCEL_MS_MAX = 2000;
/** Requests that are looked for at a time. */
const CANCELS_AT_ONCE_MAX = 64;
/** Some tenths of a processor core; a fleet of 50 workers is asked 100 times a second. */
const CALLS_PER_SECOND_MAX = 5000;

const NOBODY: CancelOutcome = Object.freeze({ isCancelled: false, silent: 0 });

/**
 * Ends requests of other edges by the ids that their servers gave them. Every worker is asked: no id names one, since ids are
 * told before a worker is chosen and stay when the request moves, and the legs and prompts of one request are at several. An id
 * that no server gives costs nothing, and what others cost is bounded: anybody can make them up.
 */
export class RequestCanceller {
  readonly #options: ControlCaller;
  readonly #budget: CallBudget;
  readonly #underWay = new Map<string, Promise<CancelOutcome>>(); // by request key

  constructor(options: ControlCaller) {
    this.#options = options;
    this.#budget = new CallBudget(options.clock, CALLS_PER_SECOND_MAX);
  }

  /**
   * Resolves within two seconds. Who asks for the same request meanwhile shares the answer.
   * @param id response id or request id
   * @throws ServeError `server_overloaded` when more requests are to be cancelled than workers may be asked for
   */
  async cancel(id: string): Promise<CancelOutcome> {
    const key = requestKeyOf(id);
    if (key === undefined) return NOBODY;
    const known = this.#underWay.get(key);
    if (known !== undefined) return known;
    const workers = listControl(this.#options, CANCEL_ENDPOINT);
    if (this.#underWay.size >= CANCELS_AT_ONCE_MAX || !this.#budget.take(workers.length)) {
      throw new ServeError('server_overloaded', 'Too many requests are being cancelled', { retryAfterMs: 1000 });
    }
    const asking = this.#askAll(workers, id).finally(() => this.#underWay.delete(key));
    this.#underWay.set(key, asking);
    return asking;
  }

  async #askAll(workers: readonly EndpointRecord[], id: string): Promise<CancelOutcome> {
    const endMs = this.#options.clock.nowMs() + CANCEL_MS_MAX;
    const ended = await askEach(workers, (worker) => this.#ask(worker, id, endMs));
    return {
      isCancelled: ended.some((calls) => calls !== undefined && calls > 0),
      silent: ended.filter((calls) => calls === undefined).length,
    };
  }

  /** How many calls of the request the worker has ended; undefined when it did not say. */
  async #ask({ transport }: EndpointRecord, id: string, endMs: number): Promise<number | undefined> {
    const leftMs = endMs - this.#options.clock.nowMs();
    if (leftMs <= 0) return undefined;
    const answer = await askControl(this.#options, transport, { id }, leftMs);
    if (answer.kind === 'failed') return undefined;
    const { cancelled } = (answer.output?.body ?? {}) as { readonly cancelled?: unknown };
    return typeof cancelled === 'number' ? cancelled : undefined;
  }
}

/**
 * How many calls may be made a second, on average, for requests that anybody can send. What is asked for while something is
 * left is granted whole, and paid back by waiting: a fleet of any size can be asked now and then.
 */
class CallBudget {
  readonly #clock: Clock;
  readonly #perSecond: number;
  #left: number;
  #filledMs: number;

  /** @param perSecond also the most that is saved up */
  constructor(clock: Clock, perSecond: number) {
    this.#clock = clock;
    this.#perSecond = perSecond;
    this.#left = perSecond;
    this.#filledMs = clock.nowMs();
  }

  /** Whether so many calls may be made now; they are spent then. */
  take(calls: number): boolean {
    const nowMs = this.#clock.nowMs();
    const earned = ((nowMs - this.#filledMs) / 1000) * this.#perSecond;
    this.#left = Math.min(this.#perSecond, this.#left + earned);
    this.#filledMs = nowMs;
    if (this.#left <= 0) return false;
    this.#left -= calls;
    return true;
  }
}
