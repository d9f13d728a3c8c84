import { systemClock } from '../../clock/index.ts';
import type { Settings } from '../../config/index.ts';
import type { ProcessLogger } from '../../telemetry/index.ts';
import { startHttpServer } from '../node/server.ts';
import { readTlsFiles, type TlsPaths, watchTlsFiles } from '../node/tls-files.ts';
import type { Frontend } from './frontend.ts';

export interface FrontendServer {
  /** As clients on this machine reach it. */
  readonly url: string;
  /** What it listens on: `127.0.0.1:8000`, `[::]:8000`. */
  readonly address: string;
  /** Refuses new requests, lets running answers end within the grace period, closes everything. */
  drain(): Promise<void>;
}

/** Serves a frontend on its port. A frontend that cannot listen is closed, and the error names the flag to change. */
export async function serveFrontend(
  frontend: Frontend,
  settings: Settings<'frontend' | 'local'>,
  logger: ProcessLogger,
): Promise<FrontendServer> {
  const log = logger.for('http');
  const watch = frontend.metrics.watchEventLoop();
  try {
    const paths = tlsPathsOf(settings);
    const tls = paths === undefined ? undefined : await readTlsFiles(paths);
    const server = await startHttpServer(frontend.app, {
      onLimit: frontend.metrics.limitReached,
      host: settings.httpHost,
      port: settings.httpPort,
      lifecycle: frontend.lifecycle,
      logger: log,
      tls,
    });
    if (frontend.isOpenToAll && paths?.clientCa === undefined) {
      const what =
        'whoever reaches this address is served: no API keys are asked for; stator keys create --help says how';
      log.warn(what, { address: server.address });
    }
    const certificate =
      paths === undefined || tls === undefined
        ? undefined
        : watchTlsFiles(paths, tls, { clock: systemClock, logger: log, onChange: server.useCertificate });
    return {
      url: server.url,
      address: server.address,
      drain: async () => {
        const { cut } = await server.close(settings.httpGracefulShutdownTimeoutSecs * 1000);
        frontend.drained(cut);
        watch.stop();
        certificate?.stop();
        await frontend.close();
      },
    };
  } catch (error) {
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
