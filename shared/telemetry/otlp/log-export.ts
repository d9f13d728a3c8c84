import { ROOT_CONTEXT, trace } from '@opentelemetry/api';
import type { LoggerProvider } from '@opentelemetry/sdk-logs';
import type { LogLevel } from '../log/filter.ts';
import type { LineWriter } from '../log/lines.ts';
import { hideSecretText, toLoggable } from '../log/loggable.ts';

/** Severity numbers of OpenTelemetry. */
const SEVERITY = { error: 17, warn: 13, info: 9, debug: 5 } as const satisfies Record<LogLevel, number>;

/** Log lines as log records: secrets hidden as in the line, and of the span that the line names. */
export function exportLines(provider: LoggerProvider): LineWriter {
  const logger = provider.getLogger('stator');
  return {
    write(level, target, message, bindings, _shown, full) {
      const { trace_id: traceId, span_id: spanId, ...plain } = toLoggable(bindings, full);
      const attributes: Record<string, string | number | boolean> = { target };
      for (const name in plain) attributes[name] = attributeOf(plain[name]);
      const isOfSpan = typeof traceId === 'string' && typeof spanId === 'string';
      logger.emit({
        severityNumber: SEVERITY[level],
        severityText: level.toUpperCase(),
        body: hideSecretText(message),
        attributes,
        context: isOfSpan ? trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags: 1 }) : ROOT_CONTEXT,
      });
    },
  };
}

function attributeOf(value: unknown): string | number | boolean {
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
    ? value
    : JSON.stringify(value);
}
