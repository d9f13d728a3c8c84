export { OTLPLogExporter } from '@opentelemetry/exporter-logs-otlp-grpc';
export { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-grpc';
