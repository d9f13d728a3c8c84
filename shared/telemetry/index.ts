/**
 * @module telemetry
 * Logs, metrics and traces: what operators see of a process.
 */
export type { RequestMeter, RequestOutcome } from './request-meter.ts';
