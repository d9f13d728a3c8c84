import { type Clock, systemClock } from '../../clock/index.ts';
import type { ResolvedConfig } from '../../config/index.ts';
import { type RunReport, reportRun } from '../report/run-report.ts';
import { meanReport } from '../report/seeds.ts';
import { type SimulationOptions, simulatePlanned } from '../simulate.ts';
import { FleetSource } from './ec2.ts';
import { describeRun, type simulatedFleet, simulationOptions, WorkloadSource } from './options.ts';
import { scalingOf } from './scaling.ts';

type Config = ResolvedConfig<'simulate'>;
type SimulatedFleet = Awaited<ReturnType<typeof simulatedFleet>>;

/** Files that all runs of a sweep share, read once whatever their seeds, and the clock of their wall time. */
export class RunSources {
  readonly workloads = new WorkloadSource();
  readonly fleets = new FleetSource();
  readonly clock: Clock;

  constructor(clock: Clock = systemClock) {
    this.clock = clock;
  }
}

/** Returns the configuration of each seed: the given one, and those that follow it. */
export function seedConfigs(config: Config): readonly Config[] {
  const { settings } = config;
  return Array.from({ length: settings.seeds }, (_, at) => {
    const routerSeed = settings.routerSeed === undefined ? undefined : settings.routerSeed + at;
    return { ...config, settings: { ...settings, seed: settings.seed + at, routerSeed } };
  });
}

/** Returns the options of one simulation. @throws ConfigError for settings that cannot be used together */
export async function runOptions(
  config: Config,
  fleet: SimulatedFleet,
  { workloads, fleets }: RunSources,
): Promise<SimulationOptions> {
  const { blockSizeTokens: blockSize } = fleet.engine;
  const workload = await workloads.open({ ...config.settings, blockSize });
  const options = await simulationOptions(config, workload, fleet);
  return { ...options, scaling: await scalingOf(config, workload, fleet, fleets) };
}

/**
 * Runs one simulation for each seed, and reports the means.
 * @param swept values of the sweep that distinguish the run
 */
export async function runSeeds(
  config: Config,
  fleet: SimulatedFleet,
  sources: RunSources,
  swept: RunReport['swept'],
): Promise<RunReport> {
  const reports: RunReport[] = [];
  for (const own of seedConfigs(config)) {
    const startedMs = sources.clock.nowMs();
    const options = await runOptions(own, fleet, sources);
    const simulation = await simulatePlanned(options);
    const wallMs = sources.clock.nowMs() - startedMs;
    reports.push(reportRun(simulation, { swept, about: describeRun(own.settings, options), wallMs }));
  }
  return meanReport(reports);
}
