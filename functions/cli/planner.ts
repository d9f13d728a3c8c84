import { SYSTEM, systemClock, systemRandom } from '../../shared/clock/index.ts';
import { openPlanner, startedWorkers, UsageError } from '../../shared/commands/index.ts';
import { ConfigError, type Environment, type ResolvedConfig } from '../../shared/config/index.ts';
import { reasonOf } from '../../shared/errors/index.ts';
import { openLogger, openTelemetry, type ProcessLogger } from '../../shared/telemetry/index.ts';
import { stopSignal } from '../process.ts';
import { WorkerProcesses } from './local-workers.ts';

/** `stator planner`: plans for a fleet until told to stop. */
export async function run(config: ResolvedConfig<'planner'>, env: Environment): Promise<number> {
  const stopped = stopSignal();
  const logger = openLogger(config.settings);
  const telemetry = await openTelemetry(config.settings, SYSTEM, logger, undefined);
  try {
    return await plan(config, env, { logger, stopped });
  } finally {
    await telemetry.close();
  }
}

interface PlanningProcess {
  readonly logger: ProcessLogger;
  readonly stopped: Promise<string>;
}

async function plan(
  config: ResolvedConfig<'planner'>,
  env: Environment,
  { logger, stopped }: PlanningProcess,
): Promise<number> {
  const { settings } = config;
  const { plannerConnector: connector, engineArguments } = settings;
  if (connector === 'virtual' && engineArguments.length > 0) {
    throw new UsageError('arguments after -- are those of workers, which --planner-connector local starts');
  }
  let workers: WorkerProcesses | undefined;
  const workersOf = (fleet: Parameters<typeof startedWorkers>[1]): WorkerProcesses => {
    const log = logger.for('workers');
    const { argv, env: theirs } = startedWorkers(config, fleet, env, log);
    workers = new WorkerProcesses({ workers: [argv], env: theirs, logger: log });
    return workers;
  };
  const tell = (line: string): void => void process.stdout.write(`planner: ${line}\n`);
  const running = await openPlanner({
    settings,
    env,
    logger,
    clock: systemClock,
    random: systemRandom,
    ...(connector === 'local' ? { workersOf } : {}),
    tell,
  });
  logger.info('planning', running.facts);
  workers?.start();
  try {
    const ended = running.run().then(() => 'end');
    const failed = workers?.failed.then((reason) => Promise.reject(new Error(reason)));
    const reason = await Promise.race([stopped, ended, ...(failed === undefined ? [] : [failed])]);
    logger.info('stopping', { reason });
    return 0;
  } catch (thrown) {
    throw thrown instanceof Error && thrown.name === 'PlannerRefusal' ? new ConfigError([reasonOf(thrown)]) : thrown;
  } finally {
    workers?.retire();
    await running.close();
    await workers?.stop();
  }
}
