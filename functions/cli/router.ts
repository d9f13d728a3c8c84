import { SYSTEM } from '../../shared/clock/index.ts';
import { UsageError } from '../../shared/commands/index.ts';
import { Lifetime } from '../../shared/concurrency/index.ts';
import type { ResolvedConfig } from '../../shared/config/index.ts';
import {
  type ServiceSettings,
  serveService,
  startIndexer,
  startSelectionService,
  startSlotTracker,
  startStandaloneRouter,
} from '../../shared/standalone/index.ts';
import { openLogger, openTelemetry, type ProcessLogger, type Telemetry } from '../../shared/telemetry/index.ts';
import { stopSignal } from '../process.ts';

/** How long answers under way may take after a signal to stop, in milliseconds. */
const GRACE_MS = 5000;

/** Runs `stator router`: the standalone router, or one of the services beside it, until a signal stops it. */
export async function run({ settings }: ResolvedConfig<'router'>): Promise<number> {
  const stopped = stopSignal();
  const logger = openLogger(settings);
  const { service } = settings;
  await Lifetime.run(async (lifetime) => {
    const telemetry = await lifetime.use(openTelemetry(settings, SYSTEM, logger, undefined));
    const facts =
      service === 'router'
        ? await startRouter(settings, { logger, stopped, telemetry, lifetime })
        : await startService(service, settings, logger, lifetime);
    logger.info('serving', { service, ...facts });
    logger.info('stopping', { reason: await stopped });
  });
  return 0;
}

/** Facts about the running service, for the log. */
type Facts = Readonly<Record<string, string>>;

interface RouterDeps {
  readonly logger: ProcessLogger;
  readonly stopped: Promise<string>;
  readonly telemetry: Telemetry;
  readonly lifetime: Lifetime;
}

async function startRouter(
  settings: ServiceSettings,
  { logger, stopped, telemetry, lifetime }: RouterDeps,
): Promise<Facts> {
  if (settings.routerEndpoint === undefined) {
    throw new UsageError('--endpoint is required by the standalone router: namespace.component.endpoint');
  }
  const stopping = new AbortController();
  void stopped.then((reason) => stopping.abort(new Error(reason)));
  const starting = startStandaloneRouter(settings, SYSTEM, logger, stopping.signal, telemetry.tracer);
  const { instanceId } = await lifetime.use(starting);
  return { endpoint: settings.routerEndpoint, instance_id: instanceId };
}

async function startService(
  name: Exclude<ServiceSettings['service'], 'router'>,
  settings: ServiceSettings,
  logger: ProcessLogger,
  lifetime: Lifetime,
): Promise<Facts> {
  const service = await lifetime.use(START[name](settings, SYSTEM, logger.for('router')));
  const server = await lifetime.use(serveService(service, settings, SYSTEM.clock), (serving) =>
    serving.close(GRACE_MS),
  );
  return { url: server.url };
}

const START = { indexer: startIndexer, slots: startSlotTracker, selection: startSelectionService } as const;
