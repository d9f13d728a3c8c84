import type { EndpointRecord } from '../../discovery/index.ts';
import type { Engine } from '../../engines/index.ts';
import { toServeError, workerError } from '../../errors/index.ts';
import type { IncomingCall, PlaneHandler, Transport } from '../../planes/request/index.ts';
import { recoveryEndpoint } from '../../router/feed/index.ts';
import type { CallsUnderWay } from '../calls/calls-under-way.ts';
import type { RankJournal } from '../events/rank-journal.ts';
import { RecoveryService } from '../events/recovery-service.ts';
import { ADAPTER_ENDPOINTS, type WorkerControl } from './control.ts';

/** Endpoint that empties the prefix cache. */
const CLEAR_ENDPOINT = 'clear_kv_blocks';

/** Endpoint that ends a request at an edge's wish that is not the request's own edge. */
const CANCEL_ENDPOINT = 'cancel';

const ID_LENGTH_MAX = 1024;

export interface SideEndpointsOptions {
  /** Without transport: where each is served. */
  readonly at: Pick<EndpointRecord, 'namespace' | 'component' | 'instance_id'>;
  readonly engine: Engine;
  readonly calls: CallsUnderWay;
  /** One for each rank whose cache events can be asked for. */
  readonly journals: readonly RankJournal[];
  /** Whether adapters are loaded here. */
  readonly hasAdapters: boolean;
  /** There when the first call comes. */
  control(): WorkerControl;
  /** Takes the calls of one endpoint from now on. */
  serve(endpoint: string, handler: PlaneHandler): Transport;
}

/** Serves what stands beside the model's own endpoint: recovery of cache events, one a rank, and control. */
export function serveSideEndpoints(options: SideEndpointsOptions): EndpointRecord[] {
  const { at, engine, calls, journals, hasAdapters, control } = options;
  const serve = (endpoint: string, handler: PlaneHandler): EndpointRecord => {
    return { type: 'Endpoint', ...at, endpoint, transport: options.serve(endpoint, handler) };
  };
  const recovery = new RecoveryService();
  const records = journals.map((journal, dpRank) =>
    serve(recoveryEndpoint(dpRank), (call) => recovery.serve(journal, call)),
  );
  records.push(serve(CANCEL_ENDPOINT, (call) => serveCancel(calls, call)));
  if (engine.clearKvBlocks !== undefined) records.push(serve(CLEAR_ENDPOINT, (call) => serveClear(engine, call)));
  for (const name of hasAdapters ? ADAPTER_ENDPOINTS : []) {
    records.push(serve(name, (call) => control().handler(name)(call)));
  }
  return records;
}

/** Ends what runs here under the id `{ id }`, and answers with what it found: a `CancelReport`. */
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

/** Empties the engine's prefix cache and says so. What the engine had cached is told to routers by its own `cleared` events. */
async function serveClear(engine: Pick<Engine, 'clearKvBlocks'>, call: IncomingCall): Promise<void> {
  call.accept();
  try {
    await engine.clearKvBlocks?.(call.signal);
    call.output({ body: { status: 'success', message: 'KV cache cleared' } });
    call.end();
  } catch (thrown) {
    call.fail(toServeError(thrown));
  }
}
