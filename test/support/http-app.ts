import type { RequestNames } from '../../shared/access/index.ts';
import { type Clock, systemClock, systemRandom } from '../../shared/clock/index.ts';
import { createHttpApp } from '../../shared/frontends/http/app.ts';
import type { HttpAppDeps } from '../../shared/frontends/http/deps.ts';
import type { HttpSettings } from '../../shared/frontends/http/settings.ts';
import { ByteBudget } from '../../shared/frontends/inference/deps.ts';
import { ServiceLifecycle, type ServiceStage } from '../../shared/frontends/inference/lifecycle.ts';
import type { Pipeline } from '../../shared/pipeline/index.ts';
import { MemoryResponseStore, type ResponseStore } from '../../shared/responses/index.ts';
import { createFrontendMetrics } from '../../shared/telemetry/index.ts';
import { type CapturedLine, captureLogger } from '../../shared/telemetry/log/logger.ts';
import { defaultHttpSettings } from './http-settings.ts';
import { ScriptedPipeline } from './scripted-pipeline.ts';

export interface TestAppOptions {
  readonly pipeline?: Pipeline;
  readonly settings?: Partial<HttpSettings>;
  readonly clock?: Clock;
  /**
   * @default metrics that no test reads
   */
  readonly metrics?: HttpAppDeps['metrics'];
  readonly instances?: HttpAppDeps['instances'];
  /**
   * @default a store in memory; null for no store
   */
  readonly responseStore?: ResponseStore | null;
  readonly records?: HttpAppDeps['records'];
  /** Limit for all bodies that are being read. @default 1 GiB */
  readonly bodyBudgetBytes?: number;
  /** Limit for all answers that are held until they are complete. @default 1 GiB */
  readonly answerBudgetBytes?: number;
  /** @default no store of keys can be managed */
  readonly keyStore?: HttpAppDeps['keyStore'];
  /** @default no console */
  readonly console?: HttpAppDeps['console'];
  readonly canceller?: HttpAppDeps['canceller'];
  /**
   * @default a gate that requires no key
   */
  readonly gate?: HttpAppDeps['gate'];
  /**
   * @default a tracer without spans
   */
  readonly tracer?: HttpAppDeps['tracer'];
  /**
   * @default no prefixes: ids are plain
   */
  readonly names?: RequestNames;
  /**
   * @default a logger whose lines the test can read
   */
  readonly logger?: HttpAppDeps['logger'];
  /** @default 'ready' */
  readonly stage?: ServiceStage;
  /**
   * @default a new lifecycle that stays at `stage`
   */
  readonly lifecycle?: ServiceLifecycle;
}

/** The app with the parts around it that a test can read. */
export interface TestApp {
  readonly app: ReturnType<typeof createHttpApp>;
  readonly deps: HttpAppDeps;
  readonly lifecycle: ServiceLifecycle;
  readonly lines: readonly CapturedLine[];
}

/** The HTTP app over a scripted pipeline, ready to serve. */
export function createTestApp(options: TestAppOptions = {}): TestApp {
  const clock = options.clock ?? systemClock;
  const lifecycle = options.lifecycle ?? new ServiceLifecycle();
  if (options.lifecycle === undefined) enter(lifecycle, options.stage ?? 'ready');
  const { logger, lines } = captureLogger();
  const deps: HttpAppDeps = {
    pipeline: options.pipeline ?? new ScriptedPipeline(),
    metrics: options.metrics ?? createFrontendMetrics({ clock }),
    logger: options.logger ?? logger,
    clock,
    random: systemRandom,
    settings: { ...defaultHttpSettings, ...options.settings },
    bodies: new ByteBudget('bodies_bytes', options.bodyBudgetBytes ?? 1024 ** 3),
    answers: new ByteBudget('answers_bytes', options.answerBudgetBytes ?? 1024 ** 3),
    gate: options.gate,
    names: options.names,
    tracer: options.tracer,
    responseStore:
      options.responseStore === undefined
        ? new MemoryResponseStore({ clock, ttlMs: 60_000, bytesMax: 1024 * 1024 })
        : (options.responseStore ?? undefined),
    records: options.records,
    canceller: options.canceller,
    console: options.console,
    keyStore: options.keyStore,
    watched: options.console?.log,
    instances: options.instances ?? (() => []),
    lifecycle,
  };
  return { app: fromThisMachine(createHttpApp(deps)), deps, lifecycle, lines };
}

/** Makes requests come from this machine, unless their test says otherwise. */
export function fromThisMachine(app: TestApp['app']): TestApp['app'] {
  const { fetch } = app;
  app.fetch = (request, bindings, ...rest) => fetch(request, { peer: '127.0.0.1', ...bindings }, ...rest);
  return app;
}

function enter(lifecycle: ServiceLifecycle, stage: ServiceStage): void {
  if (stage === 'discovering') return;
  if (stage === 'waiting') lifecycle.waiting(() => 'Waiting for workers: 1 of 2 exist');
  else lifecycle.discovered();
  if (stage === 'draining') lifecycle.drain();
  if (stage === 'stopping') lifecycle.stop();
}
