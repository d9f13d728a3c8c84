import { Lifetime } from '../../concurrency/index.ts';
import type { Settings } from '../../config/index.ts';
import { reasonOf } from '../../errors/index.ts';
import type { GrpcTls } from '../../grpc/index.ts';
import type { Logger, ProcessLogger } from '../../telemetry/index.ts';
import { startHttpServer } from '../node/server.ts';
import { readTlsFiles, type TlsMaterial, type TlsPaths, watchTlsFiles } from '../node/tls-files.ts';
import type { PickerServer } from '../picker/serve-picker.ts';
import type { Frontend } from '../process/frontend.ts';

export interface FrontendServer {
  /** URL at which clients on this machine reach the server. */
  readonly url: string;
  /** Address that the server listens on: `127.0.0.1:8000`, `[::]:8000`. */
  readonly address: string;
  /** Address that gRPC listens on; undefined if gRPC is off. */
  readonly grpcAddress: string | undefined;
  /** Address at which gateways ask for endpoints; undefined if no gateway may. */
  readonly pickerAddress: string | undefined;
  /** Refuses new requests, lets running answers end within the grace period, and closes everything. */
  drain(): Promise<void>;
}

/** How long the last bytes of broken-off calls have to leave, in milliseconds. */
const LAST_WORDS_MS = 1000;

/**
 * Serves a frontend on its ports. If it cannot listen, closes the frontend and rejects with an error that names the
 * flag.
 */
export function serveFrontend(
  frontend: Frontend,
  settings: Settings<'frontend' | 'local'>,
  logger: ProcessLogger,
): Promise<FrontendServer> {
  return Lifetime.compose((lifetime) => serve(frontend, settings, logger, lifetime));
}

async function serve(
  frontend: Frontend,
  settings: Settings<'frontend' | 'local'>,
  logger: ProcessLogger,
  lifetime: Lifetime,
): Promise<FrontendServer> {
  lifetime.use(frontend);
  const log = logger.for('http');
  const { clock, random } = frontend.inference;
  lifetime.use(frontend.metrics.watchEventLoop(), (watch) => watch.stop());
  const paths = tlsPathsOf(settings);
  const tls = paths === undefined ? undefined : await readTlsFiles(paths);
  const opening = openKserveServer(frontend, settings, tls && { ...tls, clientCa: tls.ca }, logger.for('grpc'));
  const grpc = await lifetime.use(opening, (opened) => opened.close(0));
  const isKserve = settings.kserveGrpcServer === true;
  const picker = await lifetime.use(openPicker(frontend, settings, tls, logger.for('picker')), (opened) =>
    opened.close(0),
  );
  await frontend.load();
  const starting = startHttpServer(frontend.app, {
    onLimit: frontend.metrics.limitReached,
    onSockets: frontend.metrics.openSockets,
    host: settings.httpHost,
    // A frontend with a KServe server always has the other port, too.
    port: isKserve ? settings.grpcMetricsPort! : settings.httpPort,
    keepAliveMs: settings.httpKeepAliveSecs * 1000,
    lifecycle: frontend.lifecycle,
    tls,
    clock,
    random,
  });
  const server = await lifetime.use(starting, (started) => started.close(0));
  if (frontend.isOpenToAll && paths?.clientCa === undefined) {
    const what =
      'every client that reaches this address is served: no API keys are required; see stator keys create --help';
    log.warn(what, { address: server.address });
  }
  if (paths !== undefined && tls !== undefined) {
    const onChange = (renewed: TlsMaterial): void => {
      server.useCertificate(renewed);
      grpc?.useCertificate({ ...renewed, clientCa: renewed.ca });
      picker?.useCertificate({ ...renewed, clientCa: renewed.ca });
    };
    lifetime.use(watchTlsFiles(paths, tls, { clock, logger: log, onChange }), (watch) => watch.stop());
  }
  return {
    url: server.url,
    address: server.address,
    grpcAddress: grpc?.address,
    pickerAddress: picker?.address,
    drain: async () => {
      const graceMs = settings.httpGracefulShutdownTimeoutSecs * 1000;
      // The HTTP server breaks off the remaining calls of all dialects; the last bytes of gRPC have a moment longer.
      const lastMs = graceMs + LAST_WORDS_MS;
      const [{ cut }] = await Promise.all([server.close(graceMs), grpc?.close(lastMs), picker?.close(lastMs)]);
      frontend.drained(cut);
      await lifetime.close();
    },
  };
}

