import { readFileSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import { type ConfigView, findProblems, type SettingValues } from './checks.ts';
import { applyImplications } from './implications.ts';
import type { Process } from './processes.ts';
import { describeAllowed, type Row } from './row.ts';
import { collectSources, type Given, type Sources } from './sources.ts';
import { nameOf, rowsOf, type SettingName, type Settings } from './table.ts';
import { hideUrlPassword } from './values/texts.ts';
import type { Environment, Surroundings } from './values/value-type.ts';

/** A configuration that cannot be used. Every problem is one line that names the flag or variable and says what is allowed. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(problems.join('\n'));
    this.problems = problems;
  }
}

/** The settings of one process, with where they came from. */
export interface ResolvedConfig<P extends Process = Process> {
  readonly process: P;
  readonly settings: Settings<P>;
  /** What was given and counted; a setting that is not here has its default. */
  readonly given: ReadonlyMap<SettingName, Given>;
  /** One line each: deprecated names, names that do nothing in this version, unknown variables. */
  readonly warnings: readonly string[];
}

/** What resolving may be told besides the command line and the environment. */
export interface ResolveOptions {
  /** A required setting may be missing: for showing a configuration, not for running it. */
  readonly allowMissing?: boolean;
  /** @default the machine's own files */
  readonly surroundings?: Surroundings;
}

function shown(row: Row, texts: readonly string[]): string {
  return row.type.isSecret ? '***' : hideUrlPassword(texts.join(' '));
}

function describeBadValue(row: Row, given: Given, fault: string): string {
  return `${given.name} ${JSON.stringify(shown(row, given.texts))}: ${fault}; allowed: ${describeAllowed(row)}`;
}

function readDefaults(process: Process, values: Map<SettingName, unknown>): void {
  const rows = rowsOf(process).filter(([setting]) => !values.has(setting));
  for (const [setting, row] of rows) {
    const value = row.defaultFor[process] ?? row.default;
    if (row.decide === undefined) values.set(setting, value);
  }
  for (const [setting, row] of rows) {
    if (row.decide === undefined) continue;
    // A decided default reads settings that are complete by now, or decided by an earlier row.
    values.set(setting, row.decide({ process, read: (name) => values.get(name as SettingName) }));
  }
}

interface Draft {
  readonly values: Map<SettingName, unknown>;
  readonly given: Map<SettingName, Given>;
  readonly problems: string[];
  readonly warnings: string[];
}

function readGiven(draft: Draft, setting: SettingName, row: Row, source: Given, around: Surroundings): void {
  const parsed = row.type.parse(source.texts, around);
  if (parsed.ok) {
    draft.values.set(setting, parsed.value);
  } else if (row.lenient) {
    draft.given.delete(setting);
    draft.warnings.push(`${describeBadValue(row, source, parsed.fault)}; ignored`);
  } else {
    draft.problems.push(describeBadValue(row, source, parsed.fault));
  }
  if (row.deprecated !== undefined) draft.warnings.push(`${source.name} is deprecated: ${row.deprecated}`);
}

function readValues(process: Process, sources: Sources, around: Surroundings, allowMissing: boolean): Draft {
  const draft: Draft = {
    values: new Map(),
    given: new Map(sources.given),
    problems: [...sources.problems],
    warnings: [...sources.warnings],
  };
  for (const [setting, row] of rowsOf(process)) {
    const source = sources.given.get(setting);
    if (source !== undefined) {
      readGiven(draft, setting, row, source, around);
    } else if (row.requiredBy.includes(process) && !allowMissing) {
      draft.problems.push(`${nameOf(setting)} is required: ${describeAllowed(row)}`);
    }
  }
  readDefaults(process, draft.values);
  return draft;
}

/** The machine that this process runs on. Configuration is read once, before anything is served, so reads may block. */
function machineSurroundings(env: Environment): Surroundings {
  return {
    homeDir: homedir(),
    env,
    kindOf: (path) => {
      const found = statSync(path, { throwIfNoEntry: false });
      if (found === undefined) return 'none';
      return found.isDirectory() ? 'folder' : 'file';
    },
    readText: (path) => readFileSync(path, 'utf8'),
    sizeBytes: (path) => statSync(path).size,
  };
}

/**
 * Resolves every setting of `process`: flag over variable over default.
 *
 * @example
 * const { settings, warnings } = resolveConfig('frontend', ['--http-port', '9000'], process.env);
 * settings.httpPort; // 9000, a number
 *
 * @throws ConfigError with every problem found, one line each.
 */
export function resolveConfig<P extends Process>(
  process: P,
  argv: readonly string[],
  env: Environment,
  options: ResolveOptions = {},
): ResolvedConfig<P> {
  const sources = collectSources(process, argv, env);
  const around = options.surroundings ?? machineSurroundings(env);
  const { values, given, problems, warnings } = readValues(process, sources, around, options.allowMissing === true);
  // A cross check on values that did not parse would only repeat the first problem in other words.
  if (problems.length > 0) throw new ConfigError(problems);
  const view: ConfigView = { process, given, values: Object.fromEntries(values) as SettingValues };
  warnings.push(...applyImplications(view));
  const findings = findProblems(view);
  if (findings.problems.length > 0) throw new ConfigError(findings.problems);
  // The map holds exactly the settings of the process, each parsed by its own row.
  return { process, settings: view.values as Settings<P>, given, warnings: [...warnings, ...findings.warnings] };
}
