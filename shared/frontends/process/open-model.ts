import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import {
  type ArtifactSource,
  type ModelCache,
  ModelFilesAbsent,
  openChatTemplate,
  openModelFolder,
} from '../../artifacts/index.ts';
import type { Clock, TimeAndChance } from '../../clock/index.ts';
import { tellWhile } from '../../concurrency/index.ts';
import { type EdgeSettings, homeFolder } from '../../config/index.ts';
import type { ModelCard } from '../../discovery/index.ts';
import { loadCode, reasonOf } from '../../errors/index.ts';
import { describeToolCallParser, findReasoningFormat } from '../../parsers/index.ts';
import { type ModelStore, type OpenModel, passesChats, type RoutableModel, type Worker } from '../../pipeline/index.ts';
import { createArtifactMetrics, type Logger, type MetricRegistry } from '../../telemetry/index.ts';
import { type LoadedModel, loadModelFolder, ModelFolderError, PromptEncoder } from '../../tokens/index.ts';
import { processorOf } from './card-refusal.ts';
import { OwnFolder } from './own-folder.ts';

/** Text that says why the files of a model on another machine were not fetched, and how to have them fetched. */
const NOWHERE =
  ', or have them fetched: from a worker of the model, which serves its files if DYN_SYSTEM_PORT is set there ' +
  '(none of them does), from a bucket (STATOR_ARTIFACTS_BUCKET is not set), or from the Hugging Face Hub (the worker ' +
  'names no model there)';

/** Workers that are asked for the files of a model at most, one after the other. */
const WORKERS_ASKED_MAX = 3;

/**
 * Returns an opener of the models that cards name. It reads their folder if that is on this machine, and otherwise
 * fetches the files from the workers that serve them, or from the bucket. It logs to `log` if it uses another tokenizer
 * or template than the card's.
 */
export function modelOpener(
  settings: EdgeSettings,
  sources: TimeAndChance,
  log: Logger,
  registry: MetricRegistry,
): ModelOpener {
  let opening: Promise<Fetching> | undefined;
  const fetching = (): Promise<Fetching> => {
    opening ??= openFetching(settings, sources, log, registry);
    return opening;
  };
  let hasLoggedEncoder = false;
  const own = new OwnFolder(settings.modelPath);
  const encoderOf = (card: ModelCard) => {
    if (!asksForFastOne(card, settings)) return {};
    if (!hasLoggedEncoder) log.debug('fastokens: the built-in encoder is the fast one here');
    hasLoggedEncoder = true;
    return fastEncoder(card.display_name, settings, log);
  };
  const open: OpenModel = async ({ card, workers }) => {
    const { cache, sourcesOf } = await fetching();
    const { display_name: modelName, files } = card;
    const isLeft = passesChats(card, processorOf(settings));
    const onHopelessTemplate = (reason: string): void => {
      if (isLeft) log.warn('chats of this model are routed by load', { model: modelName, reason });
      else log.error('no chats for this model', { model: modelName, reason });
    };
    const load = async (modelPath: string | undefined): Promise<LoadedModel> => {
      const reference = { modelName, files, modelPath };
      const [folder, chatTemplate] = await Promise.all([openModelFolder(reference), openChatTemplate(reference)]);
      const prepared = await cache.preparedOf(files);
      own.opened(modelName, folder);
      return loadModelFolder(folder, { modelName, chatTemplate, prepared, onHopelessTemplate, ...encoderOf(card) });
    };
    const fetchAndLoad = async (): Promise<LoadedModel> => {
      try {
        return await load(settings.modelPath);
      } catch (thrown) {
        if (!(thrown instanceof ModelFilesAbsent)) throw thrown;
        const sources = sourcesOf(workers, card);
        if (sources.length > 0) return await cache.withFolder({ modelName, files }, sources, load);
        throw new ModelFilesAbsent(`${thrown.message}${NOWHERE}`, { cause: thrown });
      }
    };
    /** Loads the operator's own folder, if the model's files are not available elsewhere. */
    const loadInstead = async (thrown: unknown): Promise<LoadedModel> => {
      const folder = thrown instanceof ModelFilesAbsent ? own.insteadFor(modelName) : undefined;
      if (folder === undefined) throw thrown;
      const loaded = await loadModelFolder(folder, { modelName, onHopelessTemplate, ...encoderOf(card) });
      own.opened(modelName, folder);
      const reason = reasonOf(thrown);
      log.warn("the worker's files are not available: tokenizer and template are those of --model-path", {
        model: modelName,
        folder,
        reason,
      });
      return loaded;
    };
    const loaded = await fetchAndLoad().catch(loadInstead);
    if (!isLeft) warnOfParsers(card, log);
    return loaded;
  };
  return {
    open: (model) => {
      const tell = (waited_s: number): void =>
        log.info('loading the model', { model: model.card.display_name, waited_s });
      return tellWhile(open(model), tell);
    },
    load: async () => (await fetching()).load(),
  };
}

interface ModelOpener {
  readonly open: OpenModel;
  /**
   * Loads the code that fetches models, which otherwise the first model does. @throws ConfigError for a bucket that
   * must not be asked
   */
  load(): Promise<void>;
}

/** The cache for models from other machines, and the sources of their files. */
interface Fetching {
  readonly cache: ModelCache;
  /**
   * Returns the sources of a model's files: a few of its workers, starting with a random one, then the bucket, and then
   * the hub if the card names a model there.
   */
  sourcesOf(workers: readonly Worker[], card: ModelCard): readonly ArtifactSource[];
  load(): Promise<void>;
}