/** Returns the paths of the certificate files. The checks of the configuration ensure that both or neither are set. */
function tlsPathsOf(settings: Settings<'frontend' | 'local'>): TlsPaths | undefined {
  const { tlsCertPath: cert, tlsKeyPath: key, tlsClientCaCertPath: clientCa } = settings;
  return cert === undefined || key === undefined ? undefined : { cert, key, clientCa };
}

/** Serves gateways that ask for endpoints, if the settings ask for it, and loads its code only then. */
async function openPicker(
  frontend: Frontend,
  settings: Settings<'frontend' | 'local'>,
  tls: TlsMaterial | undefined,
  logger: Logger,
): Promise<PickerServer | undefined> {
  const { endpointPickerPort: port } = settings;
  if (port === undefined) return undefined;
  const { servePicker } = await import('../picker/serve-picker.ts');
  return servePicker(frontend, settings, port, tls && { ...tls, clientCa: tls.ca }, logger);
}

const MEBIBYTE = 1024 * 1024;

/**
 * Serves KServe v2 if the settings ask for it, and loads its code only then.
 * @throws Error with one line that names the flag to change if the port cannot be bound
 */
async function openKserveServer(
  frontend: Frontend,
  settings: Settings<'frontend' | 'local'>,
  tls: GrpcTls | undefined,
  logger: Logger,
) {
  const isAlone = settings.kserveGrpcServer === true;
  const port = isAlone ? settings.httpPort : settings.grpcPort;
  if (port === undefined) return undefined;
  const { FIRST_WINDOW_BYTES, openGrpcServer } = await import('../../grpc/index.ts');
  const { createKserveService } = await import('../grpc/service.ts');
  const { messageRoom } = await import('../grpc/message-room.ts');
  const { default: product } = await import('../../../package.json', { with: { type: 'json' } });
  const host = settings.httpHost ?? '0.0.0.0';
  const { clock, random } = frontend.inference;
  const service = createKserveService({ ...frontend.inference, logger, version: product.version });
  const opening = openGrpcServer({
    host,
    port,
    methods: service.methods,
    clock,
    random,
    tls,
    messageBytesMax: settings.grpcMaxMessageMb * MEBIBYTE,
    room: messageRoom(frontend.bodies, frontend.metrics.limitReached),
    connectionsMax: settings.grpcMaxConnections,
    onLimit: frontend.metrics.limitReached,
    concurrentStreamsMax: settings.grpcMaxConcurrentStreams,
    streamWindowBytes: settings.grpcInitialStreamWindowSize,
    firstWindowBytes: frontend.inference.gate === undefined ? undefined : FIRST_WINDOW_BYTES,
    connectionWindowBytes: settings.grpcInitialConnectionWindowSize,
    keepaliveMs: settings.grpcKeepaliveTimeMs,
    keepaliveTimeoutMs: settings.grpcKeepaliveTimeoutMs,
    connectionAgeMsMax: settings.grpcMaxConnectionAgeMs,
  });
  const server = await opening.catch((cause: unknown) => {
    const flag = isAlone ? '--http-port' : '--grpc-port';
    throw new Error(`cannot serve gRPC on ${host}:${port} (${flag}): ${reasonOf(cause)}`, { cause });
  });
  const changed = (): void => service.health.changed();
  const unfollow = [frontend.models.follow(changed), frontend.lifecycle.follow(changed)];
  const end = async (graceMs: number): Promise<void> => {
    for (const each of unfollow) each();
    service.shutDown();
    await server.close(graceMs);
  };
  let closed: Promise<void> | undefined;
  return {
    address: `${host.includes(':') ? `[${host}]` : host}:${server.port}`,
    useCertificate: (renewed: GrpcTls) => server.useCertificate(renewed),
    /**
     * Reports NOT_SERVING to watching clients, accepts no new connections, asks clients to leave, and cuts the
     * remaining calls after `graceMs`. Later calls change nothing.
     */
    close: (graceMs: number): Promise<void> => {
      closed ??= end(graceMs);
      return closed;
    },
  };
}
