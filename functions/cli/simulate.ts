import { writeFile } from 'node:fs/promises';
import { performance } from 'node:perf_hooks';
import { ConfigError, resolveConfig, type Settings } from '../../shared/config/index.ts';
import { reasonOf } from '../../shared/errors/index.ts';
import { simulate } from '../../shared/simulate/index.ts';
import { type RunReport, renderHtml, renderJson, renderText, reportRun } from '../../shared/simulate/report/index.ts';
import type { CommandContext } from './commands.ts';
import { simulatedFleet, withExtraEngineArgs } from './simulate-fleet.ts';
import { describeRun, simulationOptions } from './simulate-options.ts';
import { type SweptRun, sweepRuns } from './simulate-sweep.ts';
import { WorkloadSource } from './simulate-workload.ts';

/** `stator simulate`: replays a workload in virtual time, once or for each value of a sweep, and prints what came of it. */
export async function run({ settings, config, env }: CommandContext<'simulate'>): Promise<number> {
  const kindOfReport = reportKind(settings.report);
  const workloads = new WorkloadSource();
  const told = new Set<string>(config.warnings);
  const runs: RunReport[] = [];
  for (const swept of sweepRuns(config)) {
    const own = await withExtraEngineArgs(resolveConfig('simulate', swept.argv, env));
    warnOnce(own.warnings, told);
    const fleet = await simulatedFleet(own, (warning) => warnOnce([warning], told));
    runs.push(await simulateOnce(swept, own, fleet, workloads));
  }
  process.stdout.write(settings.json ? renderJson(runs) : renderText(runs));
  if (settings.report !== undefined) {
    await writeReport(settings.report, kindOfReport === 'json' ? renderJson(runs, true) : renderHtml(runs));
  }
  return 0;
}

async function simulateOnce(
  { swept }: SweptRun,
  config: CommandContext<'simulate'>['config'],
  fleet: Awaited<ReturnType<typeof simulatedFleet>>,
  workloads: WorkloadSource,
): Promise<RunReport> {
  const startedMs = performance.now();
  const { blockSizeTokens: blockSize } = fleet.engine;
  const options = await simulationOptions(config, await workloads.open({ ...config.settings, blockSize }), fleet);
  const simulation = simulate(options);
  const wallMs = performance.now() - startedMs;
  return reportRun(simulation, { swept, about: describeRun(config.settings, options), wallMs });
}

function reportKind(path: Settings<'simulate'>['report']): 'html' | 'json' | undefined {
  if (path === undefined) return undefined;
  if (path.endsWith('.html')) return 'html';
  if (path.endsWith('.json')) return 'json';
  throw new ConfigError([`--report ${JSON.stringify(path)}: its name must end in .html or .json`]);
}

async function writeReport(path: string, text: string): Promise<void> {
  try {
    await writeFile(path, text);
  } catch (thrown) {
    throw new Error(`cannot write --report ${path}: ${reasonOf(thrown)}; name a file in a writable folder`);
  }
}

/** Every run of a sweep warns of the same things. */
function warnOnce(warnings: readonly string[], told: Set<string>): void {
  for (const warning of warnings) {
    if (told.has(warning)) continue;
    told.add(warning);
    process.stderr.write(`stator: warning: ${warning}\n`);
  }
}
