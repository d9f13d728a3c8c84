import type { Settings } from '../../config/index.ts';
import { isLoopback, refuseOpenListener } from '../../planes/request/index.ts';
import type { ProcessLogger } from '../../telemetry/index.ts';
import {
  type ControlServerOptions,
  type SmallServer,
  type StatusServerOptions,
  startControlServer,
  startStatusServer,
} from '../index.ts';

/** The status server that the settings ask for; undefined = none. */
export async function openStatusServer(
  settings: Settings<'worker'>,
  logger: ProcessLogger,
  shown: Pick<StatusServerOptions, 'health' | 'metrics' | 'model'>,
): Promise<SmallServer | undefined> {
  if (settings.systemPort === undefined || settings.systemPort < 0) return undefined;
  const log = logger.for('status');
  const server = await startStatusServer({
    ...shown,
    logger: log,
    port: settings.systemPort,
    host: settings.systemHost,
    healthPath: settings.systemHealthPath,
    livePath: settings.systemLivePath,
  });
  log.info('status server is up', { port: server.port });
  return server;
}

/**
 * The server of the worker's controls that the settings ask for; undefined = none.
 * @throws Error with one line when anybody would reach it
 */
export async function openControlServer(
  { controlPort: port, controlHost: host, planeToken, planeOpen }: Settings<'worker'>,
  logger: ProcessLogger,
  control: ControlServerOptions['control'],
): Promise<SmallServer | undefined> {
  if (port === undefined || port < 0) return undefined;
  const refusal = refuseOpenListener({
    name: 'the control server',
    address: host,
    protectedBy: planeToken === undefined ? undefined : 'token',
    open: planeOpen,
    remedies: ['set STATOR_PLANE_TOKEN', 'set STATOR_CONTROL_HOST=127.0.0.1'],
  });
  if (refusal !== undefined) throw new Error(refusal);
  const log = logger.for('control');
  const admission = { secret: planeToken, isOpen: planeOpen && !isLoopback(host) };
  const server = await startControlServer({ control, admission, logger: log, port, host });
  log.info('control server is up', { port: server.port });
  return server;
}
