import { hubModelOf } from '../../artifacts/index.ts';
import type { ResolvedConfig, SettingName, Settings } from '../../config/index.ts';
import { embedsText } from './embedder.ts';
import { configuredEvents, type LaunchFacts } from './launch-facts.ts';
import { argumentValue, type LaunchPorts } from './launch-plan.ts';
import { keyIn } from './passed-arguments.ts';

/** Flag by which every engine takes the revision of its model. */
export const REVISION_FLAG = '--revision';

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
  return given !== undefined || engineUrl !== undefined ? given : (model ?? nameOfPath(modelPath));
}

/** Returns a model path as engines take it: of a model on the hub only its name, because the revision is a flag. */
function nameOfPath(modelPath: string | undefined): string | undefined {
  return modelPath === undefined ? undefined : (hubModelOf(modelPath)?.id ?? modelPath);
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
  const model = settings.model ?? nameOfPath(settings.modelPath);
  if (model === undefined) throw new Error(`--engine ${settings.engine} needs --model or --engine-url`);
  return {
    model,
    servedNames: settings.servedModelName ?? [servedNameOf(settings) ?? model],
    words: settings.engineCommand?.split(/\s+/).filter((word) => word !== ''),
    enableLora: settings.enableLora ?? settings.loraEnabled,
    revision: revisionOf(settings),
  };
}

/** Returns the revision of `--model-path ORG/NAME@REVISION`, which the engine must load, too, unless it has its own. */
function revisionOf({ model, modelPath, engineArguments }: Settings<'worker'>): string | undefined {
  if (model !== undefined || modelPath?.includes('@') !== true) return undefined;
  return argumentValue(engineArguments, REVISION_FLAG) === undefined ? hubModelOf(modelPath)?.revision : undefined;
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
