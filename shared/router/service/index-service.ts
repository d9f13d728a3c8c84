import { reasonOf } from '../../errors/index.ts';
import type { IncomingCall, PlaneServer } from '../../planes/request/index.ts';
import { borrowChain } from '../../tokens/index.ts';
import { Overlaps, type PrefixIndex } from '../scheduler/prefix-index.ts';
import type { RankTable } from '../scheduler/ranks.ts';
import {
  decodeIndexQuery,
  decodeRecord,
  encodeRefusal,
  encodeScores,
  INDEX_QUERY_ENDPOINT,
  INDEX_RECORD_ENDPOINT,
  type RankBlocks,
  RECORDED,
} from './index-messages.ts';
import type { RouterEndpoint } from './plane-service.ts';

/** The index of one worker set. */
export interface ServedIndex {
  readonly index: PrefixIndex;
  readonly ranks: RankTable;
}

export interface IndexServiceOptions {
  readonly instanceId: string;
  readonly namespace: string;
  /** Of the workers whose blocks are indexed. */
  readonly component: string;
  /** The index of a model's workers in the component; undefined while there is none. */
  find(model: string): ServedIndex | undefined;
  /** The index knows of decisions alone, so those of other routers are taken. */
  readonly isRecording: boolean;
}

/** Serves block indexes to routers that keep none; returns the endpoints for discovery. */
export function serveIndexOnPlane(server: PlaneServer, options: IndexServiceOptions): readonly RouterEndpoint[] {
  const { instanceId, namespace, component, isRecording } = options;
  const service = new IndexService(options);
  const handlers: readonly (readonly [string, (body: unknown) => unknown])[] = [
    [INDEX_QUERY_ENDPOINT, (body) => service.query(body)],
    ...(isRecording ? [[INDEX_RECORD_ENDPOINT, (body: unknown) => service.record(body)] as const] : []),
  ];
  return handlers.map(([endpoint, answer]) => {
    const path = `${instanceId}/${namespace}/${component}/${endpoint}`;
    return { endpoint, transport: server.handle(path, (call) => respond(call, answer)) };
  });
}

/** Nonsense and unknown models are answered in the record, as Dynamo does, not by a failure of the call. */
function respond(call: IncomingCall, answer: (body: unknown) => unknown): void {
  let body: unknown;
  try {
    body = answer(call.body);
  } catch (thrown) {
    body = encodeRefusal(reasonOf(thrown));
  }
  call.output({ body });
  call.end();
}

class IndexService {
  readonly #options: IndexServiceOptions;
  readonly #overlaps = new Overlaps(0);

  constructor(options: IndexServiceOptions) {
    this.#options = options;
  }

  query(body: unknown): unknown {
    const { model, local, isDeviceOnly } = decodeIndexQuery(body);
    const { index, ranks } = this.#find(model);
    const overlaps = this.#overlaps;
    overlaps.reset(ranks.capacity);
    if (local.length > 0) index.match({ local, sequence: borrowChain(local) }, overlaps);
    const held = (tier: Uint32Array): RankBlocks[] => rowsOf(overlaps, tier, ranks);
    const device = held(overlaps.device);
    if (isDeviceOnly) return encodeScores({ device, host: [], disk: [] });
    return encodeScores({ device, host: held(overlaps.host), disk: held(overlaps.disk) });
  }

  record(body: unknown): unknown {
    const { model, workerId, dpRank, local, sequence } = decodeRecord(body);
    const { index, ranks } = this.#find(model);
    const rank = ranks.find(workerId, dpRank);
    if (rank === undefined) throw new Error(`worker ${workerId} has no rank ${dpRank} here`);
    // Nobody will tell when the request ends: its blocks age from now on.
    const id = `${workerId}/${dpRank}`;
    index.decided?.(id, rank, { local, sequence });
    index.freed?.(id);
    return RECORDED;
  }

  #find(model: string): ServedIndex {
    const found = this.#options.find(model);
    if (found === undefined) throw new Error(`no index for model ${model}`);
    return found;
  }
}

function rowsOf(overlaps: Overlaps, tier: Uint32Array, ranks: RankTable): RankBlocks[] {
  const rows: RankBlocks[] = [];
  for (const rank of overlaps.ranks.subarray(0, overlaps.count)) {
    const workerId = ranks.workerIdOf(rank);
    const blocks = tier[rank] as number;
    if (workerId !== undefined && blocks > 0) rows.push({ workerId, dpRank: ranks.dpRankOf(rank), blocks });
  }
  return rows;
}
