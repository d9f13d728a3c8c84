import type { EndpointRecord } from '../../discovery/index.ts';
import type { Engine } from '../../engines/index.ts';
import type { PlaneHandler, Transport } from '../../planes/request/index.ts';
import { recoveryEndpoint } from '../../router/feed/index.ts';
import type { CallsUnderWay } from '../calls/calls-under-way.ts';
import type { RankJournal } from '../events/rank-journal.ts';
import { RecoveryService } from '../events/recovery-service.ts';
import { CANCEL_ENDPOINT, serveCancel } from './cancel-service.ts';
import { CLEAR_ENDPOINT, serveClear } from './clear-service.ts';
import { ADAPTER_ENDPOINTS, type WorkerControl } from './control.ts';

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
