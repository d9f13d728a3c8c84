import { mkdir, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import {
  ConfigError,
  type Environment,
  type ResolvedConfig,
  resolveConfig,
  type Settings,
} from '../../shared/config/index.ts';
import { reasonOf } from '../../shared/errors/index.ts';
import {
  labelOf,
  type RunReport,
  RunSources,
  renderHtml,
  renderJson,
  renderText,
  renderTuneJson,
  renderTuneText,
  runSeeds,
  simulatedFleet,
  sweepRuns,
  tuneRun,
  withExtraEngineArgs,
  withInitialWorkers,
} from '../../shared/simulate/index.ts';
import { Progress } from '../../shared/telemetry/index.ts';

/**
 * Runs `stator simulate`: replays a workload in virtual time, once or for each value of a sweep, and prints the
 * results.
 */
export async function run(config: ResolvedConfig<'simulate'>, env: Environment): Promise<number> {
  const { settings } = config;
  if (settings.tune) return runTune(config);
  const kindOfReport = reportKind(settings.report);
  const runs = await simulateAll(config, env);
  process.stdout.write(settings.json ? renderJson(runs) : renderText(runs));
  if (settings.report !== undefined) {
    const isJson = kindOfReport === 'json';
    await writeReport(settings.report, isJson ? renderJson(runs, true) : renderHtml(runs, commandLine()));
    process.stderr.write(`stator: wrote the report to ${settings.report}\n`);
  }
  return 0;
}

/** Searches the settings of Dynamo's formula, and compares the best ones with the cost model `stator`. */
async function runTune(config: ResolvedConfig<'simulate'>): Promise<number> {
  const own = await withExtraEngineArgs(config);
  const told = new Set<string>(config.warnings);
  warnOnce(own.warnings, told);
  const fleet = await simulatedFleet(own, (warning) => warnOnce([warning], told));
  const progress = new Progress(process.stderr);
  const report = await tuneRun(own, fleet, new RunSources(), (text) => progress.tell(text)).finally(() =>
    progress.end(),
  );
  process.stdout.write(own.settings.json ? renderTuneJson(report) : renderTuneText(report));
  return 0;
}

/** Runs the sweep, one run after the other. */
async function simulateAll(config: ResolvedConfig<'simulate'>, env: Environment): Promise<readonly RunReport[]> {
  const sources = new RunSources();
  const told = new Set<string>(config.warnings);
  const runs: RunReport[] = [];
  const asked = sweepRuns(config);
  const progress = new Progress(process.stderr);
  try {
    for (const swept of asked) {
      const which = asked.length === 1 ? '' : ` run ${runs.length + 1} of ${asked.length}: ${labelOf(swept)}`;
      progress.tell(`simulating${which}`);
      const own = await withExtraEngineArgs(resolveConfig('simulate', swept.argv, env));
      warnOnce(own.warnings, told);
      const fleet = await simulatedFleet(own, (warning) => warnOnce([warning], told));
      runs.push(await runSeeds(own, await withInitialWorkers(own, fleet, sources.fleets), sources, swept.swept));
    }
    return runs;
  } finally {
    progress.end();
  }
}

/** Returns the command line as typed, with quotes for a shell. */
function commandLine(): string {
  const words = process.argv
    .slice(2)
    .map((word) => (/^[\w./:=,@%+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`));
  return ['stator', ...words].join(' ');
}

function reportKind(path: Settings<'simulate'>['report']): 'html' | 'json' | undefined {
  if (path === undefined) return undefined;
  if (path.endsWith('.html')) return 'html';
  if (path.endsWith('.json')) return 'json';
  throw new ConfigError([`--report ${JSON.stringify(path)}: its name must end in .html or .json`]);
}

async function writeReport(path: string, text: string): Promise<void> {
  try {
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, text);
  } catch (thrown) {
    throw new Error(`cannot write --report ${path}: ${reasonOf(thrown)}; name a file in a writable folder`);
  }
}

/**
 * Prints warnings once, because every run of a sweep gives the same ones.
 * @param told warnings that were printed already
 */
function warnOnce(warnings: readonly string[], told: Set<string>): void {
  for (const warning of warnings) {
    if (told.has(warning)) continue;
    told.add(warning);
    process.stderr.write(`stator: warning: ${warning}\n`);
  }
}
