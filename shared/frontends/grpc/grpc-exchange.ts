import { ANYBODY, type Grant, type Need } from '../../access/index.ts';
import { codeRow, type ServeError } from '../../errors/index.ts';
import { type GrpcCall, STATUS, statusName } from '../../grpc/index.ts';
import {
  clientRequestId,
  type ExchangeListener,
  type InferenceDeps,
  type TrackedExchange,
  type TransportNames,
} from '../inference/deps.ts';
import { serverAttributes } from '../inference/server-attributes.ts';

const GRPC: TransportNames = {
  okStatus: 0,
  goneStatus: 1,
  cancelledEndpoints: { completions: 'grpc_completions' },
};

const UUID = /^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$/i;

/** Exchange of one request of a call; a stream has many requests. */
export class GrpcExchange implements TrackedExchange {
  readonly transport = GRPC;
  readonly sink: GrpcCall;
  readonly grant: Grant;
  readonly requestId: string;
  readonly madeRequestId: string;
  readonly #call: GrpcCall;
  readonly #deps: KserveDeps;

  /** @param id that of the message, which becomes the request's if it is a UUID that no other request has */
  constructor(deps: KserveDeps, call: GrpcCall, grant: Grant, id: string) {
    this.#deps = deps;
    this.#call = call;
    this.sink = call;
    this.grant = grant;
    const given = UUID.test(id) && !deps.lifecycle.running.has(id) ? dashed(id) : undefined;
    this.madeRequestId = given ?? deps.random.uuid();
    this.requestId = clientRequestId(call.header('x-request-id')) ?? this.madeRequestId;
  }

  watch(listener: ExchangeListener): () => void {
    return this.#call.watch(listener);
  }

  /** As the call's metadata; an invalid `x-request-id` counts as absent. */
  header(name: string): string | undefined {
    const value = this.#call.header(name);
    return name === 'x-request-id' ? clientRequestId(value) : value;
  }

  headerNames(): readonly string[] {
    return this.#call.headerNames();
  }

  failed(error: ServeError): void {
    if (error.limit !== undefined) this.#deps.metrics.limitReached(error.limit);
  }

  spanStart() {
    const method = this.#call.path.replace(/^\//, '');
    const attributes = {
      'rpc.system.name': 'grpc',
      'rpc.method': method,
      'user_agent.original': this.#call.header('user-agent'),
      ...serverAttributes(this.#call.header(':authority')),
    };
    return { name: method, attributes };
  }

  spanEnd(status: number) {
    return { 'rpc.status_code': statusName(status) };
  }

  isOurFault({ code }: ServeError, status: number): boolean {
    return SERVER_FAULTS.has(status === STATUS.OK ? codeRow(code).grpc : status);
  }
}

/** Statuses of failures of the server; the others refuse what the client asks for. */
const SERVER_FAULTS: ReadonlySet<number> = new Set([
  STATUS.UNKNOWN,
  STATUS.DEADLINE_EXCEEDED,
  STATUS.UNIMPLEMENTED,
  STATUS.INTERNAL,
  STATUS.UNAVAILABLE,
]);

function dashed(id: string): string {
  const hex = id.replaceAll('-', '').toLowerCase();
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
}

/**
 * Returns the rights that a call is let in with, before its message is read. Keys come as `authorization: Bearer` or
 * `x-api-key`.
 * @throws ServeError, or rejects with one: see `Gate.admit`
 */
export function admit({ gate }: KserveDeps, call: GrpcCall, need: Need): Grant | Promise<Grant> {
  return gate === undefined ? ANYBODY : gate.admit(call, need, call.path);
}

/** Dependencies of the KServe service. */
export interface KserveDeps extends InferenceDeps {
  /** Version of the product, for `ServerMetadata`. */
  readonly version: string;
}
