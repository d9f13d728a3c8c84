import { readFileSync, statSync } from 'node:fs';
import { networkInterfaces } from 'node:os';
import { reasonOf } from '../errors/index.ts';
import { isRecord } from '../records/index.ts';
import { findProblems } from './checks.ts';
import { readEngineFile } from './command-line/engine-file.ts';
import { describeAllowed, type Process, type Row } from './row.ts';
import { collectSources } from './sources.ts';
import { type NamedRow, nameOf, rowsOf, type SettingName, type Settings, TABLE } from './table.ts';
import { homeFolder } from './user-folders.ts';
import { hideUrlPassword } from './values/texts.ts';
import type { Environment, Surroundings } from './values/value-type.ts';
import type { ConfigView, Findings, Given, SettingValues } from './view.ts';

/**
 * Thrown for a configuration that cannot be used. Every problem is one line that names the flag or variable and says
 * what is allowed.
 */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(problems.join('\n'));
    this.problems = problems;
  }
}

/** Settings of one process, with their sources. */
export interface ResolvedConfig<P extends Process = Process> {
  readonly process: P;
  readonly settings: Settings<P>;
  /** Settings that were given and count; a setting that is not in it has its default. */
  readonly given: ReadonlyMap<SettingName, Given>;
  /** Warnings of one line each: deprecated names, names that do nothing in this version, unknown variables. */
  readonly warnings: readonly string[];
}

