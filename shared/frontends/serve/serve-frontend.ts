import type { Settings } from '../../config/index.ts';
import { reasonOf } from '../../errors/index.ts';
import type { GrpcTls } from '../../grpc/index.ts';
import type { Logger, ProcessLogger } from '../../telemetry/index.ts';
import { startHttpServer } from '../node/server.ts';
import { readTlsFiles, type TlsPaths, watchTlsFiles } from '../node/tls-files.ts';
import type { Frontend } from '../process/frontend.ts';

export interface FrontendServer {
  /** As clients on this machine reach it. */
  readonly url: string;
  /** What it listens on: `127.0.0.1:8000`, `[::]:8000`. */
  readonly address: string;
  /** What gRPC listens on; undefined where there is none. */
  readonly grpcAddress: string | undefined;
  /** Refuses new requests, lets running answers end within the grace period, closes everything. */
  drain(): Promise<void>;
}

/** What is left of calls that were broken off has this long to leave. */
const LAST_WORDS_MS = 1000;

/** Serves a frontend on its ports. A frontend that cannot listen is closed, and the error names the flag to change. */
export async function serveFrontend(
  frontend: Frontend,
  settings: Settings<'frontend' | 'local'>,
  logger: ProcessLogger,
): Promise<FrontendServer> {
  const log = logger.for('http');
  const { clock, random } = frontend.inference;
  const watch = frontend.metrics.watchEventLoop();
  let grpc: Awaited<ReturnType<typeof openKserveServer>>;
  try {
    const paths = tlsPathsOf(settings);
    const tls = paths === undefined ? undefined : await readTlsFiles(paths);
    grpc = await openKserveServer(frontend, settings, tls && { ...tls, clientCa: tls.ca }, logger.for('grpc'));
    const isKserve = settings.kserveGrpcServer === true;
    await frontend.load();
    const server = await startHttpServer(frontend.app, {
      onLimit: frontend.metrics.limitReached,
      onSockets: frontend.metrics.openSockets,
      host: settings.httpHost,
      port: isKserve ? settings.grpcMetricsPort! : settings.httpPort, // who can be such a server has the port, too
      keepAliveMs: settings.httpKeepAliveSecs * 1000,
      lifecycle: frontend.lifecycle,
      tls,
      clock,
      random,
    });
    if (frontend.isOpenToAll && paths?.clientCa === undefined) {
      const what =
        'whoever reaches this address is served: no API keys are asked for; stator keys create --help says how';
      log.warn(what, { address: server.address });
    }
    const certificate =
      paths === undefined || tls === undefined
        ? undefined
        : watchTlsFiles(paths, tls, {
            clock,
            logger: log,
            onChange: (renewed) => {
              server.useCertificate(renewed);
              grpc?.useCertificate({ ...renewed, clientCa: renewed.ca });
            },
          });
    return {
      url: server.url,
      address: server.address,
      grpcAddress: grpc?.address,
      drain: async () => {
        const graceMs = settings.httpGracefulShutdownTimeoutSecs * 1000;
        // The HTTP server breaks off what is left of all dialects; the last words of gRPC have a moment more to leave.
        const [{ cut }] = await Promise.all([server.close(graceMs), grpc?.close(graceMs + LAST_WORDS_MS)]);
        frontend.drained(cut);
        watch.stop();
        certificate?.stop();
        await frontend.close();
      },
    };
  } catch (error) {
    await grpc?.close(0);
    watch.stop();
    await frontend.close();
    throw error;
  }
}

/** The configuration's own checks have seen to it that both files are given, or neither. */
function tlsPathsOf(settings: Settings<'frontend' | 'local'>): TlsPaths | undefined {
  const { tlsCertPath: cert, tlsKeyPath: key, tlsClientCaCertPath: clientCa } = settings;
  return cert === undefined || key === undefined ? undefined : { cert, key, clientCa };
}

const MEBIBYTE = 1024 * 1024;

/**
 * Serves KServe v2 where the settings ask for it; its code is loaded only then.
 * @throws Error with one line that names the flag to change when the port cannot be bound
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
  return {
    address: `${host.includes(':') ? `[${host}]` : host}:${server.port}`,
    useCertificate: (renewed: GrpcTls) => server.useCertificate(renewed),
    /** Says NOT_SERVING to who watches, takes no new connections, asks clients to go, and cuts what is left after `graceMs`. */
    close: async (graceMs: number) => {
      for (const each of unfollow) each();
      service.shutDown();
      await server.close(graceMs);
    },
  };
}
