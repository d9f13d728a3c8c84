/** What is known of one request when it is over. Durations in milliseconds. */
export interface RequestEnd {
  readonly requestId: string;
  /** The client's own `x-request-id`. */
  readonly clientRequestId: string | undefined;
  readonly model: string;
  /** `chat_completions`, `completions`, ... */
  readonly endpoint: string;
  /** What the client got: 200 when a failure came inside of a stream, 499 when it had left. */
  readonly status: number;
  /** `error_type` of the metrics; undefined when the request succeeded. */
  readonly errorType: string | undefined;
  /** Unix time. */
  readonly receivedMs: number;
  readonly totalMs: number;
  readonly ttftMs: number | undefined;
  readonly inputTokens: number | undefined;
  readonly outputTokens: number | undefined;
  readonly cachedTokens: number | undefined;
  readonly agentContext: Readonly<Record<string, unknown>> | undefined;
}

/** Takes note of requests. Never throws, never waits. */
export interface RequestRecorder {
  requestEnded(end: RequestEnd): void;
  /** Writes what is pending. */
  close(): Promise<void>;
}

/** The record as JSON, in the shape that readers of Dynamo's traces know (`dynamo.request.trace.v1`). */
export function requestEndText(end: RequestEnd): string {
  return JSON.stringify({
    schema: 'dynamo.request.trace.v1',
    event_type: 'request_end',
    event_time_unix_ms: Math.round(end.receivedMs + end.totalMs),
    event_source: 'dynamo',
    agent_context: end.agentContext,
    request: {
      request_id: end.requestId,
      x_request_id: end.clientRequestId,
      model: end.model,
      endpoint: end.endpoint,
      status: end.status,
      error_type: end.errorType,
      input_tokens: end.inputTokens,
      output_tokens: end.outputTokens,
      cached_tokens: end.cachedTokens,
      request_received_ms: end.receivedMs,
      ttft_ms: end.ttftMs,
      total_time_ms: end.totalMs,
      avg_itl_ms: averageItlMs(end),
    },
  });
}

function averageItlMs({ ttftMs, totalMs, outputTokens = 0 }: RequestEnd): number | undefined {
  return ttftMs === undefined || outputTokens < 2 ? undefined : (totalMs - ttftMs) / (outputTokens - 1);
}