/** Options of resolving, besides the command line and the environment. */
export interface ResolveOptions {
  /** Whether a required setting may be missing: for showing a configuration, not for running it. */
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

/**
 * Reads the value given for one setting. If the setting is lenient or belongs to an engine, a value that cannot be read
 * counts as not given.
 */
function readGiven(
  values: UnknownValues,
  [setting, row]: NamedRow,
  given: Map<SettingName, Given>,
  around: Surroundings,
  { problems, warnings }: Findings,
): void {
  const source = given.get(setting);
  if (source === undefined) return;
  const parsed = row.type.parse(source.texts, around);
  if (parsed.ok) values[setting] = parsed.value;
  else if (source.passed !== undefined) {
    given.delete(setting);
    const { unread } = source.passed;
    if (unread !== undefined)
      warnings.push(`${source.name} ${JSON.stringify(shown(row, source.texts))} goes only to the engine: ${unread}`);
  } else if (row.lenient) {
    given.delete(setting);
    warnings.push(`${describeBadValue(row, source, parsed.fault)}; ignored`);
  } else problems.push(describeBadValue(row, source, parsed.fault));
  if (row.deprecated !== undefined) warnings.push(`${source.name} is deprecated: ${row.deprecated}`);
}

function readDefaults(process: Process, values: UnknownValues, { interfaces }: Surroundings): void {
  const rows = rowsOf(process).filter(([setting]) => !(setting in values));
  for (const [setting, row] of rows) {
    if (row.decide === undefined) values[setting] = row.defaultFor[process] ?? row.default;
  }
  for (const [setting, row] of rows) {
    // A decided default reads settings that are complete by now, or that an earlier row has decided.
    if (row.decide !== undefined) {
      const read = (name: string) => values[name as SettingName];
      values[setting] = row.defaultFor[process] ?? row.decide({ process, interfaces, read });
    }
  }
}

/** Values while they are read, each parsed by its own row. */
type UnknownValues = Partial<Record<SettingName, unknown>>;

/**
 * Access to the machine that this process runs on. Configuration is read once, before the process serves anything, so
 * reads may block.
 */
function machineSurroundings(env: Environment): Surroundings {
  return {
    homeDir: homeFolder(),
    env,
    kindOf: kindOnDisk,
    readText: (path) => readFileSync(path, 'utf8'),
    sizeBytes: (path) => statSync(path).size,
    interfaces: networkInterfaces,
  };
}

function kindOnDisk(path: string): ReturnType<Surroundings['kindOf']> {
  try {
    const found = statSync(path, { throwIfNoEntry: false });
    if (found === undefined) return 'none';
    return found.isDirectory() ? 'folder' : 'file';
  } catch (thrown) {
    const isBelowFile = isRecord(thrown) && thrown.code === 'ENOTDIR';
    return { fault: isBelowFile ? 'lies below a file, not a folder' : `cannot be seen: ${reasonOf(thrown)}` };
  }
}

/**
 * Resolves every setting of `process`: a flag wins over a variable, and a variable over the default.
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
  const findings: Findings = { problems: [], warnings: [] };
  const { problems, warnings } = findings;
  const around = options.surroundings ?? machineSurroundings(env);
  const file = readEngineFile(process, argv, env, around, problems);
  const given = collectSources(process, argv, env, file, findings);
  const read: UnknownValues = {};
  for (const named of rowsOf(process)) {
    const [setting, row] = named;
    if (given.has(setting)) readGiven(read, named, given, around, findings);
    else if (row.requiredBy.includes(process) && options.allowMissing !== true) {
      problems.push(`${nameOf(setting)} is required: ${describeAllowed(row)}`);
    }
  }
  readDefaults(process, read, around);
  // A cross check on values that did not parse would only repeat the first problem in other words.
  if (problems.length > 0) throw new ConfigError(problems);
  const values = read as SettingValues; // exactly the settings of the process
  applyImplications({ process, given, values }, warnings);
  findProblems({ process, given, values }, findings);
  if (problems.length > 0) throw new ConfigError(problems);
  return { process, settings: values as Settings<P>, given, warnings };
}

const BUCKETS = [
  ['metricsRequestDurationMin', 'metricsRequestDurationMax'],
  ['metricsInputSequenceMin', 'metricsInputSequenceMax'],
  ['metricsOutputSequenceMin', 'metricsOutputSequenceMax'],
  ['metricsTtftMin', 'metricsTtftMax'],
  ['metricsItlMin', 'metricsItlMax'],
  ['metricsEmbeddingLatencyMin', 'metricsEmbeddingLatencyMax'],
] as const satisfies readonly (readonly [SettingName, SettingName])[];

function defaultNumber(setting: SettingName): number {
  const value = TABLE.get(setting)?.default;
  if (typeof value !== 'number') throw new TypeError(`${setting} has no number as its default`);
  return value;
}

/** Replaces bucket limits that cross by their defaults. */
function straightenBuckets({ values }: ConfigView, warnings: string[]): void {
  for (const [low, high] of BUCKETS) {
    const lowest = values[low];
    const highest = values[high];
    if (lowest === undefined || highest === undefined || lowest < highest) continue;
    values[low] = defaultNumber(low);
    values[high] = defaultNumber(high);
    warnings.push(`${nameOf(low)} ${lowest} is not below ${nameOf(high)} ${highest}: the defaults are used`);
  }
}

/**
 * Applies the deprecated weight, which is another name of the prefill scale. A weight of 0 also meant no credit for
 * overlap.
 */
function translateOverlapWeight({ values, given }: ConfigView): void {
  const weight = values.routerKvOverlapScoreWeight;
  if (weight === undefined) return;
  if (!given.has('routerPrefillLoadScale')) values.routerPrefillLoadScale = weight;
  if (weight === 0 && !given.has('routerKvOverlapScoreCredit')) values.routerKvOverlapScoreCredit = 0;
}

/** Weights of Dynamo's formula. A weight that is set keeps its meaning. */
const WEIGHTS = [
  'routerKvOverlapScoreCredit',
  'routerKvOverlapScoreCreditDecay',
  'routerKvOverlapScoreWeight',
  'routerPrefillLoadScale',
  'routerDecodeActiveRequestWeight',
  'routerHostCacheHitWeight',
  'routerDiskCacheHitWeight',
  'sharedCacheMultiplier',
  'routerTemperature',
] as const satisfies readonly SettingName[];

/**
 * Chooses the cost model: a user who sets a weight gets the formula that has it. Weights of a policy file are known
 * only when it is read.
 */
function chooseCostModel({ values, given }: ConfigView): void {
  if (!WEIGHTS.some((weight) => given.has(weight))) return;
  for (const setting of ['routerCostModel', 'costModel'] as const) {
    if (values[setting] === 'auto') values[setting] = 'dynamo';
  }
}

/** Port that Triton's clients try first. */
const TRITON_PORT = 8001;

/**
 * Applies roles: a process with the role of a router answers other processes too, and a process with the role of gRPC
 * has a port for it.
 */
function translateRoles({ values }: ConfigView): void {
  if (values.roles?.includes('router') === true) values.routerRole ??= 'resident';
  if (values.roles?.includes('grpc') === true && values.kserveGrpcServer !== true) values.grpcPort ??= TRITON_PORT;
}

/** Applies the load-only preset, which is a preset of mode `kv`. */
function translateLoadAware({ values }: ConfigView): void {
  if (values.loadAware === true && values.routerMode !== undefined) values.routerMode = 'kv';
}

function translateWorkerRole({ values, given }: ConfigView): void {
  if (given.has('disaggregationMode')) return;
  if (values.isPrefillWorker === true) values.disaggregationMode = 'prefill';
  else if (values.isDecodeWorker === true || values.multimodalDecodeWorker === true)
    values.disaggregationMode = 'decode';
  else if (values.multimodalEncodeWorker === true) values.disaggregationMode = 'encode';
}

/** Applies settings that stand for other settings. Changes `view.values`. */
function applyImplications(view: ConfigView, warnings: string[]): void {
  translateOverlapWeight(view);
  chooseCostModel(view);
  translateLoadAware(view);
  translateRoles(view);
  translateWorkerRole(view);
  straightenBuckets(view, warnings);
}
