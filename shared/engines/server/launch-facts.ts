import { asRecord, type UnknownRecord } from '../../records/index.ts';
import { asText } from '../http/upstream.ts';
import type { EventSource } from '../kv-stream/event-sources.ts';

/** Engine that is started with a command line. */
export type ServerKind = 'vllm' | 'sglang';

/**
 * Facts about the ranks and the KV events of an engine from its command line, which is made of the settings, a file of
 * arguments and arguments that are passed on unchanged. They need no answer from the server, which few releases give.
 */
export interface LaunchFacts {
  /** Data-parallel ranks that its server takes requests for. */
  readonly ranks: number;
  /** Number of those ranks that run on this machine, and so publish here. */
  readonly local: number;
  /** The engine's number of the first rank: one of several servers may have only later ranks. */
  readonly firstRank: number;
  /** Publisher of events; undefined = none is configured. */
  readonly events: EventSource | undefined;
  /** Ranks of context parallelism, which share each block: it has as many times its tokens. @default 1 */
  readonly contextRanks?: number;
  /** Whether the engine reports how many tokens of a prompt were cached. @default false */
  readonly countsCached?: boolean;
}

const EVENTS_FLAG = '--kv-events-config';
/** Flags by which each engine takes the number of its ranks. */
const RANKS_FLAGS = { vllm: ['--data-parallel-size', '-dp'], sglang: ['--dp-size', '--data-parallel-size'] } as const;

/** Reads the arguments of an engine as its own parser does. */
export function launchFactsOf(args: readonly string[], kind: ServerKind): LaunchFacts {
  const countsCached = args.some((arg) => split(arg)[0] === '--enable-prompt-tokens-details');
  return { ...ranksIn(args, kind), events: eventsIn(args, kind), contextRanks: contextRanksIn(args), countsCached };
}

/** Returns the ranks of context parallelism, for decoding and, in earlier releases of vLLM, also for prompts. */
function contextRanksIn(args: readonly string[]): number {
  const decode = countOf(args, ['--decode-context-parallel-size', '-dcp', '--dcp-size']) ?? 1;
  return decode * (countOf(args, ['--prefill-context-parallel-size', '-pcp']) ?? 1);
}

/**
 * Reads the ranks. A server of vLLM may have all ranks, those of its machine (`-dpl`, with `-dpr` the first of them),
 * or a single one (`-dpn`). SGLang spreads its ranks evenly over its machines, the first of which has the server.
 */
function ranksIn(args: readonly string[], kind: ServerKind): Pick<LaunchFacts, 'ranks' | 'local' | 'firstRank'> {
  const ranks = countOf(args, RANKS_FLAGS[kind]) ?? 1;
  if (kind === 'sglang') {
    const perNode = Math.max(1, Math.floor(ranks / (countOf(args, ['--nnodes']) ?? 1)));
    return { ranks, local: perNode, firstRank: perNode * (countOf(args, ['--node-rank']) ?? 0) };
  }
  const only = countOf(args, ['--data-parallel-rank', '-dpn']);
  if (only !== undefined) return { ranks: 1, local: 1, firstRank: only };
  const local = Math.min(ranks, countOf(args, ['--data-parallel-size-local', '-dpl']) ?? ranks);
  const firstRank = countOf(args, ['--data-parallel-start-rank', '-dpr']) ?? 0;
  const isShared = firstRank > 0 || args.includes('--data-parallel-hybrid-lb') || args.includes('-dph');
  return { ranks: isShared ? Math.max(1, local) : ranks, local, firstRank };
}

/** Returns how many ports of one kind the ranks of this machine take, counted from that of rank 0. */
export function portsOfRanks({ firstRank, local }: LaunchFacts): number {
  return Math.max(1, firstRank + local);
}

/**
 * Returns the publisher that a configuration describes; undefined = none. Both engines name its fields alike; vLLM
 * needs an option to publish, SGLang the publisher's name.
 */
export function publisherOf(config: UnknownRecord, kind: ServerKind): EventSource | undefined {
  const publisher = asText(config.publisher) ?? (kind === 'vllm' ? 'zmq' : 'null');
  if (publisher === 'null') return undefined;
  if (kind === 'vllm' && config.enable_kv_cache_events !== true) return undefined;
  return configuredEvents(config, kind);
}

/** Returns where an engine with this configuration publishes. */
export function configuredEvents(config: UnknownRecord, kind: ServerKind): EventSource {
  const endpoint = asText(config.endpoint) ?? 'tcp://*:5557';
  return {
    endpoint,
    replayEndpoint: asText(config.replay_endpoint),
    topic: asText(config.topic) ?? '',
    ...(kind === 'sglang' ? sglangBinding(config, endpoint) : {}),
  };
}

/** Returns SGLang's binding: it treats one more address as a wildcard, and from 0.5.22 on has an option. */
function sglangBinding({ bind }: UnknownRecord, endpoint: string): Pick<EventSource, 'isBound'> {
  if (typeof bind === 'boolean') return { isBound: bind };
  return endpoint.includes('0.0.0.0') ? { isBound: true } : {};
}

function eventsIn(args: readonly string[], kind: ServerKind): EventSource | undefined {
  const config = kind === 'vllm' ? (fieldsIn(args) ?? jsonIn(args)) : jsonIn(args);
  return config && publisherOf(config, kind);
}

function jsonIn(args: readonly string[]): UnknownRecord | undefined {
  const text = lastValue(args, [EVENTS_FLAG]);
  return text === undefined ? undefined : asRecord(parsed(text));
}

/**
 * Reads fields such as `--kv-events-config.endpoint tcp://...`, which vLLM takes too; such words replace the whole,
 * wherever they stand.
 */
function fieldsIn(args: readonly string[]): UnknownRecord | undefined {
  const fields: Record<string, unknown> = {};
  for (const [at, arg] of args.entries()) {
    const [flag, value] = split(arg);
    if (!flag.startsWith(`${EVENTS_FLAG}.`)) continue;
    const text = value ?? args[at + 1] ?? '';
    fields[flag.slice(EVENTS_FLAG.length + 1).replaceAll('-', '_')] = parsed(text) ?? text;
  }
  return Object.keys(fields).length === 0 ? undefined : fields;
}

/** Returns the value of the last of these flags; undefined = none is present. */
function lastValue(args: readonly string[], names: readonly string[]): string | undefined {
  const at = args.findLastIndex((arg) => names.includes(split(arg)[0]));
  if (at < 0) return undefined;
  return split(args[at] ?? '')[1] ?? args[at + 1];
}

function countOf(args: readonly string[], names: readonly string[]): number | undefined {
  const value = lastValue(args, names);
  return value !== undefined && /^\d{1,5}$/.test(value) ? Number(value) : undefined;
}

/** Splits a flag: `--a_b=c` is `--a-b` with `c`. */
function split(arg: string): readonly [flag: string, value: string | undefined] {
  const end = arg.indexOf('=');
  const name = end < 0 ? arg : arg.slice(0, end);
  const flag = name.startsWith('--') ? name.replaceAll('_', '-') : name;
  return [flag, end < 0 ? undefined : arg.slice(end + 1)];
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // a text, or a value that the engine itself will refuse
  }
}
