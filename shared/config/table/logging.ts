import { edges, fleet, rowsFor } from '../row.ts';

const loggers = rowsFor(...fleet.usedBy, 'host');

const PROTOCOLS = ['grpc', 'http/protobuf'] as const;

const SAMPLERS = [
  'always_on',
  'always_off',
  'traceidratio',
  'parentbased_always_on',
  'parentbased_always_off',
  'parentbased_traceidratio',
] as const;

/** Returns the row that turns the export of one signal off. */
const signalExporter = (names: string, signal: string) =>
  fleet.choice({
    names,
    values: ['otlp', 'none'],
    default: 'otlp',
    source: 'OpenTelemetry',
    about: `Where ${signal} go: to the collector, or nowhere.`,
  });

/** Returns the row for the protocol of one signal, which by default is the protocol of all signals. */
const signalProtocol = (env: string, signal: string) =>
  fleet.choice({
    names: env,
    values: PROTOCOLS,
    decide: (facts) => facts.read('otelExporterOtlpProtocol') as (typeof PROTOCOLS)[number], // a row above
    defaultText: 'that of OTEL_EXPORTER_OTLP_PROTOCOL',
    about: `OTLP protocol of ${signal}.`,
  });

/** Rows of "Logging and tracing". */
export const loggingRows = {
  dumpConfigTo: loggers.file({
    names: '--dump-config-to DYN_DUMP_CONFIG_TO',
    written: true,
    source: 'Dynamo',
    about: 'Writes the resolved configuration, secrets hidden.',
  }),
  log: loggers.logFilter({
    names: 'DYN_LOG',
    default: 'info',
    about: 'Log levels: error, warn, info, debug, trace, off.',
  }),
  loggingJsonl: loggers.bool({
    names: 'DYN_LOGGING_JSONL',
    defaultFor: { function: true },
    about: 'One JSON object per log line.',
  }),
  loggingSpanEvents: fleet.bool({
    names: 'DYN_LOGGING_SPAN_EVENTS',
    about: 'Logs the start and end of spans.',
  }),
  logUseLocalTz: loggers.bool({
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
  otelExporterOtlpTimeoutMs: fleet.int({
    names: 'OTEL_EXPORTER_OTLP_TIMEOUT',
    range: { min: 1, unit: 'ms' },
    default: 5000,
    source: 'OpenTelemetry',
    about: 'Deadline of an export; a batch that the collector has not accepted by then is lost.',
  }),
  otelBspScheduleDelayMs: fleet.int({
    names: 'OTEL_BSP_SCHEDULE_DELAY',
    range: { min: 1, unit: 'ms' },
    default: 5000,
    source: 'OpenTelemetry',
    about: 'Longest time that a span waits for others before it is sent.',
  }),
  otelBlrpScheduleDelayMs: fleet.int({
    names: 'OTEL_BLRP_SCHEDULE_DELAY',
    range: { min: 1, unit: 'ms' },
    default: 1000,
    source: 'OpenTelemetry',
    about: 'Longest time that a log line waits for others before it is sent.',
  }),
  otelSdkDisabled: fleet.bool({
    names: 'OTEL_SDK_DISABLED',
    source: 'OpenTelemetry',
    about: 'Exports nothing, whatever OTEL_EXPORT_ENABLED says.',
  }),
  otelTracesExporter: signalExporter('OTEL_TRACES_EXPORTER', 'traces'),
  otelLogsExporter: signalExporter('OTEL_LOGS_EXPORTER', 'log lines'),
  otelResourceAttributes: fleet.attributes({
    names: 'OTEL_RESOURCE_ATTRIBUTES',
    source: 'OpenTelemetry',
    about: 'Attributes of the process on spans and log lines, such as deployment.environment.name=production.',
  }),
  otelServiceName: fleet.text({
    names: 'OTEL_SERVICE_NAME',
    decide: (facts) => {
      const attributes = facts.read('otelResourceAttributes') as Readonly<Record<string, string>> | undefined; // above
      return attributes?.['service.name'] ?? 'dynamo';
    },
    defaultText: 'service.name of OTEL_RESOURCE_ATTRIBUTES, or dynamo',
    about: 'Service name in spans.',
  }),
  otelTracesSampleRatio: fleet.decimal({
    names: 'OTEL_TRACES_SAMPLE_RATIO',
    range: { min: 0, max: 1 },
    default: 1,
    source: '1.6.1; default unconfirmed',
    about: 'Share of sampled traces.',
  }),
  otelTracesSampler: fleet.choice({
    names: 'OTEL_TRACES_SAMPLER',
    values: SAMPLERS,
    default: 'parentbased_traceidratio',
    source: 'OpenTelemetry',
    about: 'Rule that decides which traces are recorded; with parentbased_ the caller decides, if there is one.',
  }),
  otelTracesSamplerArg: fleet.decimal({
    names: 'OTEL_TRACES_SAMPLER_ARG',
    range: { min: 0, max: 1 },
    decide: (facts) => facts.read('otelTracesSampleRatio') as number, // the row above, which has a value
    defaultText: 'that of OTEL_TRACES_SAMPLE_RATIO',
    source: 'OpenTelemetry',
    about: 'Share of sampled traces for the samplers with traceidratio.',
  }),
  requestTrace: edges.text({
    names: 'DYN_REQUEST_TRACE',
    allowed: 'a switch, or sinks: file, stderr',
    defaultText: 'unset = off',
    about: 'Writes a record of every request.',
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
    about: 'File of request records; if compressed, the prefix of the names of its segments.',
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
