import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  type Command,
  ConfigError,
  type Environment,
  hasEffect,
  type ResolvedConfig,
  resolveConfig,
  TABLE,
} from '../../config/index.ts';
import { refusePublisher } from '../../fleet/index.ts';
import type { DynamoProgram } from './dynamo-program.ts';
import type { Finding } from './findings.ts';

/** Settings of the program of Stator that takes the place of Dynamo's, or stands in front of Dynamo's workers. */
export interface ExaminedSettings {
  readonly findings: readonly Finding[];
  /** Settings of a frontend that meets the same workers. Undefined if the settings do not allow a start. */
  readonly config: ResolvedConfig<'frontend'> | undefined;
  /** Flags for `stator`, after the name of the command. */
  readonly flags: readonly string[];
  /** Variables to add to those that are there. */
  readonly variables: Readonly<Record<string, string>>;
}

/** A setting whose default is another one in Dynamo, and by which processes find each other. */
const MEETING_FLAGS = ['--discovery-backend', '--request-plane', '--response-plane', '--event-plane'] as const;

/** Examines the flags and variables of a program of Dynamo's, as Stator would read them. */
export function examineSettings(program: DynamoProgram, env: Environment): ExaminedSettings {
  const own = program.role === 'worker' ? meetingFlags(program.flags) : program.flags;
  const { flags, variables } = withDefaultsOfDynamo(own, env);
  const given = { ...env, ...variables };
  const findings = [...stay(program)];
  try {
    const resolved = resolveConfig(program.role === 'worker' ? 'frontend' : program.command, flags, given);
    findings.push(...resolved.warnings.map((line): Finding => ({ verdict: 'differs', about: 'setting', says: line })));
    findings.push(...defaultsOf(resolved));
    const config = resolveConfig('frontend', flagsOfFrontend(program, flags), given);
    findings.push(...replicaSync(config));
    return { findings, config, flags, variables };
  } catch (thrown) {
    if (!(thrown instanceof ConfigError)) throw thrown;
    findings.push(...thrown.problems.map((line): Finding => ({ verdict: 'fails', about: 'setting', says: line })));
    return { findings, config: undefined, flags, variables };
  }
}

function stay({ role, module }: DynamoProgram): readonly Finding[] {
  if (role !== 'worker') return [];
  return [{ verdict: 'ok', about: module, says: "stays as it is: Stator's frontend comes in front of it" }];
}

/** Returns the flags of a frontend that reads the fleet of `program`: planners and routers lack settings for that. */
function flagsOfFrontend({ role, command }: DynamoProgram, flags: readonly string[]): readonly string[] {
  if (role !== 'other') return flags;
  return [...meetingFlags(flags), ...(command === 'router' ? ['--router-mode=kv'] : [])];
}

/** Examines whether routers may tell each other about their requests, for which each publishes events. */
function replicaSync({ settings }: ResolvedConfig<'frontend'>): readonly Finding[] {
  if (settings.routerMode !== 'kv' || !settings.routerReplicaSync) return [];
  const refusal = refusePublisher(settings);
  return refusal === undefined ? [] : [{ verdict: 'fails', about: '--router-replica-sync', says: refusal }];
}

/** Returns those of `flags` by which a program meets the others. */
function meetingFlags(flags: readonly string[]): readonly string[] {
  return flags.flatMap((word, at) => {
    const flag = MEETING_FLAGS.find((name) => word === name || word.startsWith(`${name}=`));
    if (flag === undefined) return [];
    return word === flag ? flags.slice(at, at + 2) : [word];
  });
}

/** Adds the defaults of Dynamo by which processes meet, where Stator has others. */
function withDefaultsOfDynamo(
  flags: readonly string[],
  env: Environment,
): { readonly flags: readonly string[]; readonly variables: Readonly<Record<string, string>> } {
  const backend = textGiven('--discovery-backend', 'DYN_DISCOVERY_BACKEND', flags, env);
  const added: string[] = [];
  if (backend === undefined) added.push('--discovery-backend=etcd');
  if (textGiven('--event-plane', 'DYN_EVENT_PLANE', flags, env) === undefined) added.push('--event-plane=zmq');
  const isFile = backend === 'file' && !env.DYN_FILE_KV;
  const variables = isFile ? { DYN_FILE_KV: join(env.TMPDIR || tmpdir(), 'dynamo_store_kv') } : {};
  return { flags: [...flags, ...added], variables };
}

function textGiven(flag: string, variable: string, flags: readonly string[], env: Environment): string | undefined {
  const at = flags.findLastIndex((word) => word === flag || word.startsWith(`${flag}=`));
  const word = flags[at];
  if (word !== undefined) return word === flag ? flags[at + 1] : word.slice(flag.length + 1);
  return env[variable] || undefined;
}

/** Returns the settings that are not given, have an effect, and have another default in Dynamo. */
function defaultsOf(config: ResolvedConfig<Command>): readonly Finding[] {
  const { process, given } = config;
  return [...TABLE].flatMap(([setting, row]): readonly Finding[] => {
    const [theirs] = /^(?:Dynamo|1\.6\.1): [^;]+(?:; 1\.6\.1: [^;]+)?/.exec(row.source) ?? [];
    if (theirs === undefined || given.has(setting) || !row.usedBy.includes(process)) return [];
    if (!hasEffect(setting, { ...config, values: config.settings })) return [];
    const here = row.defaultFor[process] ?? row.default;
    const shown = here === undefined ? (row.defaultText ?? 'unset') : row.type.show(here);
    const about = row.flags[0] ?? row.env[0] ?? setting;
    return [{ verdict: 'differs', about, says: `default ${shown} (${theirs})` }];
  });
}
