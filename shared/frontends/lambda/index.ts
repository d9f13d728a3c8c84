/**
 * @module frontends/lambda
 * An app as a streaming function.
 */
export { createLambdaHandler } from './lambda-handler.ts';
export type { LambdaRuntime } from './lambda-sink.ts';
