/**
 * @module stator
 * Embeds the frontend in a program of your own: as a fetch handler, or on a port.
 */
import { SYSTEM } from '../../shared/clock/index.ts';
import { resolveConfig } from '../../shared/config/index.ts';
import { composeFrontend, type Frontend, serveFrontend } from '../../shared/frontends/index.ts';
import { openLogger } from '../../shared/telemetry/index.ts';
import { dumpConfig } from '../process.ts';

export { ServeError } from '../../shared/errors/index.ts';

/**
 * Settings of an embedded frontend.
 *
 * @example
 * const options: FrontendOptions = { flags: ['--http-port', '8080'], env: { ...process.env, DYN_LOG: 'debug' } };
 */
export interface FrontendOptions {
  /** Flags of `stator frontend` (docs/configuration.md), such as `['--router-mode', 'kv']`. @default none */
  readonly flags?: readonly string[];
  /** Variables; flags win. @default process.env */
  readonly env?: Readonly<Record<string, string | undefined>>;
}

/**
 * A frontend inside a program.
 *
 * @example
 * const frontend: EmbeddedFrontend = await createFrontend();
 * const { url } = await frontend.listen();
 * console.log(`serving ${frontend.models().join(', ')} at ${url}`);
 * process.once('SIGTERM', () => frontend.close());
 */
export interface EmbeddedFrontend {
  /** Answers one request, streaming; aborting the request's signal cancels the work at the worker. */
  fetch(request: Request): Promise<Response>;
  /** Serves on `--http-host` and `--http-port`. Rejects if the port cannot be bound. */
  listen(): Promise<{ readonly url: string }>;
  /** Names of the models that clients can use now. */
  models(): readonly string[];
  /** Refuses new requests, lets answers end within the grace period, closes everything. Idempotent. */
  close(): Promise<void>;
}

/**
 * Creates a frontend with the settings of `stator frontend`. Rejects with one line if discovery cannot be read.
 *
 * @example
 * const frontend = await createFrontend({ flags: ['--router-mode', 'kv'] });
 * export default { fetch: frontend.fetch };
 */
export async function createFrontend({
  flags = [],
  env = process.env,
}: FrontendOptions = {}): Promise<EmbeddedFrontend> {
  const config = resolveConfig('frontend', flags, env);
  const { settings } = config;
  const logger = openLogger(settings);
  for (const warning of config.warnings) logger.for('config').warn(warning);
  await dumpConfig(config);
  const frontend = await composeFrontend(settings, { ...SYSTEM, logger });
  let server: ReturnType<typeof serveFrontend> | undefined;
  let closed: Promise<void> | undefined;
  return {
    fetch: async (request) => frontend.app.fetch(request),
    listen: async () => {
      server ??= serveFrontend(frontend, settings, logger);
      const { url } = await server;
      return { url };
    },
    models: () => frontend.models.list().flatMap((model) => (model.readiness.isReady ? [model.name] : [])),
    close: () => {
      const graceMs = settings.httpGracefulShutdownTimeoutSecs * 1000;
      closed ??= server === undefined ? drain(frontend, graceMs) : server.then((running) => running.drain());
      return closed;
    },
  };
}

/**
 * Drains without a server of its own: the program that serves `fetch` has the connections, and sends the last bytes.
 */
async function drain({ lifecycle, drained, close }: Frontend, graceMs: number): Promise<void> {
  lifecycle.drain();
  await lifecycle.idle(SYSTEM.clock, graceMs);
  drained(lifecycle.cut());
  await close();
}
