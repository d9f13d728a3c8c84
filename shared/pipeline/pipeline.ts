import type { ModelCard, ModelType } from '../discovery/index.ts';
import type { ServeError } from '../errors/index.ts';
import type { GenerationRequest, GenerationSink } from '../protocol/index.ts';
import { BoundedMap } from '../records/index.ts';
import type { WorkerPool } from '../router/index.ts';
import type { WorkerSetRecord } from '../scheduler/index.ts';
import type { RequestMeter } from '../telemetry/index.ts';
import type { Tokenizer } from '../tokens/index.ts';

/** One name that clients can ask for. Aliases are entries of their own with the same `primaryName`. */
export interface ServedModel {
  /** Name as listed and asked for. */
  readonly name: string;
  /** Name that answers carry. */
  readonly primaryName: string;
  /** Card of the worker set that serves it. */
  readonly card: ModelCard;
  /** Tokens; 0 = unknown. */
  readonly contextLength: number;
  /** For an adapter: the model that it adapts. @default the model is not an adapter, or that is unknown */
  readonly baseModel?: string;
  /**
   * Unix time in seconds at which the first known worker offered it. It is the same at every frontend that knows that
   * worker.
   */
  readonly createdSecs: number;
  readonly readiness: ModelReadiness;
  /**
   * Whether chats go to its workers as bodies, and their engine renders them and parses the answers
   * (`--dyn-chat-processor`). @default false
   */
  readonly passesChats?: boolean;
  /** Further worker sets that take requests now, each with a card of its own. @default none */
  readonly otherSets?: readonly Pick<ServedModel, 'card'>[] | undefined;
}

/** Returns whether a worker set of the model takes requests of that kind. */
export function servesType(
  { card, otherSets = [] }: Pick<ServedModel, 'card' | 'otherSets'>,
  type: ModelType,
): boolean {
  return card.model_type.includes(type) || otherSets.some((set) => set.card.model_type.includes(type));
}

/** A model whose workers are there, but which this process does not serve. */
export interface RefusedModel {
  readonly model: string;
  readonly reason: string;
}

/** Whether every worker role that a model needs is present in some namespace. */
export interface ModelReadiness {
  readonly isReady: boolean;
  readonly reason: string | undefined;
  readonly namespaces: Readonly<Record<string, NamespaceReadiness>>;
}

export interface NamespaceReadiness {
  readonly isReady: boolean;
  readonly reason: string | undefined;
  readonly workerTypes: Readonly<
    Record<string, { readonly workers: number; readonly needs: readonly (readonly string[])[] }>
  >;
  readonly missingWorkerTypes: readonly string[];
}

/** The models this process can serve, kept current from discovery. */
export interface ModelDirectory {
  /** Every registered name, ready or not, sorted by name. */
  list(): readonly ServedModel[];
  find(name: string): ServedModel | undefined;
  /** Also finds a model that no worker serves any more, for as long as it is remembered. Such a model is not ready. */
  known(name: string): ServedModel | undefined;
  /** Returns the models that are not served, and why. @default none */
  refused?(): readonly RefusedModel[];
  /** Whether only the models that requests have named are known here, so that there may be more. @default false */
  readonly isPart?: boolean;
}

export interface GenerateOptions {
  /**
   * Aborts when no client waits for the answer any more: the client left, cancelled the request, or its deadline has
   * passed.
   */
  readonly signal: AbortSignal;
  readonly meter: RequestMeter;
}

/** The life of one request between a dialect and a worker. */
export interface Pipeline {
  readonly models: ModelDirectory;
  /**
   * The models that requests can use, including remembered ones. If requests wait for workers (`--hold-timeout`), a
   * model without workers counts as ready.
   */
  readonly requestable: ModelDirectory;
  /** Thresholds that operators set with `/busy_threshold`. */
  readonly thresholds: BusyThresholds;
  /**
   * Serves `request` and writes its events to `sink`, the last of which is exactly one `end` or `fail`. If `signal`
   * aborts first, the sink gets no more events. Never throws.
   */
  generate(request: GenerationRequest, sink: GenerationSink, options: GenerateOptions): void;
  /**
   * Counts the tokens of the request's prompt with the model's own tokenizer and template, even if the model cannot be
   * served now. Resolves with undefined if only a worker could count: for unknown models, and models that take text.
   * Rejects with a ServeError if the prompt cannot be made or the model cannot be loaded.
   */
  countTokens(request: GenerationRequest): Promise<number | undefined>;
  /**
   * Returns the tokens of the request's prompt, made as for `countTokens`.
   * Rejects with a ServeError as `countTokens` does, and if only a worker could make them.
   * @param addsSpecialTokens whether the tokenizer adds its own tokens around a text
   */
  tokenize(request: GenerationRequest, addsSpecialTokens: boolean): Promise<PromptTokenIds>;
  /**
   * Returns the tokenizer of a model. Rejects with a ServeError if the model is unknown, has none here or cannot be
   * loaded.
   */
  vocabularyOf(model: string): Promise<{ readonly tokenizer: Tokenizer; readonly workerSet?: WorkerSetRecord }>;
  /**
   * Returns the text of a model's token ids; empty for models that take text, whose tokens only workers know.
   * Rejects with a ServeError if the model is unknown or cannot be loaded.
   */
  textOf(model: string, tokenIds: readonly number[]): Promise<string>;
}

