import { describeChatTemplate, findLocalModel } from '../../artifacts/index.ts';
import type { ResolvedConfig, SettingName, Settings } from '../../config/index.ts';
import { type DefaultSampling, readModelInfo } from '../../tokens/index.ts';
import type { Engine, EngineInfo, ModelFacts, OpenedEngine } from '../types.ts';
import { embedsText } from './embedder.ts';
import { argumentValue, type LaunchPorts } from './launch-plan.ts';
import { keyIn } from './passed-arguments.ts';
import { samplingDefaultsOf, samplingSourceOf } from './sampling-defaults.ts';
import { configuredEvents, type Told } from './told.ts';

/** What the settings say of an engine's server, whichever it is. */
export function serverSettings(config: ResolvedConfig<'worker'>) {
  const { settings } = config;
  const { engineUrl: url, engineApiKey: apiKey, engineStartTimeoutSecs: startSecs } = settings;
  return {
    url,
    apiKey: apiKey ?? (url === undefined ? keyIn(settings) : undefined),
    told: url === undefined ? undefined : toldByUser(config),
    // An encoder gets chats alone, and gives no tokens.
    takesText: settings.useVllmTokenizer || encodesAlone(settings) || embedsText(settings),
    takesMedia: settings.enableMultimodal,
    startTimeoutMs: startSecs === undefined ? undefined : startSecs * 1000,
  };
}

function encodesAlone({ enableMultimodal, disaggregationMode: role }: Settings<'worker'>): boolean {
  return enableMultimodal && role === 'encode';
}

/** What the user says of a server that runs already: nobody here has seen its command line. */
function toldByUser(config: ResolvedConfig<'worker'>): Told | undefined {
  const { engine, kvEventsConfig: events } = config.settings;
  const ranks = givenValue(config, 'dataParallelSize');
  const publishes = events !== undefined && events.enable_kv_cache_events !== false && events.publisher !== 'null';
  if (ranks === undefined && !publishes) return undefined;
  const kind = engine === 'sglang' ? 'sglang' : 'vllm';
  const all = ranks ?? 1;
  return { ranks: all, local: all, firstRank: 0, events: publishes ? configuredEvents(events, kind) : undefined };
}

/**
 * The name clients use for a model that an engine serves: what the engine itself would call it, the value of `--model` as it
 * is. Undefined where an attached engine's own name is best.
 */
export function servedNameOf({ servedModelName, modelName, model, modelPath, engineUrl }: Settings<'worker'>) {
  const given = servedModelName?.[0] ?? modelName;
  return given !== undefined || engineUrl !== undefined ? given : (model ?? modelPath);
}

/**
 * `engine` with the facts of the model that it will have loaded. Rejects when it is one to be started, which may take minutes,
 * and the files of its model are not on this machine; one that can render chats itself does without.
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

/** What the files of a model say, those of its generation_config.json included. */
interface LocalModel extends ModelFacts {
  readonly defaultSampling: DefaultSampling;
}

/**
 * The files of the model of an engine, for the card: frontends tokenize for it. Rejects when they are not on this machine.
 * @param loaded what an engine that is up says that it has loaded
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

/** Undefined where they are not on this machine. */
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

/** Of a model whose tokenizer is another one's. */
const OWN_FILES: ReadonlySet<string> = new Set(['config.json', 'generation_config.json']);

/**
 * `own` with the tokenizer and the template that the engine was told to take from elsewhere: ids of any other tokenizer would mean
 * other words to it. Rejects when they are not on this machine.
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

/** The value that somebody gave; undefined where the engine chooses. */
export function givenValue<K extends SettingName & keyof Settings<'worker'>>(
  { given, settings }: ResolvedConfig<'worker'>,
  setting: K,
) {
  return given.has(setting) ? settings[setting] : undefined;
}

/** Model and program of an engine that is to be started. */
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
 * The engine's KV event settings, with `more` that only it has; undefined = nobody asks for any. What the user gave counts, and
 * only what he left out is ours. An address without a wildcard is one that the engine connects to: its prompts' tokens do not
 * leave the machine.
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
 * Named values as the arguments of an engine written in Python: `true` is the bare flag, `false` its `--no-` form, objects
 * are JSON, lists several values; undefined is left out. `_` in names may stand for `-`.
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
