import {
  experimental,
  Metadata,
  type MethodDefinition,
  Server,
  ServerCredentials,
  type ServerUnaryCall,
  type ServerWritableStream,
  type ServiceDefinition,
  type ServiceError,
  type sendUnaryData,
} from '@grpc/grpc-js';
import { holdsSecret } from '../../access/index.ts';
import { grpcStatusOf, ServeError, toServeError, toWire, type WorkerErrorKind } from '../../errors/index.ts';
import type { PlaneServerTls } from '../../planes/request/index.ts';
import { explanationRecord } from '../scheduler/explanation-record.ts';
import type { ChooseQuery, ChooseService } from '../service/index.ts';
import {
  decodeChooseRequest,
  decodeExplainRequest,
  decodeHealthCheckRequest,
  decodeReleaseRequest,
  ERROR_KIND_TRAILER,
  encodeDecisionResponse,
  encodeExplainResponse,
  encodeHealthCheckResponse,
  encodeLoadsResponse,
  encodeQueuedResponse,
  HEALTH,
  MESSAGE_BYTES_MAX,
  ROUTER,
} from './codec.ts';

export interface RouterGrpcOptions {
  readonly service: ChooseService;
  readonly host: string;
  /** 0 = any free one. */
  readonly port: number;
  /** What callers show as `authorization: Bearer`; the health check is for anybody. @default nothing is asked for */
  readonly secret?: string | undefined;
  /** @default it speaks plainly */
  readonly tls?: PlaneServerTls | undefined;
  /** Whether this process answers `Choose`, for health checks of the router by name. */
  isLeader(): boolean;
}

/** The router's gRPC server. */
export interface RouterGrpcServer {
  readonly port: number;
  /** For new connections, where there was a certificate from the start. */
  useCertificate(tls: PlaneServerTls): void;
  /** Calls under way are cut. */
  close(): Promise<void>;
}

/** Messages are encoded and decoded by the handlers, so that a message that makes no sense is their error to tell. */
function method(path: string, isStream: boolean): MethodDefinition<Buffer, Uint8Array> {
  return {
    path,
    requestStream: false,
    responseStream: isStream,
    requestSerialize: (bytes) => bytes,
    requestDeserialize: (bytes) => bytes,
    responseSerialize: (bytes) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength),
    responseDeserialize: (bytes) => bytes,
  };
}

const ROUTER_METHODS: ServiceDefinition = {
  Choose: method(`/${ROUTER}/Choose`, true),
  Release: method(`/${ROUTER}/Release`, false),
  Loads: method(`/${ROUTER}/Loads`, false),
  Explain: method(`/${ROUTER}/Explain`, false),
};
const HEALTH_METHODS: ServiceDefinition = { Check: method(`/${HEALTH}/Check`, false) };

type Unary = (call: ServerUnaryCall<Buffer, Uint8Array>, answer: sendUnaryData<Uint8Array>) => void;

/**
 * Serves proto/router.proto and the standard health check.
 * @throws Error with one line that names the setting to change when the port cannot be bound
 */
export async function serveRouterGrpc(options: RouterGrpcOptions): Promise<RouterGrpcServer> {
  const { service, host, port, secret, tls } = options;
  const guarded = (answer: (request: Uint8Array) => Uint8Array): Unary =>
    unary((bytes, metadata) => {
      requireSecret(metadata, secret);
      return answer(bytes);
    });
  const server = new Server({
    'grpc.max_receive_message_length': MESSAGE_BYTES_MAX,
    'grpc.max_send_message_length': MESSAGE_BYTES_MAX,
    'grpc.enable_channelz': 0, // nobody reads its books, which are kept for each call and message
  });
  server.addService(ROUTER_METHODS, {
    Choose: (call: ServerWritableStream<Buffer, Uint8Array>) => choose(service, call, secret),
    Release: guarded((bytes) => {
      service.release(decodeReleaseRequest(bytes));
      return new Uint8Array(0);
    }),
    Loads: guarded(() => encodeLoadsResponse(service.loads())),
    Explain: guarded((bytes) => encodeExplainResponse(explain(service, bytes))),
  });
  server.addService(HEALTH_METHODS, { Check: unary((bytes) => encodeHealthCheckResponse(isServing(options, bytes))) });
  const certificate = tls && new Certificate(tls);
  const bound = await listen(server, host, port, certificate);
  return {
    port: bound,
    useCertificate: (renewed) => certificate?.renew(renewed),
    close: async () => {
      server.drain(addressOf(host, bound), 0); // forceShutdown cuts the calls of channelz's books alone
      server.forceShutdown();
    },
  };
}

