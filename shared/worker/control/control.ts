import type { EndpointRecord, EventSourceRecord } from '../../discovery/index.ts';
import type { Engine } from '../../engines/index.ts';
import { toServeError, workerError } from '../../errors/index.ts';
import type { IncomingCall, PlaneHandler, Transport } from '../../planes/index.ts';
import { isRecord, type UnknownRecord } from '../../records/index.ts';
import { recoveryEndpoint } from '../../worker-events/index.ts';
import type { Adapters } from '../adapters/adapters.ts';
import type { CallsUnderWay } from '../calls/calls-under-way.ts';
import type { DynamoEvents } from '../events/dynamo-events.ts';
import { JoinedRecovery } from '../events/dynamo-recovery.ts';
import { type RankJournal, RecoveryService } from '../events/rank-journal.ts';

/** The controls for a worker's operator, except draining. */
interface ControlTargets {
  /** Adapters of the worker; undefined = adapters are off. */
  readonly adapters: Adapters | undefined;
  /** Clears the KV cache; undefined = the engine cannot. */
  clearKvBlocks?: ((signal: AbortSignal) => Promise<void>) | undefined;
  sleep?: ((level: number, signal: AbortSignal) => Promise<void>) | undefined;
  wake?: ((tags: readonly string[], signal: AbortSignal) => Promise<void>) | undefined;
  /** Depth of a sleep if the request names none. */
  readonly sleepLevel: number;
}

type ControlName = 'clear_kv_blocks' | 'sleep' | 'wake_up' | 'load_lora' | 'unload_lora' | 'list_loras';

/** Controls that are also endpoints on the request plane. */
const ADAPTER_ENDPOINTS = ['load_lora', 'unload_lora', 'list_loras'] as const satisfies readonly ControlName[];

/** The controls of one worker, by name. The request plane and the control server use the same ones. */
export class WorkerControl {
  readonly #targets: ControlTargets;

  constructor(targets: ControlTargets) {
    this.#targets = targets;
  }

  /**
   * Runs one control to its end and returns its answer.
   * @throws ServeError `not_implemented` if the worker or its engine has no such control, `invalid_value` for a bad
   * body
   */
  async run(name: string, body: unknown, signal: AbortSignal): Promise<object> {
    const { adapters, clearKvBlocks, sleep, wake, sleepLevel } = this.#targets;
    const fields = body ?? {};
    if (!isRecord(fields)) throw workerError('InvalidArgument', 'the body must be a JSON object');
    switch (name as ControlName) {
      case 'clear_kv_blocks':
        await there(clearKvBlocks, name)(signal);
        return { status: 'success', message: 'KV cache cleared' };
      case 'sleep':
        await there(sleep, name)(levelOf(fields, sleepLevel), signal);
        return { status: 'success', message: 'the engine is asleep' };
      case 'wake_up':
        await there(wake, name)(tagsOf(fields), signal);
        return { status: 'success', message: 'the engine is awake' };
      case 'load_lora':
        return there(adapters, name).load(textOf(fields, 'lora_name'), uriOf(fields), signal);
      case 'unload_lora':
        return there(adapters, name).unload(textOf(fields, 'lora_name'), signal);
      case 'list_loras':
        return there(adapters, name).list();
      default:
        throw workerError('NotFound', `there is no control ${name}`);
    }
  }

  /** Returns a handler that serves one control on the request plane; its answer is the call's only `body`. */
  handler(name: ControlName): PlaneHandler {
    return async (call) => {
      call.accept();
      try {
        call.output({ body: await this.run(name, call.body, call.signal) });
        call.end();
      } catch (thrown) {
        call.fail(toServeError(thrown));
      }
    };
  }
}

function there<T>(target: T | undefined, name: string): T {
  if (target === undefined) throw workerError('NotImplemented', `this worker has no ${name}`);
  return target;
}

