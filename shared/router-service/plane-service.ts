import type { RankTable } from '../block-index/index.ts';
import { Overlaps, type PrefixIndex } from '../block-index/index.ts';
import { reasonOf, toServeError } from '../errors/index.ts';
import type { IncomingCall, PlaneHandler, PlaneServer, Transport } from '../planes/index.ts';
import { borrowChain } from '../tokens/index.ts';
import {
  CHOOSE_ENDPOINT,
  type ChooseCaller,
  type ChooseService,
  decodeChange,
  decodeQuery,
  EXPLAIN_ENDPOINT,
  encodeDecision,
  encodeQueued,
  isProbe,
  LOADS_ENDPOINT,
  RELEASE_ENDPOINT,
  ROUTER_COMPONENT,
} from './messages.ts';
import {
  decodeIndexQuery,
  decodeRecord,
  encodeRefusal,
  encodeScores,
  INDEX_QUERY_ENDPOINT,
  INDEX_RECORD_ENDPOINT,
  type RankBlocks,
  RECORDED,
} from './remote-index.ts';

/** An endpoint of the router, as registered in discovery. */
export interface RouterEndpoint {
  readonly endpoint: string;
  readonly transport: Transport;
}

/** Instance that serves, and the component of its endpoints. */
export interface ServingAddress {
  readonly instanceId: string;
  readonly namespace: string;
  readonly component: string;
}

/** Serves endpoints of a component on a request plane. Returns them for discovery. */
export function serveEndpoints(
  server: PlaneServer,
  { instanceId, namespace, component }: ServingAddress,
  handlers: Readonly<Record<string, PlaneHandler>>,
): readonly RouterEndpoint[] {
  return Object.entries(handlers).map(([endpoint, handler]) => {
    return { endpoint, transport: server.handle(`${instanceId}/${namespace}/${component}/${endpoint}`, handler) };
  });
}

/** Serves the router on a request plane. Returns its endpoints for discovery. */
export function serveRouterOnPlane(
  server: PlaneServer,
  address: Omit<ServingAddress, 'component'>,
  service: ChooseService,
): readonly RouterEndpoint[] {
  return serveEndpoints(
    server,
    { ...address, component: ROUTER_COMPONENT },
    {
      [CHOOSE_ENDPOINT]: (call) => serveChoose(service, call),
      [RELEASE_ENDPOINT]: (call) => {
        service.release(decodeChange(call.body));
        call.end();
      },
      [LOADS_ENDPOINT]: (call) => {
        call.output({ body: service.loads() });
        call.end();
      },
      [EXPLAIN_ENDPOINT]: (call) => serveExplain(service, call),
    },
  );
}

/** Answers with a stream: perhaps `queued`, then the decision. A caller that leaves also leaves the queue. */
function serveChoose(service: ChooseService, call: IncomingCall): void {
  if (isProbe(call.body)) {
    call.end();
    return;
  }
  const query = decodeQuery(call.id, call.body, call.tokenIds);
  const caller: ChooseCaller = {
    get hasLeft() {
      return call.isStopped;
    },
    get left() {
      return call.stopped;
    },
    traceparent: call.headers.traceparent,
    queued: (position) => call.output({ body: encodeQueued(position) }),
  };
  service.choose(query, caller).then(
    (chosen) => {
      call.output({ body: encodeDecision(chosen) });
      call.end();
    },
    (thrown: unknown) => call.fail(toServeError(thrown)),
  );
}

/** Explains by request id (`{ explain: id }`), or a query. */
function serveExplain(service: ChooseService, call: IncomingCall): void {
  const { explain } = call.body as { readonly explain?: unknown };
  const explanation =
    typeof explain === 'string'
      ? service.explained(explain)
      : service.explain(decodeQuery(call.id, call.body, call.tokenIds));
  call.output({ body: { explanation: explanation ?? null } });
  call.end();
}

/** The index of one worker set. */
export interface ServedIndex {
  readonly index: PrefixIndex;
  readonly ranks: RankTable;
}

export interface IndexServiceOptions extends ServingAddress {
  /** Returns the index of a model's workers in the component; undefined while there is none. */
  find(model: string): ServedIndex | undefined;
  /** Whether the index has only decisions, so that it accepts those of other routers. */
  readonly isRecording: boolean;
}

/** Serves block indexes to routers that keep none. Returns the endpoints for discovery. */
export function serveIndexOnPlane(server: PlaneServer, options: IndexServiceOptions): readonly RouterEndpoint[] {
  const service = new IndexService(options.find);
  return serveEndpoints(server, options, {
    [INDEX_QUERY_ENDPOINT]: (call) => respond(call, (body) => service.query(body)),
    ...(options.isRecording && {
      [INDEX_RECORD_ENDPOINT]: (call: IncomingCall) => respond(call, (body) => service.record(body)),
    }),
  });
}

/** Answers invalid queries and unknown models in the record, as Dynamo does, instead of failing the call. */
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
  readonly #find: IndexServiceOptions['find'];
  readonly #overlaps = new Overlaps(0);

  constructor(find: IndexServiceOptions['find']) {
    this.#find = find;
  }

  query(body: unknown): unknown {
    const { model, local, isDeviceOnly } = decodeIndexQuery(body);
    const { index, ranks } = this.#indexOf(model);
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
    const { index, ranks } = this.#indexOf(model);
    const rank = ranks.find(workerId, dpRank);
    if (rank === undefined) throw new Error(`worker ${workerId} has no rank ${dpRank} here`);
    // The end of the request is not reported, so its blocks age from now on.
    const id = `${workerId}/${dpRank}`;
    index.decided?.(id, rank, { local, sequence });
    index.freed?.(id);
    return RECORDED;
  }

  #indexOf(model: string): ServedIndex {
    const found = this.#find(model);
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
