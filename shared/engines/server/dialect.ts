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
import type { LaunchFacts } from './launch-facts.ts';
import { stopIds } from './token-reader.ts';

/** HTTP server of an engine, for requests that do not come from clients. */
export interface EngineServer {
  /**
   * Sends a message and returns the whole answer, whatever its status. Rejects when there is none within the limit
   * (default 5000).
   */
  ask(message: UpstreamMessage, timeoutMs?: number): Promise<UpstreamAnswer>;
}

/** Server of an engine that may answer slowly right after loading; unanswered messages are sent again. */
export interface StartingServer extends EngineServer {
  /** Sends a message that start-up can do without, once. */
  askOnce(message: UpstreamMessage, timeoutMs?: number): Promise<UpstreamAnswer>;
}

/** Information that an engine gives about itself. */
export interface Probed {
  readonly info: EngineInfo;
  readonly events: EventPlan;
  readonly version: string | undefined;
  /** Routes in use, for the log. */
  readonly ways: Readonly<Record<string, string>>;
}

/** Additions to a chat that goes to the engine as the client wrote it. */
export interface ChatExtras {
  /** Fields that replace those of the body; undefined values are left out. */
  readonly fields: Readonly<Record<string, unknown>>;
  readonly headers: Readonly<Record<string, string>>;
}

/** Request with token ids as input. */
export type TokenRequest = EngineRequest & { readonly input: { readonly kind: 'tokens' } };

/**
 * Differences between the servers of engines: requests and answers on one side, questions about the server on the
 * other.
 */
export interface EngineDialect {
  readonly kind: 'vllm' | 'sglang' | 'trtllm';
  /** Status of the health check that means permanently dead; undefined = there is none. */
  readonly deadStatus?: number;
  /** Path of its metrics in Prometheus' text format. @default '/metrics' */
  readonly metricsPath?: string;
  readonly loadMetrics: LoadMetrics;
  /** Metrics of the sum and count of the time between tokens, in seconds; those of older versions follow. */
  readonly latencyMetrics: readonly (readonly [sum: string, count: string])[];
  /**
   * Asks a healthy server for its information and abilities. Rejects with a message that says what to change.
   * @param launchFacts facts from its command line; undefined if that is unknown
   */
  probe(server: StartingServer, launchFacts: LaunchFacts | undefined): Promise<Probed>;
  /** Plans a request. @throws ServeError when the engine cannot do it */
  plan(request: TokenRequest, sink: EngineSink): Plan;
  /**
   * Returns what the engine's own chat endpoint gets besides the client's body: fields in its words, and headers.
   * @default the headers for tracing
   */
  planChat?(request: EngineRequest): ChatExtras;
  /** Aborts a request whose connection is already closed; undefined if closing is enough. */
  abort?(request: EngineRequest): UpstreamMessage;
  /** Follows the KV events of a server that does not publish them by ZeroMQ; undefined = it has none. */
  followEvents?(info: EngineInfo, deps: FeedDeps): EventFeed | undefined;
  /**
   * Message that makes the server clear its cache, by POST. An absent message, here and below, means that it cannot.
   */
  readonly clearKvBlocks?: UpstreamMessage;
  /**
   * Whether some releases leave the cache unchanged while requests run, but answer that they have cleared it. @default
   * false
   */
  readonly clearsInSilence?: boolean;
  sleep?(level: number): UpstreamMessage;
  wake?(tags: readonly string[]): UpstreamMessage;
  /** Paths for loading and unloading an adapter. */
  readonly loadLora?: string;
  readonly unloadLora?: string;
}

/** Feed of an engine's KV events. */
export interface EventFeed {
  /** Opens the feed. Rejects when the events cannot be followed. */
  open(): Promise<void>;
  /** Requests the engine's earlier events, as far as it still has them. */
  catchUp(): void;
  listen(listener: (events: readonly KvEvent[]) => void): void;
  /** Handles that the engine has cleared its cache. */
  clear(): void;
  /** Handles a new process of the engine. */
  restart(): void;
  close(): Promise<void>;
}

export interface FeedDeps extends EventOutletOptions {
  readonly server: EngineServer;
  readonly clock: Clock;
}

/** Returns the JSON object at `path`; undefined when the server has no such route or answers something else. */
export async function getRecord(server: EngineServer, path: string): Promise<UnknownRecord | undefined> {
  const { status, text } = await server.ask({ path });
  const body = status === 200 ? jsonOrText(text) : undefined;
  return asRecord(body);
}

/** Returns a positive whole number, which may be written as text; undefined for anything else. */
export function asCount(value: unknown): number | undefined {
  const number = typeof value === 'string' && value !== '' ? Number(value) : value;
  return typeof number === 'number' && Number.isInteger(number) && number > 0 ? number : undefined;
}

/** Field of a request with its name in an engine. */
export interface FieldRow {
  /** Name for messages, as clients know it. */
  readonly ours: string;
  /**
   * Name in the engine; undefined = the engine cannot honour it and the request is refused; null = it has no effect
   * there.
   */
  readonly theirs: string | undefined | null;
  /** Reads the field; undefined = not set. */
  read(request: EngineRequest): unknown;
}

/**
 * Returns the fields of `request` under the engine's names, by its table.
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

/** Returns a row for a sampling option that is passed on unchanged. */
export function sampling(ours: keyof Sampling & string, theirs: string | undefined | null = ours): FieldRow {
  return { ours, theirs, read: (request) => request.sampling[ours] };
}

/** Returns `best_of` if it asks for more samples than are returned; the same number equals `n`. */
function bestOf({ sampling }: EngineRequest): number | undefined {
  return sampling.best_of === undefined || sampling.best_of === (sampling.n ?? 1) ? undefined : sampling.best_of;
}

export function nonEmpty<T>(list: readonly T[] | undefined): readonly T[] | undefined {
  return list === undefined || list.length === 0 ? undefined : list;
}

/**
 * Options that every engine takes under their own names, or none takes. The frontend handles `stop` strings,
 * `include_stop_str_in_output` and `detokenize`, as the engine gives tokens; `length_penalty` matters only for beam
 * search.
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

/** Returns the kind of `guided` that is set; an empty list of choices counts as unset. */
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

/** Returns a JSON value as text; a text is already JSON. */
export function jsonText(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** Writes the body of a request with its prompt ids, without an intermediate list of numbers. */
export function bodyWithIds(name: string, ids: Uint32Array, fields: Readonly<Record<string, unknown>>): string {
  const rest = JSON.stringify(fields);
  return `{"${name}":[${ids.join(',')}]${rest === '{}' ? '' : `,${rest.slice(1, -1)}`}}`;
}

export const EMBEDDINGS = '/v1/embeddings';
export const CHATS = '/v1/chat/completions';

/** Plans a request for an embedding, with `own` fields of the engine. */
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

/** Returns the parameters of a KV transfer from a prefill worker. */
export function transferParams(request: EngineRequest): unknown {
  return asRecord(request.prefillResult?.disaggregated_params)?.kv_transfer_params ?? undefined;
}
