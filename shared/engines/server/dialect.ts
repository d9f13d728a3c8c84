import type { Clock } from '../../clock/index.ts';
import { workerError } from '../../errors/index.ts';
import type { EngineRequest, GuidedDecoding } from '../../protocol/index.ts';
import { asRecord, type UnknownRecord } from '../../records/index.ts';
import type { Plan } from '../http/exchange.ts';
import { EmbeddingReader } from '../http/openai-wire.ts';
import { jsonOrText, type UpstreamAnswer, type UpstreamMessage } from '../http/upstream.ts';
import type { EventOutletOptions } from '../kv-stream/event-outlet.ts';
import type { EngineInfo, EngineSink, KvEvent } from '../types.ts';
import type { LoadMetrics } from './engine-metrics.ts';
import type { EventPlan } from './followed-events.ts';
import { stopIds } from './token-reader.ts';
import type { Told } from './told.ts';

/** The HTTP server of an engine, for questions that are no requests of clients. */
export interface EngineServer {
  /** A whole answer, whatever its status. Rejects when there is none within the limit (default 5000). */
  ask(message: UpstreamMessage, timeoutMs?: number): Promise<UpstreamAnswer>;
}

/** An engine that may be slow to answer right after it has loaded, and is asked again then. */
export interface StartingServer extends EngineServer {
  /** Asks for what a start can do without, and not again. */
  askOnce(message: UpstreamMessage, timeoutMs?: number): Promise<UpstreamAnswer>;
}

/** What an engine said of itself. */
export interface Probed {
  readonly info: EngineInfo;
  readonly events: EventPlan;
  readonly version: string | undefined;
  /** In words, for the log: which of its ways are used. */
  readonly ways: Readonly<Record<string, string>>;
}

/** A request that gives tokens. */
export type TokenRequest = EngineRequest & { readonly input: { readonly kind: 'tokens' } };

/** What differs from one engine server to another. Requests and answers in one place, questions in another. */
export interface EngineDialect {
  readonly kind: 'vllm' | 'sglang' | 'trtllm';
  /** Answer of the health check that means dead for good; undefined = there is none. */
  readonly deadStatus?: number;
  /** Where its metrics are in Prometheus' text format. @default '/metrics' */
  readonly metricsPath?: string;
  readonly loadMetrics: LoadMetrics;
  /** Sum and count of the time between tokens, in seconds; what older versions call it behind it. */
  readonly latencyMetrics: readonly (readonly [sum: string, count: string])[];
  /**
   * Asks a server that is up what it is and can do. Rejects with what to change.
   * @param told by its command line; undefined where nobody knows that
   */
  probe(server: StartingServer, told: Told | undefined): Promise<Probed>;
  /** @throws ServeError when the engine cannot do what is asked */
  plan(request: TokenRequest, sink: EngineSink): Plan;
  /** Stops a request whose connection is closed already; undefined where closing is enough. */
  abort?(request: EngineRequest): UpstreamMessage;
  /** Follows the KV events of a server that does not publish them by ZeroMQ; undefined = it tells of none. */
  followEvents?(info: EngineInfo, deps: FeedDeps): EventFeed | undefined;
  /** What tells the server to, by POST; so do the next two. Absent = it cannot, as of the rest. */
  readonly clearKvBlocks?: UpstreamMessage;
  /** Some releases leave the cache as it is while requests run, and answer that they have emptied it. @default false */
  readonly clearsInSilence?: boolean;
  sleep?(level: number): UpstreamMessage;
  wake?(tags: readonly string[]): UpstreamMessage;
  /** Paths that take an adapter. */
  readonly loadLora?: string;
  readonly unloadLora?: string;
}

/** The KV events of an engine, as they come. */
export interface EventFeed {
  /** Rejects when they cannot be had. */
  open(): Promise<void>;
  /** Asks for what the engine has said before, as far as it can say it again. */
  catchUp(): void;
  listen(listener: (events: readonly KvEvent[]) => void): void;
  /** The engine has forgotten everything. */
  clear(): void;
  /** The engine's process is a new one. */
  restart(): void;
  close(): Promise<void>;
}

export interface FeedDeps extends EventOutletOptions {
  readonly server: EngineServer;
  readonly clock: Clock;
}

/** The JSON object at `path`; undefined when the server has no such route or answers something else. */
export async function getRecord(server: EngineServer, path: string): Promise<UnknownRecord | undefined> {
  const { status, text } = await server.ask({ path });
  const body = status === 200 ? jsonOrText(text) : undefined;
  return asRecord(body);
}

/** A positive whole number, also one that is written as text. */
export function asCount(value: unknown): number | undefined {
  const number = typeof value === 'string' && value !== '' ? Number(value) : value;
  return typeof number === 'number' && Number.isInteger(number) && number > 0 ? number : undefined;
}

