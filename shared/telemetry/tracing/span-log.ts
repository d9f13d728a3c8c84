import { toServeError } from '../../errors/index.ts';
import type { Logger } from '../log/logger.ts';
import type { Span, SpanSink } from './span.ts';

/** Logs the start and end of every span (`DYN_LOGGING_SPAN_EVENTS`). */
export function logSpans(logger: Logger): SpanSink {
  return {
    begun: (span) => logger.info('SPAN_FIRST_ENTRY', fieldsOf(span)),
    ended: (span) =>
      logger.info('SPAN_CLOSED', {
        ...fieldsOf(span),
        'time.duration_us': Math.round((span.durationMs ?? 0) * 1000),
        ...(span.error === undefined ? {} : { error: span.error }),
      }),
  };
}

function fieldsOf({ name, context, attributes }: Span): Record<string, unknown> {
  const { traceId: trace_id, spanId: span_id, parentSpanId: parent_id } = context;
  return { span_name: name, trace_id, span_id, ...(parent_id === undefined ? {} : { parent_id }), ...attributes };
}

/** Does `work`, which may go on in a promise, as a part of `parent`; without one it is simply done. */
export function inSpan<T>(parent: Span | undefined, name: string, work: () => T): T {
  if (parent === undefined) return work();
  const span = parent.child(name);
  const endFailed = (thrown: unknown): void => span.end(toServeError(thrown).code);
  try {
    const result = work();
    if (result instanceof Promise) result.then(() => span.end(), endFailed);
    else span.end();
    return result;
  } catch (thrown) {
    endFailed(thrown);
    throw thrown;
  }
}