/** A prompt in tokens. */
export interface PromptTokenIds {
  readonly tokenIds: Uint32Array;
  /** Context length of the model in tokens; 0 = unknown. */
  readonly contextLength: number;
  /** Returns a token as the vocabulary spells it. */
  readonly spelled: (id: number) => string | undefined;
  /** Worker set whose tokens they are, the one with the most workers; undefined if the model has only one. */
  readonly workerSet?: WorkerSetRecord;
}

/** One sending of a request. */
interface SentAttempt {
  readonly requestId: string;
  readonly model: string;
  readonly workerId: string;
  /** Worker that computes the prompt, if it is a different one. */
  readonly prefillWorkerId: string | undefined;
  readonly dpRank: number | undefined;
  readonly promptTokens: number;
  /** Prompt tokens that the worker has cached, as far as the router knows. */
  readonly cachedTokens: number;
  /** 1 for the first worker. */
  readonly attempt: number;
}

/** A request on its way to another worker. */
export interface RequestMove {
  readonly requestId: string;
  readonly model: string;
  /** Worker that failed; undefined if none had been chosen. */
  readonly workerId: string | undefined;
  /** Class of its failure. */
  readonly reason: string;
  /** Tokens that the client has already. */
  readonly outputTokens: number;
}

export type TimedStage = 'preprocess' | 'route' | 'transport_roundtrip' | 'postprocess';

/** A part of a request that a worker does: all of it, or the part of its pool. */
export type StagePhase = 'prefill' | 'decode' | 'aggregated';

export type MoveOutcome = 'success' | 'failure' | 'cancelled';

/** Observes how long the steps of requests take. Durations in milliseconds. */
export interface StageObserver {
  /**
   * A request was in `stage` for `ms`. `transport_roundtrip` lasts from sending the request until the first output, and
   * `postprocess` is all the time in which tokens of the answer became text.
   */
  stage(stage: TimedStage, ms: number): void;
  /**
   * A request entered `stage`, which lasts until `stageLeft` with the same arguments. In `dispatch` it was sent to a
   * worker that has not answered yet.
   */
  stageEntered(stage: 'preprocess' | 'route' | 'dispatch', phase?: StagePhase): void;
  stageLeft(stage: 'preprocess' | 'route' | 'dispatch', phase?: StagePhase): void;
  /** The time in which all tokens of an answer became text, extrapolated from a part of them, and their number. */
  detokenize(ms: number, tokens: number): void;
  /** Time from the end of a remote prefill to the first token of the decode worker. */
  kvTransferred(ms: number): void;
}

/** Observes how prompts become tokens. */
export interface PromptObserver {
  template(ms: number): void;
  tokenize(ms: number): void;
  /** An engine has made another number of tokens of a chat than this process did for its routing. */
  promptDiffers(model: string, tokens: number, engineTokens: number): void;
  /** A prompt was looked up in the cache of tokens, which had `cachedTokens` of its tokens. */
  tokenizerCache(model: string, cachedTokens: number, uncachedTokens: number): void;
}

/** Observes to which workers requests go. */
export interface RequestObserver {
  /** A request goes to the worker that was chosen for it. */
  sent(attempt: SentAttempt): void;
  /** Another worker has taken a request that one has failed, or wanted to hand over. */
  moved(move: RequestMove): void;
  migrated(model: string, type: 'new_request' | 'ongoing_request'): void;
  /** Time from the failure that made a request move until another worker has taken it, or no worker has. */
  migrationTook(model: string, type: 'new_request' | 'ongoing_request', outcome: MoveOutcome, ms: number): void;
  /** A request could not move because prompt and output exceed `--migration-max-seq-len`. */
  migrationTooLong(model: string): void;
  /** A decode worker computes a prompt because the prefill worker failed, or because there is none. */
  decodedAlone(model: string, failure?: ServeError): void;
  /** Media are encoded where the prompt is computed because the encode worker failed, or because there is none. */
  encodedInline(model: string, failure?: ServeError): void;
  /** Reports the outcome of the prompt of a next turn, which a worker should compute ahead. */
  speculated(model: string, outcome: SpeculationOutcome): void;
}

