/**
 * The streaming HTTP function: the same app as in a container, behind API Gateway or a function URL. Everything outside of
 * the handler runs once for each environment, while it starts.
 */
import { resolveConfig } from '../../shared/config/index.ts';
import { reasonOf } from '../../shared/errors/index.ts';
import type { LambdaRuntime } from '../../shared/frontends/lambda/index.ts';
import { createLambdaHandler } from '../../shared/frontends/lambda/index.ts';
import { composeFrontend } from '../../shared/frontends/process/index.ts';
import { openLogger } from '../../shared/telemetry/index.ts';

declare const awslambda: LambdaRuntime;

/** One request at a time: a second connection only bridges the closing of the first. */
const CONNECTIONS_PER_WORKER_MAX = 2;
/** A connection that was silent for longer may have died while the environment was frozen: it is asked before it is used. */
const SUSPECT_AFTER_MS = 1000;

/** What is known of models and workers may be this old when a request begins. */
const DISCOVERY_AGE_MS_MAX = 1000;
/** A function is frozen between requests: it must not try on. */
const NATS_ATTEMPTS_MAX = 3;

const { settings, warnings } = resolveConfig('function', [], process.env);
const logger = openLogger(settings);
const log = logger.for('function');
for (const warning of warnings) log.warn(warning);

export const handler = awslambda.streamifyResponse(
  createLambdaHandler(
    async () => {
      const plane = {
        poolSizeMax: CONNECTIONS_PER_WORKER_MAX,
        suspectAfterMs: SUSPECT_AFTER_MS,
        brokerAttemptsMax: NATS_ATTEMPTS_MAX,
      };
      const discovery = { isLasting: false }; // its role may read the table and nothing else
      const { app, refresh, flush, isOpenToAll } = await composeFrontend(settings, {
        logger,
        plane,
        discovery,
        followsEvents: false,
      });
      if (isOpenToAll) log.warn('whoever reaches this function is served: no API keys are asked for');
      return {
        fetch: app.fetch,
        beforeRequest: (signal, shardKey) => refresh(DISCOVERY_AGE_MS_MAX, signal, shardKey),
        afterRequest: flush,
      };
    },
    {
      openHttpStream: (stream, prelude) => awslambda.HttpResponseStream.from(stream, prelude),
      deadlineMarginMs: settings.deadlineMarginSecs * 1000,
      onFailure: (error, requestId) =>
        log.error('request failed', {
          lambda_request_id: requestId,
          code: error.code,
          reason: reasonOf(error.cause ?? error),
        }),
    },
  ),
);
