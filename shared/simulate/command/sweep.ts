import { ConfigError, forwardSettings, type ResolvedConfig, type SettingName, TABLE } from '../../config/index.ts';
import { nearestName } from '../../errors/index.ts';

/** One run of a sweep: its command line, and the values that distinguish it. */
export interface SweptRun {
  readonly argv: readonly string[];
  /** Values by flag without dashes. */
  readonly swept: Readonly<Record<string, string>>;
}

interface Axis {
  readonly flag: string;
  readonly setting: SettingName;
  readonly values: readonly string[];
}

const RUNS_MAX = 256;
/** Settings of the command, not of a run. */
const NOT_SWEPT: ReadonlySet<SettingName> = new Set(['sweep', 'json', 'report', 'tune', 'tuneSettings']);

/**
 * Returns the runs of `--sweep name=v1,v2`: every combination of several sweeps, one run without any. @throws
 * ConfigError that names the part of the sweep that is wrong
 */
export function sweepRuns(config: ResolvedConfig<'simulate'>): readonly SweptRun[] {
  const axes = config.settings.sweep.map(readAxis);
  const repeated = axes.find(({ setting }, at) => axes.findIndex((axis) => axis.setting === setting) < at);
  if (repeated !== undefined) throw new ConfigError([`--sweep ${repeated.flag} is given twice`]);
  const count = axes.reduce((product, { values }) => product * values.length, 1);
  if (count > RUNS_MAX) throw new ConfigError([`--sweep asks for ${count} runs; allowed: up to ${RUNS_MAX}`]);
  const settled = new Set<SettingName>([...NOT_SWEPT, ...axes.map(({ setting }) => setting)]);
  const given = new Map([...config.given].filter(([setting]) => !settled.has(setting)));
  const { argv } = forwardSettings({ given }, 'simulate');
  return combine(axes).map((swept) => ({
    swept,
    argv: [...argv, ...Object.entries(swept).map(([flag, value]) => `--${flag}=${value}`)],
  }));
}

function readAxis(text: string): Axis {
  const at = text.indexOf('=');
  const flag = text.slice(0, at < 0 ? undefined : at).replace(/^--/, '');
  const problem = (fault: string): ConfigError => new ConfigError([`--sweep ${JSON.stringify(text)}: ${fault}`]);
  const flags = sweepableFlags();
  const setting = flags.get(flag);
  if (setting === undefined) {
    const nearest = nearestName(flag, flags.keys());
    const hint = nearest === undefined ? 'stator simulate --help lists all' : `did you mean --${nearest}?`;
    throw problem(`unknown flag --${flag}; ${hint}`);
  }
  const values = at < 0 ? [] : text.slice(at + 1).split(',');
  if (values.length === 0 || values.includes('')) throw problem('allowed: name=v1,v2,...');
  return { flag, setting, values };
}

/** Flags of `stator simulate` without dashes. */
function sweepableFlags(): ReadonlyMap<string, SettingName> {
  const flags = new Map<string, SettingName>();
  for (const [setting, row] of TABLE) {
    if (!row.usedBy.includes('simulate') || NOT_SWEPT.has(setting)) continue;
    for (const flag of [...row.flags, ...row.olderFlags]) flags.set(flag.replace(/^--/, ''), setting);
  }
  return flags;
}

function combine(axes: readonly Axis[]): readonly Readonly<Record<string, string>>[] {
  let runs: readonly Readonly<Record<string, string>>[] = [{}];
  for (const { flag, values } of axes) {
    runs = runs.flatMap((run) => values.map((value) => ({ ...run, [flag]: value })));
  }
  return runs;
}
