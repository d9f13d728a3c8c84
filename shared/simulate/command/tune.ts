import type { ResolvedConfig } from '../../config/index.ts';
import type { SimulationOptions } from '../simulate.ts';
import type { TuneReport } from '../tune/render-tune.ts';
import { measureStator, tuneDynamo } from '../tune/tune.ts';
import { describeRun, type simulatedFleet } from './options.ts';
import { type RunSources, runOptions, seedConfigs } from './run.ts';

/**
 * Compares the cost model `stator` with the best settings of Dynamo's formula.
 * @param tell hears of each setting before it is tried
 * @throws ConfigError for settings that cannot be used together
 */
export async function tuneRun(
  config: ResolvedConfig<'simulate'>,
  fleet: Awaited<ReturnType<typeof simulatedFleet>>,
  sources: RunSources,
  tell: (text: string) => void,
): Promise<TuneReport> {
  const startedMs = sources.clock.nowMs();
  const simulations: SimulationOptions[] = [];
  for (const own of seedConfigs(config)) simulations.push(await runOptions(own, fleet, sources));
  const { tuneSettings: settingsMax } = config.settings;
  const dynamo = await tuneDynamo({
    simulations,
    settingsMax,
    tell: (setting) => tell(`setting ${setting} of at most ${settingsMax}`),
  });
  const { 'cost-model': _, ...about } = describeRun(config.settings, simulations[0]!); // there is one seed at least
  return { about, stator: measureStator(simulations), dynamo, wallMs: sources.clock.nowMs() - startedMs };
}
