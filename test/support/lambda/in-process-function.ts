import { Writable } from 'node:stream';
import { SYSTEM } from '../../../shared/clock/index.ts';
import { resolveConfig } from '../../../shared/config/index.ts';
import { composeFrontend, createLambdaHandler, LAMBDA_HOLD } from '../../../shared/frontends/index.ts';
import { captureLogger } from '../../../shared/telemetry/log/logger.ts';

/** An environment of the HTTP function in this process, put together as `functions/http/lambda.ts` does. */
export interface InProcessFunction {
  /** Sends a chat. Resolves with the status and the whole answer. */
  chat(body: object): Promise<{ readonly status: number; readonly text: string }>;
  close(): Promise<void>;
}

/** Longest time of one request, as of the function. */
const LIMIT_MS = 900_000;

export async function openInProcessFunction(env: Readonly<Record<string, string>>): Promise<InProcessFunction> {
  const { settings } = resolveConfig('function', [], env);
  const { app, refresh, flush, close } = await composeFrontend(settings, {
    ...SYSTEM,
    logger: captureLogger().logger,
    plane: { poolSizeMax: 2 },
    discovery: { isLasting: false, showsAskedModels: true },
    followsEvents: false,
    holdBounds: LAMBDA_HOLD,
  });
  return {
    async chat(body) {
      let status = 0;
      let text = '';
      const stream = new Writable({
        decodeStrings: false,
        write(chunk, _encoding, done) {
          text += String(chunk);
          done();
        },
      });
      const start = async () => ({
        serve: app.serve,
        beforeRequest: (signal: AbortSignal, shardKey: string | undefined) => refresh(1000, signal, shardKey),
        afterRequest: flush,
      });
      const { handler } = createLambdaHandler(start, {
        openHttpStream: (underlying, { statusCode }) => {
          status = statusCode;
          return underlying;
        },
        onFailure() {},
      });
      const endsMs = performance.now() + LIMIT_MS;
      const headers = { 'content-type': 'application/json' };
      const event = { httpMethod: 'POST', path: '/v1/chat/completions', headers, body: JSON.stringify(body) };
      await handler(event, stream, {
        awsRequestId: 'r',
        callbackWaitsForEmptyEventLoop: true,
        getRemainingTimeInMillis: () => endsMs - performance.now(),
      });
      return { status, text };
    },
    close,
  };
}
