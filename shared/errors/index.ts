/**
 * @module errors
 * Every failure that a client, an operator or another process can see: one class, one table of codes, and one table of
 * the failures that a worker may report. Only this room makes HTTP and gRPC bodies of errors.
 */
export { codeRow, type ErrorCode } from './codes.ts';
export { type FixedLimit, isLimitName, LIMITS, type LimitName, limitNames, type RefusingLimit } from './limits.ts';
export { loadCode } from './load-code.ts';
export { likelyName, misspeltName, nameWithin, nearestName } from './nearest.ts';
export {
  anthropicErrorBody,
  assertNever,
  detailOf,
  invariant,
  openAiErrorBody,
  openAiStreamError,
  overLimit,
  reasonOf,
  ServeError,
  toServeError,
} from './serve-error.ts';
export { faultInAnswer, faultOfStatus, isFault, nameOfStatus, readFault } from './told-faults.ts';
export { anthropicTooLong } from './too-long.ts';
export {
  fromWire,
  isClientCancel,
  isInhibiting,
  isMigratable,
  toWire,
  type WireError,
  workerError,
} from './worker-errors.ts';
export type { WorkerErrorKind } from './worker-kinds.ts';