async function loadArtifacts() {
  const { bucketPlace, bucketSource, hubModelOfCard, hubPlace, hubSource, ModelCache, workerSource } = await import(
    '../../artifacts/index.ts'
  );
  return { bucketPlace, bucketSource, hubModelOfCard, hubPlace, hubSource, ModelCache, workerSource };
}

/** Opens the cache and the bucket. @throws ConfigError for a bucket that must not be asked */
async function openFetching(
  settings: EdgeSettings,
  { clock, random }: TimeAndChance,
  log: Logger,
  registry: MetricRegistry,
): Promise<Fetching> {
  const { bucketPlace, bucketSource, hubModelOfCard, hubPlace, hubSource, ModelCache, workerSource } = await loadCode(
    'models from elsewhere',
    loadArtifacts,
  );
  const metrics = createArtifactMetrics(registry);
  const { artifactsBucket } = settings;
  const bucket = artifactsBucket === undefined ? [] : [bucketSource(artifactsBucket, bucketPlace(settings))];
  const cache = new ModelCache({
    root: settings.artifactsCacheDir ?? join(homeFolder(), '.cache', 'stator'),
    bytesMax: settings.artifactsCacheMb * 2 ** 20,
    clock,
    random,
    onRead: ({ kind, place }, outcome, bytes) => {
      metrics.read(kind, outcome, bytes);
      if (outcome !== 'fetched') log.warn('a file of a model could not be read', { place, outcome });
    },
    onRemoved: (folder, bytes) => log.info('removed from the cache of models', { folder, bytes }),
  });
  return {
    cache,
    load: async () => {
      for (const source of bucket) await source.load();
    },
    sourcesOf: (workers, card) => {
      const places = [...new Set(workers.flatMap(({ filesAt }) => filesAt ?? []))];
      const from = random.below(Math.max(1, places.length));
      const turned = [...places.slice(from), ...places.slice(0, from)].slice(0, WORKERS_ASKED_MAX);
      const model = hubModelOfCard(card);
      const hub = model === undefined ? [] : [hubSource(model, hubPlace(settings), clock)];
      return [...turned.map(workerSource), ...bucket, ...hub];
    },
  };
}

/** Returns a check whether a model answers chats: it is offered for them, and has a template if one is needed. */
export function chatCheck(store: Pick<ModelStore, 'get'>): (model: RoutableModel) => Promise<boolean> {
  return async (model) => {
    if (!model.card.model_type.includes('Chat')) return false;
    if (model.passesChats === true) return true;
    const { model_input: input, runtime_config: runtime } = model.card;
    return input !== 'Tokens' || runtime.media_chats === true || (await store.get(model)).chatTemplate !== undefined;
  };
}

/** Returns whether a fast encoder is required, which the built-in one is. The card's choice of a tokenizer wins. */
function asksForFastOne({ runtime_config: runtime }: ModelCard, settings: EdgeSettings): boolean {
  return (runtime.tokenizer_backend ?? settings.tokenizer) === 'fastokens';
}

function fastEncoder(model: string, settings: EdgeSettings, log: Logger) {
  return {
    onUncovered(path: string): void {
      if (!settings.tokenizerFallback) {
        throw new ModelFolderError(
          `${path}: not covered by the fast encoder; allow the reference tokenizer with --tokenizer-fallback, or choose it with --tokenizer default`,
        );
      }
      log.warn('the fast encoder does not cover this tokenizer: using the reference one', { model, path });
    },
  };
}

/** Logs parsers of a card that are unknown here, because workers of other versions may publish their names. */
function warnOfParsers({ display_name: model, runtime_config: runtime }: ModelCard, log: Logger): void {
  const { tool_call_parser: toolCalls, reasoning_parser: reasoning } = runtime;
  const described = toolCalls ? describeToolCallParser(toolCalls) : undefined;
  if (described?.kind === 'refused') {
    log.error('chats with tools are refused with 501 for this model', { model, reason: described.message });
  }
  const found = reasoning ? findReasoningFormat(reasoning) : undefined;
  if (found?.kind === 'fallback') log.warn(found.warning, { model });
}

const THREADS_MAX = 4;

/**
 * Returns the encoder of prompts. By default its threads take only long prompts; with `--dyn-preprocess-workers` they
 * take all.
 */
export function openPromptEncoder(settings: EdgeSettings, clock: Clock, log: Logger): PromptEncoder {
  const { tokenCacheMb, preprocessWorkers = 0 } = settings;
  const takesAll = preprocessWorkers > 0;
  return new PromptEncoder({
    clock,
    cacheBytesMax: tokenCacheMb * 1024 * 1024,
    threadsMax: takesAll ? preprocessWorkers : threadsOf(settings),
    ...(takesAll ? { inlineUnitsMax: 0 } : {}),
    onThreadLost: ({ message }) => log.error('an encoding thread was lost', { reason: message }),
    onCostly: (path) =>
      log.error('a prompt could not be tokenized: a pattern of the tokenizer takes too many steps', { file: path }),
  });
}

function threadsOf(settings: EdgeSettings): number {
  if (!('encodeThreads' in settings)) return 0;
  return settings.encodeThreads ?? Math.min(availableParallelism() - 1, THREADS_MAX);
}
