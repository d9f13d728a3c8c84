/**
 * @module frontends
 * The edge: HTTP as OpenAI and Anthropic speak it, KServe v2 by gRPC, and the hosts of both. A process composes a
 * frontend, and serves it until the process is stopped, or as a function.
 */
export { sendPageFile } from './http/console/serve-page.ts';
export { answerQuestion } from './http/console/what-if.ts';
export { createLambdaHandler, LAMBDA_HOLD } from './lambda/lambda-handler.ts';
export type { LambdaRuntime } from './lambda/lambda-sink.ts';
export { isOwnFault } from './lambda/own-fault.ts';
export { asksForKeys } from './process/access.ts';
export { cardRefusal } from './process/card-refusal.ts';
export { composeFrontend, type Frontend } from './process/frontend.ts';
export { withOwnFolder } from './process/own-folder.ts';
export { serveFrontend } from './serve/serve-frontend.ts';
