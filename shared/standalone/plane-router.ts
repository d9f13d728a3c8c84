import { Overlaps } from '../block-index/index.ts';
import { isClientCancel, ServeError, toServeError, workerError } from '../errors/index.ts';
import type { Call, IncomingCall, PlaneServer, RequestPlane, Transport } from '../planes/index.ts';
import type { RouterConfigOverride, RoutingHints } from '../protocol/index.ts';
import { asRecord, u64OfHex } from '../records/index.ts';
import type { Reservation, RoutableWorker, RouteRequest, WorkerPool } from '../router/index.ts';
import { type RouterEndpoint, serveEndpoints } from '../router-service/index.ts';
import type { KvRouter } from '../scheduler/index.ts';
import type { Span, Tracer } from '../telemetry/index.ts';
import { hashBlocks } from '../tokens/index.ts';
import type { PlacedWorker } from '../worker-events/index.ts';
import { overlapScores } from './pools.ts';

/** Component of the standalone router, in the namespace of its workers. */
export const STANDALONE_COMPONENT = 'router';

/** An instance of the endpoint. */
export interface EndpointWorker extends RoutableWorker, PlacedWorker {
  readonly transport: Transport;
  /** The block size of its card; undefined if it has no card. */
  readonly blockSizeTokens: number | undefined;
}

export interface PlaneRouterOptions {
  readonly router: KvRouter<EndpointWorker>;
  readonly pool: WorkerPool;
  /** Forwards requests to workers. */
  readonly plane: RequestPlane;
  /** Makes a span for each request that is forwarded. @default no spans */
  readonly tracer?: Tracer | undefined;
}

/** The standalone router on the request plane. */
export class PlaneRouter {
  readonly #options: PlaneRouterOptions;
  readonly #overlaps = new Overlaps(0);

  constructor(options: PlaneRouterOptions) {
    this.#options = options;
  }

  /** Serves `generate`, `best_worker_id` and `get_overlap_scores`. */
  serve(server: PlaneServer, instanceId: string, namespace: string): readonly RouterEndpoint[] {
    const answered =
      (answer: (request: ReadRequest) => unknown) =>
      (call: IncomingCall): void => {
        call.output({ body: answer(readRequest(call)) });
        call.end();
      };
    const address = { instanceId, namespace, component: STANDALONE_COMPONENT };
    return serveEndpoints(server, address, {
      generate: (call) => this.#generate(call),
      best_worker_id: answered((request) => this.#bestWorker(request)),
      get_overlap_scores: answered((request) => this.#overlapScores(request)),
    });
  }

  async #generate(call: IncomingCall): Promise<void> {
    const request = readRequest(call);
    const { traceparent, tracestate } = call.headers;
    const attributes = { request_id: call.id, x_request_id: call.headers['x-request-id'] };
    const span = this.#options.tracer?.begin('route', { traceparent, tracestate }, { kind: 'server', attributes });
    try {
      await this.#relay(call, request, span);
    } catch (thrown) {
      span?.end(failureOf(call, toServeError(thrown)));
      throw thrown;
    }
  }

  async #relay(call: IncomingCall, request: ReadRequest, span: Span | undefined): Promise<void> {
    const { router, plane } = this.#options;
    // `stopped` also aborts with `signal`: a caller that has stopped must not wait for a worker.
    const held = await router.choose(this.#request(request), call.stopped);
    const { dpRank } = held;
    const routing = { ...request.routing, ...(dpRank === undefined ? {} : { dp_rank: dpRank }) };
    const { id, headers, deadlineMs } = call;
    span?.set({ worker_id: held.worker.id, dp_rank: dpRank });
    const own = span === undefined ? {} : { traceparent: span.context.traceparent };
    const relay = new Relay(call, held, span);
    relay.follow(
      plane.call(
        held.worker.transport,
        {
          id,
          headers: { ...headers, ...own, ...held.headers },
          body: { ...request.body, routing },
          tokenIds: request.tokens,
          ...(deadlineMs === undefined ? {} : { deadlineMs }),
        },
        relay,
      ),
    );
  }

  /** Returns the worker that a request would go to; books nothing. */
  #bestWorker(request: ReadRequest): unknown {
    const { chosen, failure } = this.#options.router.explain(this.#request(request));
    if (chosen === null) throw workerError('Unavailable', failure ?? undefined);
    return { worker_id: u64OfHex(chosen.worker_id).toString(), dp_rank: chosen.dp_rank };
  }

