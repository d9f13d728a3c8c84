import type { ModelCard } from '../discovery/index.ts';
import type { EngineInfo, ModelFacts } from '../engines/index.ts';
import type { PlaneServer } from '../planes/index.ts';
import { withBlake3 } from '../tokens/index.ts';
import type { DrainReport } from './calls/calls-under-way.ts';
import type { WorkerControl } from './control/control.ts';
import { startEngine, stopEngine } from './engine-watch.ts';
import { buildModelCard } from './model-card.ts';
import { DEFAULT_WORKER_SETTINGS, type WorkerOptions } from './options.ts';
import { ServingWorker } from './serving-worker.ts';

/** A worker that serves. */
export interface Worker {
  /** Id of the worker, in lower-case hex. */
  readonly instanceId: string;
  readonly engineInfo: EngineInfo;
  readonly card: ModelCard;
  /** Number of requests under way. */
  readonly activeRequests: number;
  /** Controls of the worker, such as adapters and sleep. */
  readonly control: WorkerControl;
  /**
   * Resolves when the engine's process has ended by itself, or an engine that the worker started no longer answers. The
   * worker has then left discovery and can only be drained.
   */
  readonly engineExit: Promise<Error>;
  /**
   * Leaves discovery, takes no more requests, lets streams end, and stops the engine. Idempotent: a later call can only
   * bring the end of the streams nearer.
   * @param withinMs time until streams that are left fail. @default the limit of the settings
   */
  drain(withinMs?: number): Promise<DrainReport>;
}

/**
 * Loads the engine, serves its endpoint and registers it, strictly in this order.
 * Rejects, with everything closed again, when one of the steps fails or `signal` aborts; the message says what to
 * change.
 *
 * @example
 * const worker = await startWorker({ engine, discovery, requestPlane, eventPlane, address, ... }, signal);
 * process.once('SIGTERM', () => void worker.drain().then(() => process.exit(0)));
 */
export async function startWorker(given: WorkerOptions, signal: AbortSignal): Promise<Worker> {
  const instanceId = given.instanceId ?? given.random.instanceId();
  const options = { ...given, instanceId, settings: { ...DEFAULT_WORKER_SETTINGS, ...given.settings } };
  const { clock, metrics, requestPlane } = options;
  const startedMs = clock.nowMs();
  let server: PlaneServer | undefined;
  try {
    // A taken port then fails the start before an engine loads for minutes. A broker may start meanwhile.
    if (requestPlane.hasBroker !== true) server = await requestPlane.serve({ instanceId, signal });
    const info = await startEngine(options, signal);
    metrics.setModelLoadTime(clock.nowMs() - startedMs);
    const keepsIndex = info.publishesKvEvents && options.settings.enableLocalIndexer;
    const settings = { enable_local_indexer: keepsIndex, ...options.card };
    const facts = typeof options.model === 'function' ? await options.model(info) : options.model;
    const own = buildModelCard(facts, info, options.names, settings);
    // Workers of Dynamo name the same files by these checksums, and a model has workers of both.
    const card = options.discovery.meetsDynamo === true ? { ...own, files: await withBlake3(own.files) } : own;
    tellOfShorterContext(options, info, facts);
    if (info.takesMediaChats === true && card.model_input === 'Text') {
      const says = 'the model files are not on this machine: it serves only chats, routed by load (--model-path)';
      options.logger.warn(says);
    }
    const worker = new ServingWorker(options, info, card, facts.bosTokenId);
    server ??= await requestPlane.serve({ instanceId, signal });
    await worker.open(server, signal);
    return worker;
  } catch (thrown) {
    await server?.close();
    await stopEngine(options);
    throw thrown;
  }
}

/**
 * Warns if clients get a shorter context than the operator asked for, because the model's own length bounds the
 * engine's.
 */
function tellOfShorterContext(
  { logger }: WorkerOptions,
  { contextLength: asked }: EngineInfo,
  { contextLength: allowed }: ModelFacts,
): void {
  if (asked === undefined || allowed === undefined || asked <= allowed) return;
  const message = `a context of ${asked} tokens is more than the model's configuration allows: serving ${allowed}`;
  logger.warn(message, { context_length: asked, served: allowed });
}
