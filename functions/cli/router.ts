import { SYSTEM } from '../../shared/clock/index.ts';
import { UsageError } from '../../shared/commands/index.ts';
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

/** Answers under way when the process is told to stop. */
const GRACE_MS = 5000;

/** `stator router`: the standalone router or one of the services beside it until told to stop. */
export async function run({ settings }: ResolvedConfig<'router'>): Promise<number> {
  const stopped = stopSignal();
  const logger = openLogger(settings);
  const telemetry = await openTelemetry(settings, SYSTEM, logger, undefined);
  const { service } = settings;
  try {
    const running =
      service === 'router'
        ? await startRouter(settings, logger, stopped, telemetry)
        : await startService(service, settings, logger);
    logger.info('serving', { service, ...running.facts });
    logger.info('stopping', { reason: await stopped });
    await running.close();
    return 0;
  } finally {
    await telemetry.close();
  }
}

interface Running {
  /** What the log says of it. */
  readonly facts: Readonly<Record<string, string>>;
  close(): Promise<void>;
}

async function startRouter(
  settings: ServiceSettings,
  logger: ProcessLogger,
  stopped: Promise<string>,
  { tracer }: Telemetry,
): Promise<Running> {
  if (settings.routerEndpoint === undefined) {
    throw new UsageError('--endpoint is required by the standalone router: namespace.component.endpoint');
  }
  const stopping = new AbortController();
  void stopped.then((reason) => stopping.abort(new Error(reason)));
  const { instanceId, close } = await startStandaloneRouter(settings, SYSTEM, logger, stopping.signal, tracer);
  return { facts: { endpoint: settings.routerEndpoint, instance_id: instanceId }, close };
}

async function startService(
  name: Exclude<ServiceSettings['service'], 'router'>,
  settings: ServiceSettings,
  logger: ProcessLogger,
): Promise<Running> {
  const service = await START[name](settings, SYSTEM, logger.for('router'));
  try {
    const server = await serveService(service, settings, SYSTEM.clock);
    const close = async (): Promise<void> => {
      await server.close(GRACE_MS);
      await service.close();
    };
    return { facts: { url: server.url }, close };
  } catch (error) {
    await service.close();
    throw error;
  }
}

const START = { indexer: startIndexer, slots: startSlotTracker, selection: startSelectionService } as const;