  #overlapScores({ tokens, routing }: ReadRequest): unknown {
    const { router, pool } = this.#options;
    const { blockSizeTokens } = pool;
    const known = router.find(pool);
    if (known === undefined) throw workerError('Unavailable');
    const { ranks, index, scheduler } = known;
    const scope = { loraName: routing.lora_name, cacheSalt: routing.cache_salt };
    const hashes = hashBlocks(tokens, { blockSizeTokens, ...scope });
    this.#overlaps.reset(ranks.capacity);
    index?.match(hashes, this.#overlaps);
    const rows = scheduler.loads().map(({ workerId, dpRank }) => {
      return { workerId, dpRank, rank: ranks.find(workerId, dpRank) ?? -1 };
    });
    // the wire of our own endpoint has ids in decimal
    const showId = (workerId: string): string => u64OfHex(workerId).toString();
    return overlapScores(this.#overlaps, rows, { blockSizeTokens, blocks: hashes.local.length >> 1, showId });
  }

  #request({ id, tokens, routing, override }: ReadRequest): RouteRequest {
    return { id, pool: this.#options.pool, routing, override, tokenIds: tokens, excluded: new Set() };
  }
}

/** A request as received: routing reads a part of it, the worker gets all of it. */
interface ReadRequest {
  readonly id: string;
  readonly tokens: Uint32Array;
  readonly routing: RoutingHints;
  readonly override: RouterConfigOverride | undefined;
  readonly body: Readonly<Record<string, unknown>>;
}

/** Reads a request. The tokens come beside the body or in it as `token_ids`; a body that is a list is the tokens. */
function readRequest({ id, body, tokenIds }: IncomingCall): ReadRequest {
  const { token_ids: listed, ...rest } = asRecord(body) ?? {};
  const tokens = tokenIds ?? tokensOf(Array.isArray(body) ? body : listed);
  const routing = asRecord(rest.routing) as RoutingHints | undefined;
  const override = asRecord(rest.router_config_override) as RouterConfigOverride | undefined; // `weightsFor` checks it
  return { id, tokens, routing: routing ?? {}, override, body: rest };
}

function tokensOf(list: unknown): Uint32Array {
  if (!Array.isArray(list) || !list.every((id) => Number.isInteger(id) && id >= 0 && id <= 0xffff_ffff)) {
    throw new ServeError('invalid_value', 'Invalid request: token_ids must be a list of token ids', {
      param: 'token_ids',
    });
  }
  return Uint32Array.from(list);
}

type Sink = Parameters<RequestPlane['call']>[2];

/** Returns the failure that a span records: none if the caller has cancelled the request. */
function failureOf(call: IncomingCall, error: ServeError): string | undefined {
  return call.isStopped || isClientCancel(error) ? undefined : (error.worker ?? error.code);
}

/**
 * Forwards a worker's answer to the caller, and the caller's cancellation to the worker; releases the reservation at
 * the end.
 */
class Relay implements Sink {
  readonly #to: IncomingCall;
  readonly #held: Reservation;
  readonly #span: Span | undefined;
  #from: Call | undefined;
  #tokens = 0;
  #isOver = false;
  readonly #kill = (): void => {
    this.#end();
    this.#from?.kill(this.#to.wasMoved ? 'moved' : undefined);
  };
  readonly #stop = (): void => this.#from?.stop();

  constructor(to: IncomingCall, held: Reservation, span: Span | undefined) {
    this.#to = to;
    this.#held = held;
    this.#span = span;
  }

  follow(from: Call): void {
    this.#from = from;
    this.#to.signal.addEventListener('abort', this.#kill, { once: true });
    this.#to.stopped.addEventListener('abort', this.#stop, { once: true });
    if (this.#to.signal.aborted) this.#kill();
    else if (this.#to.stopped.aborted) this.#stop();
  }

  accepted(): void {
    this.#to.accept();
  }

  moveAsked(): void {
    this.#to.askToMove();
  }

  tokens(choice: number, ids: ArrayLike<number>, start: number, count: number): void {
    this.#count(count);
    this.#to.tokens(choice, ids, start, count);
    this.#slowDown();
  }

  output(output: Parameters<Sink['output']>[0]): void {
    this.#count(output.token_ids?.length ?? 0);
    this.#to.output(output);
    this.#slowDown();
  }

  end(): void {
    this.#end();
    this.#to.end();
  }

  fail(error: ServeError): void {
    this.#end(failureOf(this.#to, error));
    this.#to.fail(error);
  }

  #count(tokens: number): void {
    if (this.#tokens === 0) this.#held.prefillDone();
    this.#tokens += tokens;
    this.#held.produced(this.#tokens);
  }

  /** Pauses the worker while the caller cannot take more. */
  #slowDown(): void {
    if (!this.#to.isBlocked()) return;
    this.#from?.pause();
    this.#to.onUnblocked(() => this.#from?.resume());
  }

  #end(failure?: string): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#span?.end(failure);
    this.#held.release();
    this.#to.signal.removeEventListener('abort', this.#kill);
    this.#to.stopped.removeEventListener('abort', this.#stop);
  }
}
