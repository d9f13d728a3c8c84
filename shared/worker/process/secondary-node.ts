import type { Clock } from '../../clock/index.ts';
import { Lifetime } from '../../concurrency/index.ts';
import { ConfigError, type ResolvedConfig } from '../../config/index.ts';
import { engineKind } from '../../engines/index.ts';
import { reasonOf } from '../../errors/index.ts';
import { createWorkerMetrics, type ProcessLogger } from '../../telemetry/index.ts';
import { EndpointHealth } from '../control/endpoint-health.ts';
import type { WorkerAddress } from '../options.ts';
import { openStatusServer } from './open-parts.ts';

/** Name that the status server shows in place of endpoints. */
const ENGINE = 'engine';

/**
 * Starts a secondary node of an engine that spans machines (`--headless`). The engine runs, but no other process knows
 * this one. The node ends with its engine.
 *
 * @throws ConfigError for settings that a secondary node cannot have
 */
export async function startSecondaryNode(
  config: ResolvedConfig<'worker'>,
  address: WorkerAddress,
  clock: Clock,
  logger: ProcessLogger,
) {
  const { settings } = config;
  const kind = await engineKind(settings);
  const startSecondary = kind.startSecondary?.bind(kind);
  if (startSecondary === undefined) {
    throw new ConfigError([`--headless needs --engine vllm or sglang: ${settings.engine} has no such nodes`]);
  }
  if (settings.engineUrl !== undefined) throw new ConfigError(['--headless starts an engine: leave --engine-url out']);
  return Lifetime.compose(async (lifetime) => {
    const health = new EndpointHealth(clock, [ENGINE]);
    const metrics = createWorkerMetrics({ clock, ...address, model: '' });
    await lifetime.use(openStatusServer(settings, logger, { health, metrics }));
    const log = logger.for('engine');
    const starting = startSecondary(config, { clock, logger: log });
    const node = await lifetime.use(starting, (started) => started.stop());
    health.set(ENGINE, 'ready');
    lifetime.defer(() => {
      health.setAtRest(true);
      health.set(ENGINE, 'notready');
    });
    const engineExit = node.exit.then((reason) => {
      health.set(ENGINE, 'notready');
      log.error('the engine has ended', { reason: reasonOf(reason) });
      return reason;
    });
    const drainOrdered = new Promise<string>(() => {}); // it has no lease: its first node gets the order
    return { workers: [], engineExit, drainOrdered, drain: () => lifetime.close() };
  });
}
