import { SYSTEM, systemClock, systemRandom } from '../../shared/clock/index.ts';
import { openPlanner, startedWorkers, UsageError } from '../../shared/commands/index.ts';
import { Lifetime } from '../../shared/concurrency/index.ts';
import { ConfigError, type Environment, type ResolvedConfig } from '../../shared/config/index.ts';
import { reasonOf } from '../../shared/errors/index.ts';
import { openLogger, openTelemetry, type ProcessLogger } from '../../shared/telemetry/index.ts';
import { stopSignal } from '../process.ts';
import { WorkerProcesses } from './local-workers.ts';

/** Runs `stator planner`: plans for a fleet until the process must stop. */
export async function run(config: ResolvedConfig<'planner'>, env: Environment): Promise<number> {
  const stopped = stopSignal();
  const logger = openLogger(config.settings);
  return Lifetime.run(async (lifetime) => {
    await lifetime.use(openTelemetry(config.settings, SYSTEM, logger, undefined));
    return plan(lifetime, config, env, { logger, stopped });
  });
}

interface PlanningProcess {
  readonly logger: ProcessLogger;
  readonly stopped: Promise<string>;
}

async function plan(
  lifetime: Lifetime,
  config: ResolvedConfig<'planner'>,
  env: Environment,
  { logger, stopped }: PlanningProcess,
): Promise<number> {
  const { settings } = config;
  const { plannerConnector: connector, engineArguments } = settings;
  if (connector !== 'local' && engineArguments.length > 0) {
    throw new UsageError('arguments after -- are those of workers, which --planner-connector local starts');
  }
  let workers: WorkerProcesses | undefined;
  const workersOf = (fleet: Parameters<typeof startedWorkers>[1]): WorkerProcesses => {
    const log = logger.for('workers');
    const { argv, env: theirs } = startedWorkers(config, fleet, env, log);
    workers = lifetime.use(new WorkerProcesses({ workers: [argv], env: theirs, logger: log }), (each) => each.stop());
    return workers;
  };
  const tell = (line: string): void => void process.stdout.write(`planner: ${line}\n`);
  const running = await lifetime.use(
    openPlanner({
      settings,
      env,
      logger,
      clock: systemClock,
      random: systemRandom,
      ...(connector === 'local' ? { workersOf } : {}),
      tell,
    }),
  );
  logger.info('planning', running.facts);
  lifetime.defer(() => workers?.retire());
  workers?.start();
  const ended = running.run().then(() => 'end');
  const failed = workers?.failed.then((reason) => Promise.reject(new Error(reason)));
  try {
    const reason = await Promise.race([stopped, ended, ...(failed === undefined ? [] : [failed])]);
    logger.info('stopping', { reason });
    return 0;
  } catch (thrown) {
    throw thrown instanceof Error && thrown.name === 'PlannerRefusal' ? new ConfigError([reasonOf(thrown)]) : thrown;
  }
}
