import type { Clock } from '../../clock/index.ts';
import type { RequestPlane } from '../../planes/index.ts';
import { type ChatMessage, type GenerationRequest, MOVES_HEADER } from '../../protocol/index.ts';
import type { Router } from '../../router/index.ts';
import type { Inhibition } from '../../scheduler/index.ts';
import type { Span } from '../../telemetry/index.ts';
import type { RoutableModel, Worker, WorkersOfPool } from '../models/routable-model.ts';
import type { PipelineObserver } from '../pipeline.ts';
import type { MediaPrompt } from '../prompt/media-prompt.ts';
import type { ColdStartQueue } from './cold-start-queue.ts';
import type { Stalled } from './stalled-workers.ts';
import type { StreamWatch } from './stream-watch.ts';

/** Dependencies that all stages of all requests of one pipeline share. */
export interface DispatchContext {
  readonly router: Router<Worker>;
  readonly plane: RequestPlane;
  readonly clock: Clock;
  readonly observer: PipelineObserver;
  /** Watches streams for silent workers; undefined = requests wait for them without a limit. */
  readonly streamWatch: StreamWatch | undefined;
  /** Workers that get no new request. */
  readonly stalledWorkers: Stalled;
  /** Workers that failed a request, which the router passes over. */
  readonly failedWorkers: Inhibition;
  /**
   * Workers that turned a request away because they are full: passed over until their next report, while another is
   * left.
   */
  readonly fullWorkers: Inhibition;
  /** Called with a worker to which no connection could be made. @default nothing is called */
  readonly onUnreachable?: ((workerId: string) => void) | undefined;
  /** Returns whether the id of a worker has another address now. @default no id has */
  readonly isReplaced?: ((worker: Worker) => boolean) | undefined;
  /** Returns those of `workers` that are above the busy thresholds of `model`; undefined if it has no thresholds. */
  busyOf(model: RoutableModel, workers: readonly Worker[]): ReadonlySet<string> | undefined;
}

/** Dependencies that all attempts of all runs of one pipeline share. */
export interface RunContext extends DispatchContext {
  /** How often one request may move to another worker. */
  readonly migrationLimit: number;
  /** Tokens of prompt and output above which a request no longer moves; undefined = no limit. */
  readonly migrationTokensMax: number | undefined;
  /** Queue of requests that no worker can take; undefined = such requests fail. */
  readonly hold: ColdStartQueue | undefined;
  /** Returns the pool of `model` now, with the workers that may take its requests. */
  poolOf(model: RoutableModel): WorkersOfPool;
}

/** The parts of a request that are the same at every worker. */
export interface RoutedRequest {
  readonly model: RoutableModel;
  /** Headers of the request: trace context, the client's request id, its metadata. */
  readonly headers: Readonly<Record<string, string>>;
  /** Queue class of the request: the header `x-dynamo-meta-policy-class` without its prefix. */
  readonly policyClass: string | undefined;
  /** Messages of a chat; undefined for other prompts. */
  readonly messages: readonly ChatMessage[] | undefined;
  /** Media of a chat that its worker renders. */
  readonly media: MediaPrompt | undefined;
  /** Span of the request; undefined if no spans are made. */
  readonly span: Span | undefined;
  readonly signal: AbortSignal;
  /**
   * Returns a function that serves the request with another worker set of its model; undefined if there is none, or if
   * the client has received a part of the answer. @default there is none
   */
  readonly elsewhere?: (() => (() => void) | undefined) | undefined;
}

export function routedRequest(
  { prompt, trace, metadata }: GenerationRequest,
  model: RoutableModel,
  signal: AbortSignal,
  media?: MediaPrompt,
): RoutedRequest {
  const headers: Record<string, string> = { ...metadata, [MOVES_HEADER]: '1' };
  if (trace.traceparent !== undefined) headers.traceparent = trace.traceparent;
  if (trace.tracestate !== undefined) headers.tracestate = trace.tracestate;
  if (trace.requestId !== undefined) headers['x-request-id'] = trace.requestId;
  const messages = prompt.kind === 'chat' ? prompt.messages : undefined;
  return { model, headers, policyClass: metadata['policy-class'], messages, media, span: trace.span, signal };
}
