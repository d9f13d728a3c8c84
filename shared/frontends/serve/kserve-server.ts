import type { Settings } from '../../config/index.ts';
import { reasonOf } from '../../errors/index.ts';
import type { GrpcTls } from '../../grpc/index.ts';
import type { Logger } from '../../telemetry/index.ts';
import type { Frontend } from '../process/index.ts';

/** A gRPC server over the frontend's pipeline. */
export interface KserveServer {
  /** What it listens on: `0.0.0.0:8001`. */
  readonly address: string;
  useCertificate(tls: GrpcTls): void;
  /**
   * Says NOT_SERVING to who watches, takes no new connections, asks clients to go, and cuts what is left after `graceMs`.
   */
  close(graceMs: number): Promise<void>;
}

const MEBIBYTE = 1024 * 1024;

/**
 * Serves KServe v2 where the settings ask for it; its code is loaded only then.
 * @throws Error with one line that names the flag to change when the port cannot be bound
 */
export async function openKserveServer(
  frontend: Frontend,
  settings: Settings<'frontend' | 'local'>,
  tls: GrpcTls | undefined,
  logger: Logger,
): Promise<KserveServer | undefined> {
  const isAlone = settings.kserveGrpcServer === true;
  const port = isAlone ? settings.httpPort : settings.grpcPort;
  if (port === undefined) return undefined;
  const [{ openGrpcServer }, { createKserveService }, { default: product }] = await Promise.all([
    import('../../grpc/index.ts'),
    import('../grpc/index.ts'),
    import('../../../package.json', { with: { type: 'json' } }),
  ]);
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
    concurrentStreamsMax: settings.grpcMaxConcurrentStreams,
    streamWindowBytes: settings.grpcInitialStreamWindowSize,
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
    useCertificate: (renewed) => server.useCertificate(renewed),
    close: async (graceMs) => {
      for (const each of unfollow) each();
      service.shutDown();
      await server.close(graceMs);
    },
  };
}
