import type { EdgeSettings } from '../../config/index.ts';
import type { ModelRecord } from '../../discovery/index.ts';
import { reasonOf } from '../../errors/index.ts';
import { LiveModelDirectory, ModelStore, type RoutableModel } from '../../pipeline/index.ts';
import { refuseDynamo } from '../../planes/index.ts';
import { Inhibition } from '../../scheduler/index.ts';
import type { Logger } from '../../telemetry/index.ts';
import type { PromptEncoder } from '../../tokens/index.ts';
import { cardRefusal, processorOf } from './card-refusal.ts';
import type { FrontendDeps } from './deps.ts';
import { holdsRequests } from './hold.ts';
import { modelOpener, openPromptEncoder } from './open-model.ts';
import { plannedModels, warnOfPlannedElsewhere } from './planned-models.ts';

/** The models of the fleet, and the encoder of their prompts. */
export interface KnownModels {
  /** Directory of the models; empty until it is started. */
  readonly directory: LiveModelDirectory;
  readonly store: ModelStore;
  readonly encoder: PromptEncoder;
  /** Workers that failed lately. A worker that registers again leaves this list. */
  readonly inhibition: Inhibition;
  /** Loads the code that opens models. */
  load(): Promise<void>;
}

/**
 * Opens the directory of models, which loads the models that discovery names. Its followers must register before it
 * starts.
 */
export function openDirectory(settings: EdgeSettings, deps: FrontendDeps): KnownModels {
  const { clock, metrics, logger, lifetime } = deps;
  const log = logger.for('models');
  const { open, load } = modelOpener(settings, deps, log, metrics.registry);
  const encoder = lifetime.use(openPromptEncoder(settings, clock, log));
  const store = new ModelStore({
    open: async (model) => {
      const loaded = await open(model);
      void encoder.prepare(loaded.tokenizer); // while the start continues
      return loaded;
    },
    clock,
    onFailure: (model, reason) => log.error('model cannot be loaded', { model, reason }),
  });
  const inhibition = new Inhibition(clock, settings.inhibitedDurationSecs * 1000);
  const directory = createDirectory(settings, deps, inhibition, log);
  warnOfPlannedElsewhere(settings, directory, log);
  const { roles = [] } = settings;
  const isRouterAlone = roles.length > 0 && roles.every((role) => role === 'router'); // it receives hashes of prompts
  if (!isRouterAlone) directory.follow(() => store.prefetch(directory.list()));
  return { directory, store, encoder, inhibition, load };
}

function createDirectory(
  settings: EdgeSettings,
  { discovery, clock }: FrontendDeps,
  inhibition: Inhibition,
  log: Logger,
): LiveModelDirectory {
  const dynamoRefusal = refuseDynamo(settings);
  return new LiveModelDirectory({
    discovery,
    namespace: settings.namespace,
    namespacePrefix: settings.namespacePrefix,
    modelName: 'modelName' in settings ? settings.modelName : undefined,
    onNotRenamed: (model, renamed) =>
      log.warn('--model-name names one model: another keeps its own name', { model, renamed }),
    kvCacheBlockSizeTokens: settings.kvCacheBlockSize,
    decodesAlone: settings.decodeFallback,
    clock,
    // A request that waits for workers may come long after the last worker has left.
    rememberedMs: holdsRequests(settings) ? Number.POSITIVE_INFINITY : settings.modelMemorySecs * 1000,
    planned: plannedModels(settings),
    refusalOf: cardRefusal(settings, log),
    chatProcessor: processorOf(settings),
    onWorkerAdded: (workerId) => inhibition.forget(workerId),
    servesDynamo: dynamoRefusal === undefined,
    onForeignWorker: foreignWorkerLog(log, dynamoRefusal),
    onRefusedWorker: ({ namespace, instance_id: worker, refused: reason }) =>
      log.warn('a worker of Dynamo is left out', { namespace, worker, reason }),
    onDiscoveryFailing: (error) =>
      log.warn('discovery cannot be read; serving what is known', { reason: reasonOf(error) }),
    onDiscoveryRecovered: () => log.info('discovery can be read again'),
    onChangeFailed: (error) =>
      log.error('a change of the models could not be applied; trying again', { reason: reasonOf(error) }),
  });
}

/** Models whose workers of Dynamo are logged at most. */
const FOREIGN_MODELS_MAX = 256;

/** Returns a function that logs each model which workers of Dynamo serve, once. */
function foreignWorkerLog(log: Logger, reason: string | undefined): (record: ModelRecord) => void {
  const logged = new Set<string>();
  return ({ card: { display_name: model }, namespace, instance_id: worker }) => {
    const key = JSON.stringify([namespace, model]);
    if (logged.has(key) || logged.size === FOREIGN_MODELS_MAX) return;
    logged.add(key);
    log.warn('a model is left out, because this process cannot call its workers', { model, namespace, worker, reason });
  };
}

/** Returns each model once, under its own name. */
export function primaryModels(directory: LiveModelDirectory): RoutableModel[] {
  return directory.list().filter(({ name, primaryName }) => name === primaryName);
}
