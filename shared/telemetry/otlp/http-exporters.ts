import { OTLPLogExporter } from '@opentelemetry/exporter-logs-otlp-proto';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import type { OtlpExporters } from './open-otlp.ts';

export const httpExporters: OtlpExporters = {
  spans: (options) => new OTLPTraceExporter(options),
  lines: (options) => new OTLPLogExporter(options),
};
