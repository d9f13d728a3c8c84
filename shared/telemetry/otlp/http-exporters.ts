export { OTLPLogExporter } from '@opentelemetry/exporter-logs-otlp-proto';
export { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
