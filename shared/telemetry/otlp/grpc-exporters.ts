import { OTLPLogExporter } from '@opentelemetry/exporter-logs-otlp-grpc';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-grpc';
import type { OtlpExporters } from './open-otlp.ts';

export const grpcExporters: OtlpExporters = {
  spans: (options) => new OTLPTraceExporter(options),
  lines: (options) => new OTLPLogExporter(options),
};
