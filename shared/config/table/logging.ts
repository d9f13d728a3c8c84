import { edges, fleet } from '../row.ts';

const PROTOCOLS = ['grpc', 'http/protobuf'] as const;

/** The protocol of one signal: that of all, unless it has its own. */
const signalProtocol = (env: string, signal: string) =>
  fleet.choice({
    names: env,
    values: PROTOCOLS,
    decide: (facts) => facts.read('otelExporterOtlpProtocol') as (typeof PROTOCOLS)[number], // a row above, which has a value
    defaultText: 'that of OTEL_EXPORTER_OTLP_PROTOCOL',
    about: `OTLP protocol of ${signal}.`,
  });

/** Rows of "Logging and tracing". */
export const loggingRows = {
  dumpConfigTo: fleet.file({
    names: '--dump-config-to DYN_DUMP_CONFIG_TO',
    written: true,
    source: 'Dynamo',
    about: 'Writes the resolved configuration, secrets hidden.',
  }),
  log: fleet.logFilter({
    names: 'DYN_LOG',
    default: 'info',
    about: 'Log levels: error, warn, info, debug, trace, off.',
  }),
  loggingJsonl: fleet.bool({
    names: 'DYN_LOGGING_JSONL',
    defaultFor: { function: true },
    about: 'One JSON object per log line.',
  }),
  loggingSpanEvents: fleet.bool({
    names: 'DYN_LOGGING_SPAN_EVENTS',
    about: 'Logs the start and end of spans.',
  }),
  logUseLocalTz: fleet.bool({
    names: 'DYN_LOG_USE_LOCAL_TZ',
    about: 'Local time instead of UTC.',
  }),
  otelExportEnabled: fleet.bool({
    names: 'OTEL_EXPORT_ENABLED',
    about: 'Exports traces and logs.',
  }),
  otelExporterOtlpEndpoint: fleet.url({
    names: 'OTEL_EXPORTER_OTLP_ENDPOINT',
    default: 'http://localhost:4317',
    about: 'OTLP collector.',
  }),
  otelExporterOtlpTracesEndpoint: fleet.url({
    names: 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT',
    about: 'Endpoint of traces, used as it is.',
  }),
  otelExporterOtlpLogsEndpoint: fleet.url({
    names: 'OTEL_EXPORTER_OTLP_LOGS_ENDPOINT',
    about: 'Endpoint of logs, used as it is.',
  }),
  otelExporterOtlpProtocol: fleet.choice({
    names: 'OTEL_EXPORTER_OTLP_PROTOCOL',
    values: PROTOCOLS,
    default: 'grpc',
    about: 'OTLP protocol.',
  }),
  otelExporterOtlpTracesProtocol: signalProtocol('OTEL_EXPORTER_OTLP_TRACES_PROTOCOL', 'traces'),
  otelExporterOtlpLogsProtocol: signalProtocol('OTEL_EXPORTER_OTLP_LOGS_PROTOCOL', 'logs'),
  otelServiceName: fleet.text({
    names: 'OTEL_SERVICE_NAME',
    default: 'dynamo',
    about: 'Service name in spans.',
  }),
  otelTracesSampleRatio: fleet.decimal({
    names: 'OTEL_TRACES_SAMPLE_RATIO',
    range: { min: 0, max: 1 },
    default: 1,
    source: '1.6.1; default unconfirmed',
    about: 'Share of sampled traces.',
  }),
  requestTrace: edges.text({
    names: 'DYN_REQUEST_TRACE',
    allowed: 'a switch, or sinks: file, stderr',
    defaultText: 'unset = off',
    about: 'Takes a record of every request.',
  }),
  requestTraceSinks: edges.choices({
    names: 'DYN_REQUEST_TRACE_SINKS',
    values: ['file', 'stderr'],
    default: ['file'],
    about: 'Where request records go.',
  }),
  requestTraceFilePath: edges.text({
    names: 'DYN_REQUEST_TRACE_FILE_PATH',
    olderNames: 'DYN_REQUEST_TRACE_OUTPUT_PATH',
    default: '/tmp/dynamo-request-trace',
    about: 'File of request records; the start of segment names when they are compressed.',
  }),
  requestTraceFileFormat: edges.choice({
    names: 'DYN_REQUEST_TRACE_FILE_FORMAT',
    values: ['jsonl', 'jsonl_gz'],
    default: 'jsonl_gz',
    about: 'Format of the file of request records.',
  }),
  requestTraceCapacity: edges.int({
    names: 'DYN_REQUEST_TRACE_CAPACITY',
    range: { min: 1 },
    default: 1024,
    about: 'Request records that may wait to be written; later ones are dropped and counted.',
  }),
};
