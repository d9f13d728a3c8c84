import { asRecord, type UnknownRecord } from '../../records/index.ts';
import type { LaunchCommand, ProcessEnd } from './engine-process.ts';
import type { HeldPorts, PortWish } from './held-ports.ts';

/** What an engine is told to listen on. */
export interface LaunchPorts {
  readonly http: number;
  /** First of the ports of KV events, one a rank. */
  readonly events: number;
  /** First of the ports of replays, one a rank. */
  readonly replay: number;
  /** First of the ports by which engines hand over KV blocks, one a rank; undefined = it has none of ours. */
  readonly sideChannel?: number | undefined;
  /** Where engines fetch what an encoder has made of media; undefined = it has none of ours. */
  readonly encoder?: number | undefined;
  /** First of the ports for connections between its own processes; undefined = it draws them itself. */
  readonly own?: number | undefined;
  /** Where decode workers meet a prefill worker; undefined = it has none of ours. */
  readonly bootstrap?: number | undefined;
}

/** Before any are chosen. */
export const NO_PORTS: LaunchPorts = { http: 0, events: 0, replay: 0 };

/** An argument that not every release knows, with its values. */
export interface OptionalArgument {
  readonly words: readonly [flag: string, ...values: string[]];
  /** The first release that knows it. */
  readonly since: string;
}

/** The releases of which it is known what they understand, both included: `0.20.0`, and `0.33` with whatever follows it. */
export interface KnownReleases {
  readonly oldest: string;
  readonly newest: string;
}

/** How an engine is started. */
export interface LaunchPlan {
  /** Name of its package, whose version says what it understands. */
  readonly packageName: string;
  /** The words that start the engine's program, before its own arguments: `python3 -m vllm`. */
  readonly program: readonly [string, ...string[]];
  /** Arguments with which the program lists all its arguments. */
  readonly helpArguments: readonly string[];
  readonly releases: KnownReleases;
  /** Left out where they are not known. */
  readonly optional: readonly OptionalArgument[];
  readonly ports: Readonly<Partial<Record<keyof LaunchPorts, PortWish>>> & { readonly http: PortWish };
  /** Ports that the user has given to the engine: they must be free. */
  readonly givenPorts: readonly PortWish[];
  command(ports: LaunchPorts): LaunchCommand;
  /** What its output says, or its shell, where the program is not installed. */
  readonly missing: RegExp;
  /** What installs it. */
  readonly install: string;
}

/** Takes what `plan` wishes for. @throws Error with one line that names setting and port */
export async function takePorts(plan: Pick<LaunchPlan, 'ports' | 'givenPorts'>, held: HeldPorts): Promise<LaunchPorts> {
  for (const wish of plan.givenPorts) await held.take(wish);
  const taken: Partial<Record<keyof LaunchPorts, number>> = {};
  // What somebody named comes first: a free one from a range must not be it.
  const wishes = Object.entries(plan.ports).sort(([, one], [, other]) => countOf(one) - countOf(other));
  for (const [name, wish] of wishes) taken[name as keyof LaunchPorts] = await held.take(wish);
  return { ...NO_PORTS, ...taken };
}

function countOf({ ports: { first, last } }: PortWish): number {
  return last - first;
}

/** The value of `flag` in arguments of an engine, the last one where it is repeated: `--flag value` or `--flag=value`. */
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
 * The JSON object that is the value of `flag`; `--flag.name value` gives one field, and such words are in place of the whole. A
 * value that is no JSON is a text there. Undefined without the flag, or where its value is something else.
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
    return undefined; // a text, or what the engine itself will refuse
  }
}

/** A wish for the very port that `value` is, which `setting` gives; undefined when it gives none. */
export function givenPort(setting: string, value: unknown, more: Partial<PortWish> = {}): PortWish | undefined {
  const port = typeof value === 'string' && /^\d+$/.test(value) ? Number(value) : value;
  if (typeof port !== 'number' || !Number.isInteger(port) || port < 1 || port > 65_535) return undefined;
  return { ...more, setting, ports: { first: port, last: port } };
}

const SHELL_FOUND_NOTHING = 127;

/** Whether a program ended because the engine is not installed. */
export function isMissing({ code, tail }: ProcessEnd, { missing }: LaunchPlan): boolean {
  return code === SHELL_FOUND_NOTHING || tail.some((line) => missing.test(line));
}

export function missingText({ program: [program], install }: LaunchPlan): string {
  return (
    `the engine is not installed here (\`${program}\` cannot run it): ${install}, name another command with --engine-command, ` +
    'or attach a server that runs already with --engine-url'
  );
}