/** Observes what workers do. */
export interface WorkerObserver {
  /** A worker reports how many prompt tokens of a request it had cached. */
  reused(pool: WorkerPool, tokens: number): void;
  /** A worker made more tokens of a choice than requested. The client does not get the rest. */
  overran(model: string, workerId: string | undefined): void;
  /** A worker gets no new request until a canary passes. */
  workerStalled(model: string, workerId: string): void;
  /** The worker takes requests again, or has left discovery. */
  workerRecovered(model: string, workerId: string): void;
  /** A canary was sent to a stalled worker. */
  canary(outcome: 'passed' | 'failed'): void;
}

/** Time that each step of one request took, in milliseconds. Absent = the request did not come to that step. */
export interface RequestTimesRecord {
  readonly requestId: string;
  /** Name of the model in the request. */
  readonly model: string;
  /** `left`: its client left, or cancelled it. */
  readonly outcome: 'end' | 'failed' | 'left';
  /** Requests in the pipeline when it arrived, with itself. */
  readonly active: number;
  /** Tokens that became text here. */
  readonly tokens: number;
  readonly templateMs: number | undefined;
  readonly tokenizeMs: number | undefined;
  /** All of preprocessing, with `templateMs` and `tokenizeMs`. */
  readonly preprocessMs: number | undefined;
  readonly routeMs: number | undefined;
  /** From sending it to a worker until the first output. */
  readonly transportMs: number | undefined;
  /** From its arrival in the pipeline until the first part of the answer. */
  readonly firstOutputMs: number | undefined;
  /** Extrapolated from a part of the tokens. */
  readonly detokenizeMs: number | undefined;
  /** Stop strings, reasoning and tool calls. */
  readonly parseMs: number | undefined;
  /** Putting the answer into the client's dialect, and handing it to the socket. */
  readonly encodeMs: number | undefined;
  readonly totalMs: number;
}

/** Observes the steps inside the pipeline, for operators. An observer has methods only for the events that it wants. */
export interface PipelineObserver
  extends Partial<StageObserver>,
    Partial<PromptObserver>,
    Partial<RequestObserver>,
    Partial<WorkerObserver> {
  /** A request is over. Requests are timed only if an observer has this method. */
  timed?(times: RequestTimesRecord): void;
}

/**
 * Outcomes of computing the prompt of a next turn ahead.
 *
 * | Outcome | Meaning |
 * | --- | --- |
 * | done | a worker has computed it |
 * | nothing_new | no more is known of it than of the turn before |
 * | superseded | the turn itself came first |
 * | dropped | too many are under way, every worker is busy, or it took too long |
 * | failed | a worker failed it |
 */
export const SPECULATION_OUTCOMES = ['done', 'nothing_new', 'superseded', 'dropped', 'failed'] as const;

export type SpeculationOutcome = (typeof SPECULATION_OUTCOMES)[number];

/** Loads above which a worker of a model counts as busy; undefined = that load does not matter. */
export interface BusyThresholdValues {
  /** Share of a worker's KV blocks in use, 0 to 1. */
  readonly decodeBlocksShare?: number | undefined;
  /** Prompt tokens that a worker still has to compute. */
  readonly prefillTokens?: number | undefined;
  /** The same as a multiple of the worker's `max_num_batched_tokens`. */
  readonly prefillTokensFraction?: number | undefined;
}

/** Most models with thresholds of their own. Beyond that, the one that was set longest ago leaves. */
const MODELS_MAX = 1024;

/** Busy thresholds of every model: those of the settings, and those that operators set since. */
export class BusyThresholds {
  readonly #defaults: BusyThresholdValues;
  readonly #set = new BoundedMap<string, BusyThresholdValues>(MODELS_MAX);

  constructor(defaults: BusyThresholdValues = {}) {
    this.#defaults = defaults;
  }

  /** Returns the thresholds of a model. @param model primary name */
  of(model: string): BusyThresholdValues {
    return this.#set.get(model) ?? this.#defaults;
  }

  /** Replaces the values that are given and keeps the others. @param model primary name */
  set(model: string, values: BusyThresholdValues): BusyThresholdValues {
    const given = Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined));
    const merged: BusyThresholdValues = { ...this.of(model), ...given };
    this.#set.set(model, merged);
    return merged;
  }
}
