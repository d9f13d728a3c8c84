import { asRecord, type UnknownRecord } from '../../records/index.ts';
import type { LaunchCommand, ProcessEnd } from './engine-process.ts';
import type { HeldPorts, PortWish } from './held-ports.ts';

/** Ports on which an engine listens. */
export interface LaunchPorts {
  readonly http: number;
  /** First port of KV events, one for each rank. */
  readonly events: number;
  /** First port of replays, one for each rank. */
  readonly replay: number;
  /** First port by which engines hand over KV blocks, one for each rank; undefined = none was chosen for it. */
  readonly sideChannel?: number | undefined;
  /** Port from which engines fetch encoded media; undefined = none was chosen for it. */
  readonly encoder?: number | undefined;
  /** First port for connections between the engine's own processes; undefined = the engine chooses them. */
  readonly own?: number | undefined;
  /** Port where decode workers meet a prefill worker; undefined = none was chosen for it. */
  readonly bootstrap?: number | undefined;
}

/** Ports before any are chosen. */
export const NO_PORTS: LaunchPorts = { http: 0, events: 0, replay: 0 };

/** Argument that not every release supports, with its values. */
export interface OptionalArgument {
  readonly words: readonly [flag: string, ...values: string[]];
  /** First release that supports it. */
  readonly since: string;
}

/** Releases whose arguments are known, both ends included: `0.20.0`, and `0.33` with its patch releases. */
export interface KnownReleases {
  readonly oldest: string;
  readonly newest: string;
}

/** Plan for starting an engine. */
export interface LaunchPlan {
  /** Name of its package, whose version determines the supported arguments. */
  readonly packageName: string;
  /** Words that start the engine's program, before its own arguments: `python3 -m vllm`. */
  readonly program: readonly [string, ...string[]];
  /** Arguments with which the program lists all its arguments. */
  readonly helpArguments: readonly string[];
  readonly releases: KnownReleases;
  /** Arguments that are left out if the release does not support them. */
  readonly optional: readonly OptionalArgument[];
  readonly ports: Readonly<Partial<Record<keyof LaunchPorts, PortWish>>> & { readonly http: PortWish };
  /** Ports that the user has given to the engine; they must be free. */
  readonly givenPorts: readonly PortWish[];
  command(ports: LaunchPorts): LaunchCommand;
  /** Matches output of the program or its shell if the program is not installed. */
  readonly missing: RegExp;
  /** Command that installs it. */
  readonly install: string;
}

/** Reserves the ports of `plan`. @throws Error with one line that names setting and port */
export async function takePorts(plan: Pick<LaunchPlan, 'ports' | 'givenPorts'>, held: HeldPorts): Promise<LaunchPorts> {
  for (const wish of plan.givenPorts) await held.take(wish);
  const taken: Partial<Record<keyof LaunchPorts, number>> = {};
  // Ports that the user named come first: a free port from a range must not take one of them.
  const wishes = Object.entries(plan.ports).sort(([, one], [, other]) => countOf(one) - countOf(other));
  for (const [name, wish] of wishes) taken[name as keyof LaunchPorts] = await held.take(wish);
  return { ...NO_PORTS, ...taken };
}

function countOf({ ports: { first, last } }: PortWish): number {
  return last - first;
}

/**
 * Returns the value of `flag` in arguments of an engine, the last one if it is repeated: `--flag value` or
 * `--flag=value`.
 */
export function argumentValue(words: readonly string[], flag: string): string | undefined {
  let value: string | undefined;
  for (const [at, word] of words.entries()) {
    const [name = '', ...rest] = word.split('=');
    if (!name.startsWith('--') || name.replaceAll('_', '-') !== flag) continue;
    value = rest.length > 0 ? rest.join('=') : words[at + 1];
  }
  return value;
}

/**
 * Returns the JSON object in the value of `flag`. `--flag.name value` gives one field, and such words replace the
 * whole; a value that is not JSON is a text there. Undefined without the flag, or if its value is something else.
 */
export function argumentRecord(words: readonly string[], flag: string): UnknownRecord | undefined {
  const fields: Record<string, unknown> = {};
  for (const word of words) {
    const [name = ''] = word.split('=');
    const plain = name.replaceAll('_', '-');
    if (!plain.startsWith(`${flag}.`)) continue;
    const value = argumentValue(words, plain) ?? '';
    fields[name.slice(flag.length + 1).replaceAll('-', '_')] = jsonIn(value) ?? value;
  }
  if (Object.keys(fields).length > 0) return fields;
  const whole = argumentValue(words, flag);
  return whole === undefined ? undefined : asRecord(jsonIn(whole));
}

function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // a text, or a value that the engine itself will refuse
  }
}

/** Returns a wish for exactly the port `value` of `setting`; undefined when it is not a port. */
export function givenPort(setting: string, value: unknown, more: Partial<PortWish> = {}): PortWish | undefined {
  const port = typeof value === 'string' && /^\d+$/.test(value) ? Number(value) : value;
  if (typeof port !== 'number' || !Number.isInteger(port) || port < 1 || port > 65_535) return undefined;
  return { ...more, setting, ports: { first: port, last: port } };
}

const SHELL_FOUND_NOTHING = 127;

/** Returns whether a program ended because the engine is not installed. */
export function isMissing({ code, tail }: ProcessEnd, { missing }: LaunchPlan): boolean {
  return code === SHELL_FOUND_NOTHING || tail.some((line) => missing.test(line));
}

export function missingText({ program: [program], install }: LaunchPlan): string {
  return (
    `the engine is not installed here (\`${program}\` cannot run it): ${install}, name another command with --engine-command, ` +
    'or attach a server that runs already with --engine-url'
  );
}
