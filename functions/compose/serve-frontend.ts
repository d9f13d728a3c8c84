import type { Settings } from '../../shared/config/index.ts';
import type { ProcessLogger } from '../../shared/telemetry/index.ts';
import { startHttpServer } from '../http/server.ts';
import type { Frontend } from './frontend.ts';

type ServerSettings = Pick<Settings<'frontend'>, 'httpHost' | 'httpPort' | 'httpGracefulShutdownTimeoutSecs'>;

export interface FrontendServer {
  /** As clients on this machine reach it. */
  readonly url: string;
  /** Refuses new requests, lets running answers end within the grace period, closes everything. */
  drain(): Promise<void>;
}

/** Serves a frontend on its port. A frontend that cannot listen is closed, and the error names the flag to change. */
export async function serveFrontend(
  frontend: Frontend,
  settings: ServerSettings,
  logger: ProcessLogger,
): Promise<FrontendServer> {
  const log = logger.for('http');
  const watch = frontend.metrics.watchEventLoop();
  try {
    const server = await startHttpServer(frontend.app, {
      host: settings.httpHost,
      port: settings.httpPort,
      lifecycle: frontend.lifecycle,
      logger: log,
    });
    return {
      url: server.url.replace('//0.0.0.0:', '//127.0.0.1:'),
      drain: async () => {
        const { cut } = await server.close(settings.httpGracefulShutdownTimeoutSecs * 1000);
        if (cut > 0) log.warn('answers were cut by the shutdown', { cut });
        watch.stop();
        await frontend.close();
      },
    };
  } catch (error) {
    watch.stop();
    await frontend.close();
    throw error;
  }
}