function levelOf({ level }: UnknownRecord, otherwise: number): number {
  if (level === undefined || level === null) return otherwise;
  if (typeof level === 'number' && Number.isInteger(level) && level >= 1 && level <= 3) return level;
  throw workerError('InvalidArgument', 'level must be 1, 2 or 3', { param: 'level' });
}

function tagsOf({ tags }: UnknownRecord): readonly string[] {
  if (tags === undefined || tags === null) return [];
  if (Array.isArray(tags) && tags.every((tag) => typeof tag === 'string')) return tags;
  throw workerError('InvalidArgument', 'tags must be a list of texts', { param: 'tags' });
}

function uriOf({ source, uri }: UnknownRecord): string {
  const named = isRecord(source) ? source.uri : uri;
  if (typeof named === 'string' && named !== '') return named;
  throw workerError('InvalidArgument', 'source.uri is missing', { param: 'source.uri' });
}

function textOf(fields: UnknownRecord, name: string): string {
  const value = fields[name];
  if (typeof value === 'string' && value !== '' && value.length <= 256) return value;
  throw workerError('InvalidArgument', `${name} must be a text of 1 to 256 characters`, { param: name });
}

/** Endpoint that ends a request if an edge other than the request's own asks for it. */
const CANCEL_ENDPOINT = 'cancel';

const ID_LENGTH_MAX = 1024;

interface SideEndpointsOptions {
  /** Address of each endpoint, without its transport. */
  readonly at: Pick<EndpointRecord, 'namespace' | 'component' | 'instance_id'>;
  readonly engine: Engine;
  readonly calls: CallsUnderWay;
  /** Journals of the ranks whose cache events can be queried. */
  readonly journals: readonly RankJournal[];
  /** Whether the worker loads adapters. */
  readonly hasAdapters: boolean;
  /** Returns the controls, which exist when the first call comes. */
  control(): WorkerControl;
  /** The events in Dynamo's form, with the records of their sources; undefined if routers of Stator read them. */
  readonly dynamo: DynamoEvents | undefined;
  /** Serves the calls of one endpoint from now on. */
  serve(endpoint: string, handler: PlaneHandler): Transport;
}

/** Serves the endpoints beside the model's own: recovery of cache events, one for each rank, and control. */
export function serveSideEndpoints(options: SideEndpointsOptions): (EndpointRecord | EventSourceRecord)[] {
  const { at, engine, calls, journals, hasAdapters, control, dynamo } = options;
  const serve = (endpoint: string, handler: PlaneHandler): EndpointRecord => {
    return { type: 'Endpoint', ...at, endpoint, transport: options.serve(endpoint, handler) };
  };
  const recovery = new RecoveryService();
  const records: (EndpointRecord | EventSourceRecord)[] =
    dynamo?.sources((endpoint, dpRank) =>
      options.serve(endpoint, (call) => recovery.serve(there(journals[dpRank], endpoint), new JoinedRecovery(call))),
    ) ?? journals.map((journal, dpRank) => serve(recoveryEndpoint(dpRank), (call) => recovery.serve(journal, call)));
  records.push(serve(CANCEL_ENDPOINT, (call) => serveCancel(calls, call)));
  const controls: ControlName[] = engine.clearKvBlocks === undefined ? [] : ['clear_kv_blocks'];
  if (hasAdapters) controls.push(...ADAPTER_ENDPOINTS);
  for (const name of controls) records.push(serve(name, (call) => control().handler(name)(call)));
  return records;
}

/** Ends the calls that run here under the id `{ id }`, and answers with a `CancelReport`. */
function serveCancel(calls: Pick<CallsUnderWay, 'cancel'>, call: IncomingCall): void {
  const { id } = (call.body ?? {}) as { readonly id?: unknown };
  if (typeof id !== 'string' || id === '' || id.length > ID_LENGTH_MAX) {
    call.fail(workerError('InvalidArgument', `id must be a text of 1 to ${ID_LENGTH_MAX} characters`, { param: 'id' }));
    return;
  }
  call.accept();
  call.output({ body: calls.cancel(id) });
  call.end();
}
