import type { Random } from '../../clock/index.ts';
import { Inhibition } from '../../scheduler/index.ts';
import type { RoutableModel, Worker } from '../models/routable-model.ts';
import { isSameProcess, routableWorkers, sameSet, workerSetsOf } from '../models/worker-sets.ts';
import type { BusyThresholds } from '../pipeline.ts';
import type { PipelineOptions } from '../pipeline-options.ts';
import { EncodeStage } from './encode-stage.ts';
import { PrefillStage, type PrefillStageOptions } from './prefill-stage.ts';
import { canaryProbe, StalledWorkers } from './stalled-workers.ts';
import { StreamWatch } from './stream-watch.ts';
import type { RunDeps } from './worker-search.ts';

/** Time until the next report of a worker's load, which says whether the worker is still full. */
const LOAD_REPORT_MS = 1000;

/** The parts that all runs of one pipeline share. */
interface RunParts {
  readonly context: RunDeps;
  /** Dependencies of the stage that computes prompts on prefill workers. */
  readonly prefill: PrefillStageOptions;
  readonly stalled: StalledWorkers;
}

/** Creates the parts that all runs of one pipeline share. @param thresholds busy thresholds of every model */
export function assembleRun(options: PipelineOptions, thresholds: BusyThresholds, random: Random): RunParts {
  const { models, clock, observer, plane } = options;
  const listedNow = listingOf(options);
  const modelNow = (model: RoutableModel) => sameSet(models.find(model.primaryName), model);
  const { stalled, streamWatch } = watchWorkers(options, random, modelNow);
  const shared = {
    router: options.router,
    plane,
    clock,
    observer,
    streamWatch,
    stalledWorkers: stalled,
    failedWorkers: options.inhibition,
    fullWorkers: new Inhibition(clock, LOAD_REPORT_MS),
    onUnreachable: options.onUnreachable,
    isReplaced: (worker: Worker) => listedNow(worker)?.isSame === false,
    busyOf: (model: RoutableModel, workers: readonly Worker[]) =>
      options.busyWorkers?.(workers, thresholds.of(model.primaryName)),
  };
  const prefill = {
    ...shared,
    modelNow,
    random,
    isEnforced: options.enforcesPrefill ?? false,
    bypasses: options.bypassesPrefill,
  };
  const context: RunDeps = {
    ...shared,
    encode: new EncodeStage({ ...shared, modelNow }),
    prefill: new PrefillStage(prefill),
    migrationLimit: options.migrationLimit ?? 3,
    migrationTokensMax: options.migrationTokensMax,
    hold: options.hold,
    poolOf: (model) => {
      const now = modelNow(model);
      return { pool: (now ?? model).pool, workers: now === undefined ? [] : routableWorkers(now) };
    },
  };
  return { context, prefill, stalled };
}

/** Returns a function that says whether discovery lists a worker's id, and if so, whether at the same address. */
function listingOf({ models }: Pick<PipelineOptions, 'models'>) {
  return ({ id, transport }: Worker): { readonly isSame: boolean } | undefined => {
    for (const { workers } of models.list().flatMap(workerSetsOf)) {
      const now = workers.find((worker) => worker.id === id);
      if (now !== undefined) return { isSame: isSameProcess(now, { id, transport }) };
    }
    return undefined;
  };
}

/** Creates what watches workers for silence. There is no watch of streams if the settings ask for none. */
function watchWorkers(
  options: PipelineOptions,
  random: Random,
  modelNow: (model: RoutableModel) => RoutableModel | undefined,
) {
  const { clock, observer, plane, streamSilenceMsMax: silenceMsMax = 0, stallMs = 0, warmUpMs } = options;
  const { canaryTimeoutMs: timeoutMs = Math.min(3000, stallMs || 3000) } = options;
  const bosTokenOf = async (model: RoutableModel) => (await options.store.get(model)).info.bosTokenId;
  const probe = canaryProbe({ plane, clock, random, timeoutMs, bosTokenOf });
  const listedNow = listingOf(options);
  const stalled = new StalledWorkers({
    clock,
    probe,
    pauseMs: timeoutMs / 3,
    isListed: (worker) => listedNow(worker)?.isSame === true,
    onRecovered: () => options.hold?.look(),
    observer,
  });
  const watched = { clock, silenceMsMax, stallMs, warmUpMs, probe, stalledWorkers: stalled, modelNow };
  return { stalled, streamWatch: silenceMsMax > 0 || stallMs > 0 ? new StreamWatch(watched) : undefined };
}
