import { Semaphore } from '../../concurrency/index.ts';
import type { EndpointRecord } from '../../discovery/index.ts';
import { toWire } from '../../errors/index.ts';
import type { Transport } from '../../planes/request/index.ts';
import type { RoutableModel, Worker } from '../models/model-directory.ts';
import { askControl, CONTROL_CALLS_AT_ONCE_MAX, type ControlCaller, listControl } from './control-endpoints.ts';

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
const ANSWER_MS_MAX = 10_000;

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
    const slots = new Semaphore(CONTROL_CALLS_AT_ONCE_MAX);
    return Promise.all(
      asked.map(({ model, worker }) =>
        slots.run(undefined, () => this.#clearOne(model, worker, transports.get(keyOf(worker.scope, worker.id)))),
      ),
    );
  }

  async #clearOne(model: string, worker: Worker, transport: Transport | undefined): Promise<ClearedWorker> {
    const endpoint = `${worker.scope.namespace}/${worker.scope.component}/${CLEAR_ENDPOINT}`;
    const about = { model, endpoint, workerId: worker.id };
    if (transport === undefined) return { ...about, failure: 'the worker cannot clear its cache' };
    const answer = await askControl(this.#options, transport, {}, ANSWER_MS_MAX);
    return { ...about, failure: answer.kind === 'answered' ? undefined : toWire(answer.error).message };
  }
}

function keyOf({ namespace, component }: Pick<EndpointRecord, 'namespace' | 'component'>, workerId: string): string {
  return `${namespace}/${component}/${workerId}`;
}
