import { findProblems } from './checks.ts';
import { ConfigError } from './config-error.ts';
import { applyImplications } from './implications.ts';
import type { Process } from './processes.ts';
import { describeAllowed, type Row } from './row.ts';
import { collectSources, type Given, type Sources } from './sources.ts';
import { machineSurroundings } from './surroundings.ts';
import { rowsOf, type SettingName, type Settings } from './table.ts';
import { hideUrlPassword } from './values/texts.ts';
import type { Surroundings } from './values/value-type.ts';
import { type ConfigView, nameOf, type SettingValues } from './view.ts';

/** The settings of one process, with where they came from. */
export interface ResolvedConfig<P extends Process = Process> {
  readonly process: P;
  readonly settings: Settings<P>;
  /** What was given and counted; a setting that is not here has its default. */
  readonly given: ReadonlyMap<SettingName, Given>;
  /** One line each: deprecated names, settings whose feature is not built yet, unknown variables. */
  readonly warnings: readonly string[];
}

/** What resolving may be told besides the command line and the environment. */
export interface ResolveOptions {
  /** Content of the configuration file of the process, weaker than flags and variables. */
  readonly fileValues?: Readonly<Record<string, unknown>>;
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

function warnOf(row: Row, given: Given): readonly string[] {
  const warnings: string[] = [];
  if (row.deprecated !== undefined) warnings.push(`${given.name} is deprecated: ${row.deprecated}`);
  if (!row.built) {
    const hint = row.instead === undefined ? '' : `; ${row.instead}`;
    warnings.push(`${given.name} is set, but what it controls is not built yet: it has no effect${hint}`);
  }
  return warnings;
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
  draft.warnings.push(...warnOf(row, source));
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

/**
 * Resolves every setting of `process`: flag over variable over configuration file over default.
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
  env: Readonly<Record<string, string | undefined>>,
  options: ResolveOptions = {},
): ResolvedConfig<P> {
  const sources = collectSources(process, argv, env, options.fileValues ?? {});
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
