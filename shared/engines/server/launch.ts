import { describeChatTemplate, findLocalModel } from '../../artifacts/index.ts';
import type { ResolvedConfig, SettingName, Settings } from '../../config/index.ts';
import { type DefaultSampling, readModelInfo } from '../../tokens/index.ts';
import type { Engine, EngineInfo, ModelFacts, OpenedEngine } from '../types.ts';
import { embedsText } from './embedder.ts';
import { configuredEvents, type LaunchFacts } from './launch-facts.ts';
import { argumentValue, type LaunchPorts } from './launch-plan.ts';
import { keyIn } from './passed-arguments.ts';
import { samplingDefaultsOf, samplingSourceOf } from './sampling-defaults.ts';

/** Returns the settings of an engine's server, for any engine. */
export function serverSettings(config: ResolvedConfig<'worker'>) {
  const { settings } = config;
  const { engineUrl: url, engineApiKey: apiKey, engineStartTimeoutSecs: startSecs } = settings;
  return {
    url,
    apiKey: apiKey ?? (url === undefined ? keyIn(settings) : undefined),
    launchFacts: url === undefined ? undefined : launchFactsOfUser(config),
    // An encoder gets only chats, and gives no tokens.
    takesText: settings.useVllmTokenizer || encodesAlone(settings) || embedsText(settings),
    takesMedia: settings.enableMultimodal,
    startTimeoutMs: startSecs === undefined ? undefined : startSecs * 1000,
  };
}

function encodesAlone({ enableMultimodal, disaggregationMode: role }: Settings<'worker'>): boolean {
  return enableMultimodal && role === 'encode';
}

/** Returns the facts that the settings give about a running server, whose command line is unknown here. */
function launchFactsOfUser(config: ResolvedConfig<'worker'>): LaunchFacts | undefined {
  const { engine, kvEventsConfig: events } = config.settings;
  const ranks = givenValue(config, 'dataParallelSize');
  const publishes = events !== undefined && events.enable_kv_cache_events !== false && events.publisher !== 'null';
  if (ranks === undefined && !publishes) return undefined;
  const kind = engine === 'sglang' ? 'sglang' : 'vllm';
  const all = ranks ?? 1;
  return { ranks: all, local: all, firstRank: 0, events: publishes ? configuredEvents(events, kind) : undefined };
}

/**
 * Returns the clients' name for a model that an engine serves: the engine's own name for it, the unchanged value of
 * `--model`. Undefined if the name of an attached engine is best.
 */
export function servedNameOf({ servedModelName, modelName, model, modelPath, engineUrl }: Settings<'worker'>) {
  const given = servedModelName?.[0] ?? modelName;
  return given !== undefined || engineUrl !== undefined ? given : (model ?? modelPath);
}

/**
 * Returns `engine` with the facts about the model that it will load. Rejects when the engine must be started, which may
 * take minutes, and the files of its model are not on this machine; an engine that renders chats itself does not need
 * them.
 */
export async function openedServer(engine: Engine, config: ResolvedConfig<'worker'>): Promise<OpenedEngine> {
  const { settings } = config;
  const { url, takesText, takesMedia } = serverSettings(config);
  if (url === undefined && !takesText && !takesMedia) await localFilesOf(settings);
  const model = async (info: EngineInfo): Promise<ModelFacts> => {
    const { modelInput, modelPath, takesMediaChats } = info;
    if (modelInput === 'Text') return {};
    const found =
      takesMediaChats === true ? await findLocalFiles(settings, modelPath) : await localFilesOf(settings, modelPath);
    if (found === undefined) return {};
    const { defaultSampling, ...facts } = found;
    const { engineArguments, engine: kind } = settings;
    if (kind !== 'vllm' && kind !== 'sglang' && kind !== 'trtllm') return facts;
    const source = samplingSourceOf(url === undefined ? engineArguments : undefined, kind, info);
    return { ...facts, samplingDefaults: await samplingDefaultsOf(defaultSampling, source, info) };
  };
  return { engine, model };
}

/** Facts from the files of a model, including those of its generation_config.json. */
interface LocalModel extends ModelFacts {
  readonly defaultSampling: DefaultSampling;
}

/**
 * Returns the files of an engine's model, for the card: frontends tokenize for it. Rejects when they are not on this
 * machine.
 * @param loaded model that a running engine reports
 */
async function localFilesOf(settings: Settings<'worker'>, loaded?: string): Promise<LocalModel> {
  const found = await findLocalFiles(settings, loaded);
  if (found !== undefined) return found;
  const names = namesOf(settings, loaded);
  const looked = names.length === 0 ? '' : ` (looked for ${[...new Set(names)].join(', ')})`;
  const onHub = names.find((name) => /^[\w.-]+\/[\w.-]+$/.test(name) && !name.startsWith('.'));
  const download = onHub === undefined ? '' : `download them first (hf download ${onHub}), `;
  throw new Error(
    `the model's files are not on this machine${looked}, and frontends tokenize with them: ${download}` +
      'give their folder with --model-path, or let the engine tokenize (--use-vllm-tokenizer)',
  );
}

