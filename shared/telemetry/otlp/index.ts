/**
 * @module telemetry/otlp
 * Sends spans and log lines to an OpenTelemetry collector. A door of its own: the SDK is loaded only by processes that export.
 * Both queues are bounded and nothing waits for the collector; what it does not take is lost, with one line an outage.
 */
export { type OtlpAddresses, type OtlpExport, openOtlp, otlpTargets } from './open-otlp.ts';
