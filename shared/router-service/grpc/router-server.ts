import { holdsSecret } from '../../access/index.ts';
import type { TimeAndChance } from '../../clock/index.ts';
import { codeRow, reasonOf, ServeError, toServeError, toWire, type WorkerErrorKind } from '../../errors/index.ts';
import {
  FIRST_WINDOW_BYTES,
  file_health,
  file_router,
  framed,
  type GrpcCall,
  type GrpcMethod,
  type GrpcServer,
  type GrpcServerOptions,
  GrpcStatus,
  HEALTH,
  HealthService,
  OwnRoom,
  openGrpcServer,
  receiveOne,
  reflectionMethods,
  unary,
} from '../../grpc/index.ts';
import type { PlaneServerTls } from '../../planes/index.ts';
import type { ChooseCaller, ChooseQuery, ChooseService } from '../messages.ts';
import {
  decodeChooseRequest,
  decodeExplainRequest,
  decodeReleaseRequest,
  ERROR_KIND_TRAILER,
  ERROR_PARAM_TRAILER,
  encodeDecisionResponse,
  encodeExplainResponse,
  encodeLoadsResponse,
  encodeQueuedResponse,
  MESSAGE_BYTES_MAX,
  ROUTER,
} from './codec.ts';

/** Interval of pings that detect a frontend that has vanished. */
const KEEPALIVE_MS = 30_000;

export interface RouterGrpcOptions extends TimeAndChance {
  readonly service: ChooseService;
  readonly host: string;
  /** Port of the listener; 0 = any free one. */
  readonly port: number;
  /** Secret that callers send as `authorization: Bearer`. The health check needs none. @default no secret */
  readonly secret?: string | undefined;
  /** Secret before the rotation, which is also accepted. @default none */
  readonly previousSecret?: string | undefined;
  /** TLS of the listener. @default no TLS */
  readonly tls?: PlaneServerTls | undefined;
}

/** The router's gRPC server. */
export interface RouterGrpcServer {
  readonly port: number;
  /** Uses the certificate for new connections, if there was one from the start. */
  useCertificate(tls: PlaneServerTls): void;
  /** Closes the server, and aborts the calls that are running. */
  close(): Promise<void>;
}

/**
 * Serves proto/router.proto, the standard health check, and reflection.
 * @throws Error with one line that names the setting to change if the port cannot be bound
 */
export async function serveRouterGrpc(options: RouterGrpcOptions): Promise<RouterGrpcServer> {
  const { service, host, port, clock, random, secret, tls } = options;
  const secrets = [secret, options.previousSecret].filter((each) => each !== undefined);
  const asksSecret = (call: GrpcCall): void => {
    try {
      requireSecret(call, secrets);
    } catch (thrown) {
      throw classed(thrown);
    }
  };
  const guarded = (name: string, answer: (request: Uint8Array) => Uint8Array): GrpcMethod =>
    unary(
      `/${ROUTER}/${name}`,
      (bytes) => {
        try {
          return answer(bytes);
        } catch (thrown) {
          throw classed(thrown);
        }
      },
      asksSecret,
    );
  const health = new HealthService((name) => {
    if (name === ROUTER) return service.isLeader;
    return name === '' || name === HEALTH ? true : undefined;
  });
  const methods = [
    { path: `/${ROUTER}/Choose`, serve: (call: GrpcCall) => choose(service, call, secrets) },
    guarded('Release', (bytes) => {
      service.release(decodeReleaseRequest(bytes));
      return new Uint8Array(0);
    }),
    guarded('Loads', () => encodeLoadsResponse(service.loads())),
    guarded('Explain', (bytes) => encodeExplainResponse(explain(service, bytes))),
    ...health.methods,
    ...reflectionMethods([file_router, file_health]),
  ];
  const server = await listen({
    host,
    port,
    methods,
    clock,
    random,
    tls,
    messageBytesMax: MESSAGE_BYTES_MAX,
    firstWindowBytes: secret === undefined ? undefined : FIRST_WINDOW_BYTES,
    keepaliveMs: KEEPALIVE_MS,
    room: new OwnRoom(8 * MESSAGE_BYTES_MAX),
  });
  return {
    port: server.port,
    useCertificate: (renewed) => server.useCertificate(renewed),
    close: async () => {
      health.shutDown();
      await server.close(0);
    },
  };
}

async function listen(options: GrpcServerOptions): Promise<GrpcServer> {
  try {
    return await openGrpcServer(options);
  } catch (cause) {
    const address = `${options.host.includes(':') ? `[${options.host}]` : options.host}:${options.port}`;
    throw new Error(`cannot listen on ${address} (STATOR_ROUTER_GRPC_PORT): ${reasonOf(cause)}`, { cause });
  }
}

function choose(service: ChooseService, call: GrpcCall, secrets: readonly string[]): void {
  try {
    requireSecret(call, secrets);
  } catch (thrown) {
    // A caller of another fleet decides without this router, instead of failing its request.
    throw classed(thrown, 'BackendProtocol');
  }
  receiveOne(call, (bytes) => {
    const caller: ChooseCaller = {
      get hasLeft() {
        return call.isOver;
      },
      get left() {
        return call.closed;
      },
      traceparent: call.header('traceparent'),
      queued: (position) => call.write(framed(encodeQueuedResponse(position))),
    };
    service.choose(readQuery(bytes), caller).then(
      (chosen) => {
        call.write(framed(encodeDecisionResponse(chosen)));
        call.end();
      },
      (thrown: unknown) => call.end(classed(thrown)),
    );
  });
}

/** Reads a query. A caller with another version decides without this router. */
function readQuery(bytes: Uint8Array): ChooseQuery {
  try {
    return decodeChooseRequest(bytes);
  } catch (thrown) {
    throw classed(thrown, 'BackendProtocol');
  }
}

function explain(service: ChooseService, bytes: Uint8Array): unknown {
  const about = decodeExplainRequest(bytes);
  const found = about.kind === 'request' ? service.explained(about.requestId) : service.explain(about.query);
  if (found === undefined) throw new ServeError('not_found', 'No decision is kept for that id: only the last ones are');
  return found;
}

/** @throws ServeError `invalid_api_key` for callers that send none of `secrets`, if there are any */
function requireSecret(call: GrpcCall, secrets: readonly string[]): void {
  if (secrets.length === 0 || secrets.some((secret) => holdsSecret(call, secret))) return;
  throw new ServeError('invalid_api_key', 'authorization must be Bearer and the value of STATOR_PLANE_TOKEN');
}

/** Adds Stator's own class to a failure. */
function classed(thrown: unknown, kind: WorkerErrorKind = toWire(thrown).kind): GrpcStatus {
  const error = toServeError(thrown);
  return new GrpcStatus(codeRow(error.code).grpc, error.message, {
    [ERROR_KIND_TRAILER]: kind,
    ...(error.param === undefined ? {} : { [ERROR_PARAM_TRAILER]: error.param }),
  });
}
