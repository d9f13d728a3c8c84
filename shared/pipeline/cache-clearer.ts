import type { Clock, Random } from '../clock/index.ts';
import type { Discovery, EndpointRecord } from '../discovery/index.ts';
import { type ServeError, toWire, workerError } from '../errors/index.ts';
import type { CallSink, RequestPlane, Transport } from '../planes/request/index.ts';
import type { RoutableModel, Worker } from './model-directory.ts';

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

export interface CacheClearerOptions {
  /** Primary models with their workers. */
  readonly models: () => readonly RoutableModel[];
  readonly discovery: Pick<Discovery, 'list'>;
  readonly plane: RequestPlane;
  readonly clock: Clock;
  readonly random: Random;
}

/** Endpoint of a worker that empties its prefix cache (runtime-and-workers.md, section 5.5). */
const CLEAR_ENDPOINT = 'clear_kv_blocks';
/** For one worker to answer, and for discovery to list them. */
const ANSWER_MS_MAX = 10_000;
/** Workers asked at once. */
const AT_ONCE_MAX = 64;

/** Empties the prefix caches of every worker of every model. */
export class CacheClearer {
  readonly #options: CacheClearerOptions;

  constructor(options: CacheClearerOptions) {
    this.#options = options;
  }

  /** Asks every worker, some at once; resolves with what became of each. Rejects when discovery cannot be read. */
  async clear(): Promise<readonly ClearedWorker[]> {
    const transports = await this.#transports();
    const asked = this.#options
      .models()
      .flatMap((model) => model.workers.map((worker) => ({ model: model.primaryName, worker })));
    const cleared: ClearedWorker[] = [];
    for (let from = 0; from < asked.length; from += AT_ONCE_MAX) {
      const slice = asked.slice(from, from + AT_ONCE_MAX);
      const clearOne = ({ model, worker }: (typeof asked)[number]): Promise<ClearedWorker> =>
        this.#clearOne(model, worker, transports.get(keyOf(worker.scope, worker.id)));
      cleared.push(...(await Promise.all(slice.map(clearOne))));
    }
    return cleared;
  }

  async #transports(): Promise<Map<string, Transport>> {
    const { discovery } = this.#options;
    const records = await discovery.list({ bucket: 'v1/instances', prefix: '' }, AbortSignal.timeout(ANSWER_MS_MAX));
    const isClear = (record: (typeof records)[number]): record is EndpointRecord =>
      record.type === 'Endpoint' && record.endpoint === CLEAR_ENDPOINT;
    return new Map(records.filter(isClear).map((record) => [keyOf(record, record.instance_id), record.transport]));
  }

  async #clearOne(model: string, worker: Worker, transport: Transport | undefined): Promise<ClearedWorker> {
    const endpoint = `${worker.scope.namespace}/${worker.scope.component}/${CLEAR_ENDPOINT}`;
    const about = { model, endpoint, workerId: worker.id };
    if (transport === undefined) return { ...about, failure: 'the worker cannot clear its cache' };
    const failure = await this.#call(transport);
    return { ...about, failure: failure === undefined ? undefined : toWire(failure).message };
  }

  /** Resolves with the failure, if there is one. */
  #call(transport: Transport): Promise<ServeError | undefined> {
    const { plane, clock, random } = this.#options;
    return new Promise((resolve) => {
      const sink: CallSink = {
        accepted() {},
        tokens() {},
        output() {},
        end: () => settle(undefined),
        fail: (error) => settle(error),
      };
      const call = plane.call(transport, { id: random.uuid(), headers: {}, deadlineMs: ANSWER_MS_MAX, body: {} }, sink);
      const timer = clock.after(ANSWER_MS_MAX, () => {
        call.kill();
        settle(workerError('DeadlineExceeded', `no answer within ${ANSWER_MS_MAX} ms`));
      });
      function settle(failure: ServeError | undefined): void {
        timer.cancel();
        resolve(failure);
      }
    });
  }
}

function keyOf({ namespace, component }: Pick<EndpointRecord, 'namespace' | 'component'>, workerId: string): string {
  return `${namespace}/${component}/${workerId}`;
}