/** One field of a request and what an engine calls it. */
export interface FieldRow {
  /** Name for messages, as clients know it. */
  readonly ours: string;
  /** Where it goes; undefined = the engine cannot do it and the request is refused; null = it changes nothing there. */
  readonly theirs: string | undefined | null;
  /** Undefined = not asked for. */
  read(request: EngineRequest): unknown;
}

/**
 * The fields of `request` under the engine's names, by its table.
 * @throws ServeError that names a field which the engine cannot honour
 */
export function mapFields(table: readonly FieldRow[], request: EngineRequest, engine: string): Record<string, unknown> {
  const fields: Record<string, unknown> = {};
  for (const { ours, theirs, read } of table) {
    if (theirs === null) continue;
    const value = read(request);
    if (value === undefined || value === null) continue;
    if (theirs === undefined) {
      throw workerError('InvalidArgument', `${ours} is not supported by ${engine}`, { param: ours });
    }
    fields[theirs] = value;
  }
  return fields;
}

type Sampling = EngineRequest['sampling'];

/** A row for a sampling option that is passed on as it is. */
export function sampling(ours: keyof Sampling & string, theirs: string | undefined | null = ours): FieldRow {
  return { ours, theirs, read: (request) => request.sampling[ours] };
}

/** Sampling from more than are returned; the same number is no more than `n`. */
function bestOf({ sampling }: EngineRequest): number | undefined {
  return sampling.best_of === undefined || sampling.best_of === (sampling.n ?? 1) ? undefined : sampling.best_of;
}

export function nonEmpty<T>(list: readonly T[] | undefined): readonly T[] | undefined {
  return list === undefined || list.length === 0 ? undefined : list;
}

/**
 * Options that every engine takes under their own names, or none takes: `stop` strings, `include_stop_str_in_output` and
 * `detokenize` are the frontend's, as the engine gives tokens; `length_penalty` means something for beam search alone.
 */
export const COMMON_SAMPLING_FIELDS: readonly FieldRow[] = [
  sampling('n'),
  sampling('presence_penalty'),
  sampling('frequency_penalty'),
  sampling('repetition_penalty'),
  sampling('temperature'),
  sampling('top_p'),
  sampling('min_p'),
  sampling('logit_bias'),
  sampling('length_penalty', null),
  sampling('include_stop_str_in_output', null),
  sampling('detokenize', null),
  { ours: 'bad_words_token_ids', theirs: undefined, read: ({ sampling }) => nonEmpty(sampling.bad_words_token_ids) },
  { ours: 'use_beam_search', theirs: undefined, read: ({ sampling }) => sampling.use_beam_search || undefined },
  { ours: 'best_of', theirs: undefined, read: bestOf },
  { ours: 'ignore_eos', theirs: 'ignore_eos', read: ({ stop }) => stop.ignore_eos },
  { ours: 'stop_token_ids', theirs: 'stop_token_ids', read: ({ stop }) => nonEmpty(stopIds(stop)) },
];

/** The kind of `guided` that is set; an empty list of choices counts as unset. */
export function guidedKind(
  guided: GuidedDecoding | undefined,
): 'json' | 'regex' | 'choice' | 'grammar' | 'structural_tag' | undefined {
  if (guided === undefined) return undefined;
  if (guided.json !== undefined) return 'json';
  if (guided.regex !== undefined) return 'regex';
  if (guided.choice !== undefined && guided.choice.length > 0) return 'choice';
  if (guided.grammar !== undefined) return 'grammar';
  return guided.structural_tag === undefined ? undefined : 'structural_tag';
}

/** A JSON value as text; a text is taken for JSON already. */
export function jsonText(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** The body of a request with its prompt ids, which are written without a list of numbers in between. */
export function bodyWithIds(name: string, ids: Uint32Array, fields: Readonly<Record<string, unknown>>): string {
  const rest = JSON.stringify(fields);
  return `{"${name}":[${ids.join(',')}]${rest === '{}' ? '' : `,${rest.slice(1, -1)}`}}`;
}

export const EMBEDDINGS = '/v1/embeddings';

/** A request for an embedding, with `own` fields of the engine's. */
export function planEmbedding(
  { embedding, input }: TokenRequest,
  sink: EngineSink,
  headers: Readonly<Record<string, string>>,
  own: Readonly<Record<string, unknown>>,
): Plan {
  const dimensions = embedding?.dimensions;
  const body = bodyWithIds('input', input.tokenIds, { ...own, ...(dimensions === undefined ? {} : { dimensions }) });
  return { message: { path: EMBEDDINGS, body, headers }, reader: new EmbeddingReader(sink) };
}

/** Parameters of a KV transfer that a prefill worker gave. */
export function transferParams(request: EngineRequest): unknown {
  return asRecord(request.prefillResult?.disaggregated_params)?.kv_transfer_params ?? undefined;
}
