/**
 * The streaming HTTP function: the same app as in a container, behind API Gateway or a function URL. Everything outside
 * of the handler runs once for each environment, while it starts.
 */
import { SYSTEM } from '../../shared/clock/index.ts';
import { resolveConfig } from '../../shared/config/index.ts';
import { reasonOf } from '../../shared/errors/index.ts';
import {
  composeFrontend,
  createLambdaHandler,
  isOwnFault,
  LAMBDA_HOLD,
  type LambdaRuntime,
} from '../../shared/frontends/index.ts';
import { EmbeddedMetrics, type MetricRegistry, openLogger } from '../../shared/telemetry/index.ts';

declare const awslambda: LambdaRuntime;

/**
 * Connections to a worker. An environment has one request at a time, so a second one only bridges the closing of the
 * first.
 */
const CONNECTIONS_PER_WORKER_MAX = 2;
/**
 * Silence of a connection, in milliseconds, after which it is checked before use, because it may have died while the
 * environment was frozen.
 */
const SUSPECT_AFTER_MS = 1000;

/** Largest age of the fleet view at the beginning of a request, in milliseconds. */
const DISCOVERY_AGE_MS_MAX = 1000;

const { settings: given, warnings } = resolveConfig('function', [], process.env);
const logger = openLogger(given);
const log = logger.for('function');
for (const warning of warnings) log.warn(warning);

let registry: MetricRegistry | undefined;
const embedded = new EmbeddedMetrics({
  source: {
    dimension: 'FunctionName',
    name: process.env.AWS_LAMBDA_FUNCTION_NAME ?? 'unknown',
    version: process.env.AWS_LAMBDA_FUNCTION_VERSION,
  },
  nowMs: () => SYSTEM.clock.wallMs(),
  totals: (metric, label) => registry?.totalsBy(metric, label) ?? {},
  write: (text) => process.stdout.write(text),
});

/**
 * Longest part of an environment's start that waits for the app, in milliseconds: the service charges for it and limits
 * it.
 */
const START_MS_MAX = 1000;

const { handler: serve, started } = createLambdaHandler(
  async () => {
    const { settings, watch } = await readSecrets();
    const plane = {
      poolSizeMax: CONNECTIONS_PER_WORKER_MAX,
      suspectAfterMs: SUSPECT_AFTER_MS,
    };
    const discovery = { isLasting: false, showsAskedModels: true }; // its role may read the table and nothing else
    const { app, refresh, flush, close, isOpenToAll, metrics } = await composeFrontend(settings, {
      ...SYSTEM,
      logger,
      plane,
      discovery,
      followsEvents: false,
      holdBounds: LAMBDA_HOLD,
      recorder: embedded,
    });
    registry = metrics.registry;
    if (isOpenToAll) log.warn('this function serves every client that reaches it: it requires no API key');
    return {
      serve: app.serve,
      beforeRequest: (signal, shardKey) => refresh(DISCOVERY_AGE_MS_MAX, signal, shardKey),
      afterRequest: async () => {
        embedded.flush();
        await Promise.all([flush(), watch?.look()]);
      },
      isOutdated: () => watch?.isOutdated === true,
      close,
    };
  },
  {
    openHttpStream: (stream, prelude) => awslambda.HttpResponseStream.from(stream, prelude),
    deadlineMarginMs: given.deadlineMarginSecs * 1000,
    onFailure: (error, requestId) => {
      log.error('request failed', {
        lambda_request_id: requestId,
        code: error.code,
        reason: reasonOf(error.cause ?? error),
      });
      if (!isOwnFault(error)) return;
      embedded.failed();
      embedded.flush(); // without an app no other code would flush after the answer
    },
    onServedOn: (cause) =>
      log.warn('cannot start with the secrets that were rotated; serving on with those before', {
        reason: reasonOf(cause),
      }),
  },
);

export const handler = awslambda.streamifyResponse(serve);

// An environment has a whole core while it starts, and only its share later, so the start does all the work that the
// first request would need.
await new Promise<void>((resolve) => {
  const timer = setTimeout(resolve, START_MS_MAX); // not the clock's: its timers let a process without sockets end
  void started.then(() => {
    clearTimeout(timer);
    resolve();
  });
});

/** Returns the settings with the secrets that the environment names in Secrets Manager or a table. */
async function readSecrets() {
  const { planeTokenSecret, idSecretSecret, natsSecret, secretsTable } = given;
  if ((planeTokenSecret ?? idSecretSecret ?? natsSecret ?? secretsTable) === undefined) return { settings: given };
  const { openSecrets, readPassedSecrets, SecretWatch } = await import('../../shared/fleet/index.ts');
  const secrets = await openSecrets(process.env, { readPassed: () => readPassedSecrets(given) });
  const ageMsMax = given.secretCacheSecs * 1000;
  const watch = new SecretWatch(secrets, { clock: SYSTEM.clock, ageMsMax, logger: log });
  return { settings: resolveConfig('function', [], secrets.env).settings, watch };
}