function listen(server: Server, host: string, port: number, certificate: Certificate | undefined): Promise<number> {
  const security = certificate?.credentials ?? ServerCredentials.createInsecure();
  const address = addressOf(host, port);
  return new Promise((resolve, reject) => {
    server.bindAsync(address, security, (error, bound) => {
      if (error === null) resolve(bound);
      else reject(new Error(`cannot listen on ${address} (STATOR_ROUTER_GRPC_PORT): ${error.message}`));
    });
  });
}

type Listener = experimental.IdentityCertificateUpdateListener;
type CaListener = experimental.CaCertificateUpdateListener;

/** The certificate of a server, and the authority of its callers' where they must show one, as the library asks for them. */
class Certificate implements experimental.CertificateProvider {
  readonly credentials: ServerCredentials;
  readonly #listeners = new Set<Listener>();
  readonly #caListeners = new Set<CaListener>();
  #tls: PlaneServerTls;

  constructor(tls: PlaneServerTls) {
    this.#tls = tls;
    const callers = tls.clientCa === undefined ? null : this;
    this.credentials = experimental.createCertificateProviderServerCredentials(this, callers, callers !== null);
  }

  renew(tls: PlaneServerTls): void {
    this.#tls = tls;
    for (const listener of this.#listeners) this.#tell(listener);
    for (const listener of this.#caListeners) this.#tellCa(listener);
  }

  addIdentityCertificateListener(listener: Listener): void {
    this.#listeners.add(listener);
    queueMicrotask(() => this.#tell(listener)); // the library hears nothing before it has finished asking
  }

  removeIdentityCertificateListener(listener: Listener): void {
    this.#listeners.delete(listener);
  }

  addCaCertificateListener(listener: CaListener): void {
    this.#caListeners.add(listener);
    queueMicrotask(() => this.#tellCa(listener));
  }

  removeCaCertificateListener(listener: CaListener): void {
    this.#caListeners.delete(listener);
  }

  #tell(listener: Listener): void {
    listener({ certificate: Buffer.from(this.#tls.cert), privateKey: Buffer.from(this.#tls.key) });
  }

  #tellCa(listener: CaListener): void {
    const { clientCa } = this.#tls;
    if (clientCa !== undefined) listener({ caCertificate: Buffer.from(clientCa) });
  }
}

function addressOf(host: string, port: number): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}

function choose(
  service: ChooseService,
  call: ServerWritableStream<Buffer, Uint8Array>,
  secret: string | undefined,
): void {
  let query: ChooseQuery;
  try {
    requireSecret(call.metadata, secret);
    query = decodeChooseRequest(call.request);
  } catch (thrown) {
    // Whoever is of another version, or of another fleet, decides without this router, rather than fail its client's request.
    call.emit('error', statusOf(thrown, 'BackendProtocol'));
    return;
  }
  try {
    const leave = service.choose(query, {
      queued: (position) => void call.write(encodeQueuedResponse(position)),
      decided: (chosen) => {
        call.write(encodeDecisionResponse(chosen));
        call.end();
      },
      failed: (error) => void call.emit('error', statusOf(error)),
    });
    call.on('cancelled', leave);
  } catch (thrown) {
    call.emit('error', statusOf(thrown));
  }
}

function explain(service: ChooseService, bytes: Uint8Array): unknown {
  const about = decodeExplainRequest(bytes);
  const found = about.kind === 'request' ? service.explained(about.requestId) : service.explain(about.query);
  if (found === undefined) throw new ServeError('not_found', 'No decision is kept for that id: only the last ones are');
  return explanationRecord(found);
}

function isServing({ isLeader }: RouterGrpcOptions, bytes: Uint8Array): boolean {
  const name = decodeHealthCheckRequest(bytes);
  if (name === '' || name === HEALTH) return true;
  if (name === ROUTER) return isLeader();
  throw new ServeError('not_found', `service ${name} is unknown`);
}

/** @throws ServeError `invalid_api_key` for callers that do not show `secret` */
function requireSecret(metadata: Metadata, secret: string | undefined): void {
  const header = (name: string): string | undefined => metadata.get(name)[0]?.toString();
  if (secret === undefined || holdsSecret({ header }, secret)) return;
  throw new ServeError('invalid_api_key', 'authorization must be Bearer and the value of STATOR_PLANE_TOKEN');
}

function unary(answer: (request: Uint8Array, metadata: Metadata) => Uint8Array): Unary {
  return (call, callback) => {
    try {
      callback(null, answer(call.request, call.metadata));
    } catch (thrown) {
      callback(statusOf(thrown));
    }
  };
}

function statusOf(thrown: unknown, kind: WorkerErrorKind = toWire(thrown).kind): ServiceError {
  const error = toServeError(thrown);
  const metadata = new Metadata();
  metadata.set(ERROR_KIND_TRAILER, kind);
  const status = { code: grpcStatusOf(error.code), details: error.message, metadata };
  return Object.assign(new Error(error.message), status);
}
