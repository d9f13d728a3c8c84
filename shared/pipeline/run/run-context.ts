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
import type { StreamWatch } from './stalled-workers.ts';

/** What every leg of every request of one pipeline shares. */
export interface DispatchContext {
  readonly router: Router<Worker>;
  readonly plane: RequestPlane;
  readonly clock: Clock;
  readonly observer: PipelineObserver;
  /** Undefined when silent workers are waited for without end. */
  readonly streamWatch: StreamWatch | undefined;
  /** Workers that get no new request. */
  readonly stalledWorkers: ReadonlySet<string>;
  /** Workers that failed a request, which the router passes over. */
  readonly failedWorkers: Inhibition;
  /** Workers that turned a request away because they are full: passed over until their next report, while another is left. */
  readonly fullWorkers: Inhibition;
  /** Told of a worker that no connection could be made to. @default nobody is */
  readonly onUnreachable?: ((workerId: string) => void) | undefined;
  /** Those of `workers` that are above the busy thresholds of `model`; undefined where it has none. */
  busyOf(model: RoutableModel, workers: readonly Worker[]): ReadonlySet<string> | undefined;
}

/** What every attempt of every run of one pipeline shares. */
export interface RunContext extends DispatchContext {
  /** Times that one request may move to another worker. */
  readonly migrationLimit: number;
  /** Prompt plus output above this is no longer moved; undefined = no limit. */
  readonly migrationTokensMax: number | undefined;
  /** Where requests wait while nobody can take them; undefined = they fail. */
  readonly hold: ColdStartQueue | undefined;
  /** The pool of `model` now, with those who may take its requests. */
  poolOf(model: RoutableModel): WorkersOfPool;
}

/** What of a request is the same at every worker that it is sent to. */
export interface RoutedRequest {
  readonly model: RoutableModel;
  /** What travels beside it: trace context, the client's request id, its metadata. */
  readonly headers: Readonly<Record<string, string>>;
  /** Its queue class: the header `x-dynamo-meta-policy-class` without its prefix. */
  readonly policyClass: string | undefined;
  /** Of a chat. */
  readonly messages: readonly ChatMessage[] | undefined;
  /** Of a chat with media that its worker renders. */
  readonly media: MediaPrompt | undefined;
  /** Of the request, where spans are made. */
  readonly span: Span | undefined;
  readonly signal: AbortSignal;
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
