import type { Reservation } from '../router/index.ts';
import type { Span } from '../telemetry/index.ts';
import type { Worker } from './model-directory.ts';

/**
 * The span of one request at one worker, from sending it until leaving it.
 *
 * @param parent of the request; undefined where no spans are made
 * @param links the attempt before, the prefill that this decode goes on from
 */
export function dispatchSpan(
  parent: Span | undefined,
  phase: 'prefill' | 'decode',
  { worker, dpRank }: Reservation<Worker>,
  links: readonly Span['context'][] = [],
): Span | undefined {
  return parent?.child('dispatch', {
    kind: 'client',
    attributes: { phase, worker_id: worker.id, dp_rank: dpRank },
    links,
  });
}

/** What tells a worker whose part its work is; nothing where no spans are made: it goes on from the request's own headers. */
export function traceHeaders(span: Span | undefined): Readonly<Record<string, string>> {
  return span === undefined ? {} : { traceparent: span.context.traceparent };
}