/** Finds the files; undefined if they are not on this machine. */
async function findLocalFiles(settings: Settings<'worker'>, loaded?: string): Promise<LocalModel | undefined> {
  const { customJinjaTemplate: template } = settings;
  for (const name of namesOf(settings, loaded)) {
    const folder = await findLocalModel(name);
    if (folder === undefined) continue;
    const { files: own, contextLength, bosTokenId, defaultSampling } = await readModelInfo(folder);
    const read = await withTokenizer(own, settings);
    const files = template === undefined ? read : { ...read, ...(await describeChatTemplate(template)) };
    return { files, contextLength, bosTokenId, defaultSampling, sourcePath: name };
  }
  return undefined;
}

/** Files that stay the model's own if its tokenizer comes from another model. */
const OWN_FILES: ReadonlySet<string> = new Set(['config.json', 'generation_config.json']);

/**
 * Returns `own` with the tokenizer and the template that the engine was configured to take from another model: ids of a
 * different tokenizer would have other meanings to it. Rejects when they are not on this machine.
 */
async function withTokenizer(
  own: NonNullable<ModelFacts['files']>,
  { engine, engineArguments }: Settings<'worker'>,
): Promise<NonNullable<ModelFacts['files']>> {
  const flag = engine === 'sglang' ? '--tokenizer-path' : '--tokenizer';
  const name = argumentValue(engineArguments, flag);
  if (name === undefined) return own;
  const folder = await findLocalModel(name);
  if (folder === undefined) {
    throw new Error(
      `the files of ${flag} ${name} are not on this machine, and frontends have to tokenize as the engine does: download them ` +
        'first (hf download), name their folder, or let the engine tokenize (--use-vllm-tokenizer)',
    );
  }
  const isOf =
    (kept: boolean) =>
    ([role]: readonly [string, unknown]) =>
      OWN_FILES.has(role) === kept;
  const { files } = await readModelInfo(folder);
  return Object.fromEntries([...Object.entries(own).filter(isOf(true)), ...Object.entries(files).filter(isOf(false))]);
}

function namesOf({ modelPath, model }: Settings<'worker'>, loaded: string | undefined): readonly string[] {
  return [modelPath, model, loaded].filter((name) => name !== undefined);
}

/** Returns the value that the user gave; undefined if the engine chooses. */
export function givenValue<K extends SettingName & keyof Settings<'worker'>>(
  { given, settings }: ResolvedConfig<'worker'>,
  setting: K,
) {
  return given.has(setting) ? settings[setting] : undefined;
}

/** Returns model and program of an engine that will be started. */
export function launchBasics(settings: Settings<'worker'>) {
  const model = settings.model ?? settings.modelPath;
  if (model === undefined) throw new Error(`--engine ${settings.engine} needs --model or --engine-url`);
  return {
    model,
    servedNames: settings.servedModelName ?? [servedNameOf(settings) ?? model],
    words: settings.engineCommand?.split(/\s+/).filter((word) => word !== ''),
    enableLora: settings.enableLora ?? settings.loraEnabled,
  };
}

/**
 * Returns the engine's KV event settings, with `more` that only it has; undefined = no events are configured. The
 * user's values count; the worker sets only the missing ones. An address without a wildcard is one that the engine
 * connects to, so the tokens of its prompts do not leave the machine.
 */
export function launchEvents(
  settings: Settings<'worker'>,
  ports: LaunchPorts,
  more: Readonly<Record<string, unknown>> = {},
): Readonly<Record<string, unknown>> | undefined {
  const { kvEventsConfig: given, disaggregationMode, enablePrefixCaching, headless, embeddingWorker } = settings;
  const isLeftOut = disaggregationMode === 'decode' || !enablePrefixCaching || embeddingWorker;
  const isOff = given?.enable_kv_cache_events === false || given?.publisher === 'null';
  if (headless || isOff || (given === undefined && isLeftOut)) return given;
  return {
    ...more,
    publisher: 'zmq',
    topic: 'kv-events',
    endpoint: `tcp://127.0.0.1:${ports.events}`,
    replay_endpoint: `tcp://127.0.0.1:${ports.replay}`,
    ...given,
  };
}

/**
 * Writes named values as the arguments of an engine written in Python: `true` is the bare flag, `false` its `--no-`
 * form, objects are JSON, lists several values; undefined is left out. `_` in names may stand for `-`.
 */
export function argumentsOf(named: Readonly<Record<string, unknown>>): readonly string[] {
  return Object.entries(named).flatMap(([name, value]) => {
    const flag = name.replaceAll('_', '-');
    if (value === undefined || value === null) return [];
    if (typeof value === 'boolean') return [value ? `--${flag}` : `--no-${flag}`];
    if (Array.isArray(value)) return [`--${flag}`, ...value.map(String)];
    return [`--${flag}`, typeof value === 'object' ? JSON.stringify(value) : String(value)];
  });
}
