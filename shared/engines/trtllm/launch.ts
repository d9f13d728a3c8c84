import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ResolvedConfig } from '../../config/index.ts';
import { withMediaGuard } from '../media/guarded-engine.ts';
import { createMultimodalEngine } from '../media/multimodal-engine.ts';
import { givenValue, launchBasics, servedNameOf, serverSettings } from '../server/launch.ts';
import { argumentValue, givenPort, type LaunchPlan, type LaunchPorts } from '../server/launch-plan.ts';
import { openedServer } from '../server/model-files.ts';
import { addressLeft, logPassed, valueOfVariable } from '../server/passed-arguments.ts';
import { ServerEngine, type ServerEngineDeps, type ServerEngineOptions } from '../server/server-engine.ts';
import type { Engine, EngineContext, EngineKind, OpenedEngine } from '../types.ts';
import { TrtllmDialect, type TrtllmDialectOptions } from './trtllm-dialect.ts';

export interface TrtllmEngineOptions extends ServerEngineOptions, TrtllmDialectOptions {}

/** Engine kind `--engine trtllm`: attaches the server at `--engine-url`, or starts one. */
export const trtllm: EngineKind = {
  roles: ['prefill', 'decode'],
  displayName: servedNameOf,
  async open(config, context) {
    if (config.settings.engineUrl !== undefined) return openTrtllm(config, context, undefined);
    const folder = mkdtempSync(join(tmpdir(), 'stator-trtllm-'));
    try {
      return await openTrtllm(config, context, folder);
    } catch (thrown) {
      rmSync(folder, { recursive: true, force: true });
      throw thrown;
    }
  },
};

/** Opens the engine. @param folder for the options of a started engine, removed with it; undefined = it is attached */
async function openTrtllm(
  config: ResolvedConfig<'worker'>,
  context: EngineContext,
  folder: string | undefined,
): Promise<OpenedEngine> {
  const { settings } = config;
  const { disaggregationMode: role, maxModelLen, kvEventsConfig, enablePrefixCaching } = settings;
  const { launchFacts: _, ...server } = serverSettings(config);
  logPassed(config, context.logger);
  const engine = createTrtllmEngine(
    {
      ...server,
      launch: folder === undefined ? undefined : trtllmLaunch(config, folder),
      isPrefill: role === 'prefill',
      followsEvents: role !== 'decode' && enablePrefixCaching && kvEventsConfig?.enable_kv_cache_events !== false,
      contextLength: maxModelLen,
      blockSizeTokens: givenValue(config, 'blockSize'),
      maxNumSeqs: givenValue(config, 'maxNumSeqs'),
      maxNumBatchedTokens: givenValue(config, 'maxNumBatchedTokens'),
    },
    context,
  );
  const own = folder === undefined ? engine : withoutFolder(engine, folder);
  const guarded = withMediaGuard(own, settings, context.clock);
  const multimodal = createMultimodalEngine(guarded, {
    accepts: settings.enableMultimodal,
    isEncoder: false,
    promptTemplate: givenValue(config, 'mmPromptTemplate'),
  });
  return openedServer(multimodal, config, context);
}

/** Number of events that the engine keeps until they are requested, every few seconds at most. */
const EVENT_BUFFER_MAX = 65_536;
/** Option file of the user: of two such files, the last one would count. */
const OWN_FILE = /^--(config|extra_llm_api_options)(=|$)/;

/**
 * Returns the plan by which the sidecar starts TensorRT-LLM: on the loopback, with statistics and KV events. @param
 * folder for its options
 */
export function trtllmLaunch(config: ResolvedConfig<'worker'>, folder: string): LaunchPlan {
  const { settings } = config;
  const { model, words, revision } = launchBasics(settings);
  const [program = 'trtllm-serve', ...before] = words ?? [];
  const hasOwnFile = settings.engineArguments.some((argument) => OWN_FILE.test(argument));
  const port = givenPort('--port', argumentValue(settings.engineArguments, '--port'));
  const options = join(folder, 'options.yaml');
  if (!hasOwnFile) writeFileSync(options, JSON.stringify(llmOptions(config), undefined, 2)); // JSON is also YAML
  return {
    packageName: 'tensorrt-llm',
    program: [program, ...before],
    helpArguments: ['--help'],
    releases: { oldest: '1.0', newest: '1.2' },
    optional: [], // every release supports its arguments
    ports: { http: port ?? { setting: 'STATOR_ENGINE_PORTS', ports: settings.enginePorts } },
    givenPorts: [],
    command: (ports: LaunchPorts) => {
      const named = underscored({
        ...addressLeft(settings, ports),
        max_batch_size: valueOfVariable(config, 'maxNumSeqs'),
        max_num_tokens: valueOfVariable(config, 'maxNumBatchedTokens'),
        max_seq_len: valueOfVariable(config, 'maxModelLen'),
        tp_size: valueOfVariable(config, 'tensorParallelSize'),
        revision,
        extra_llm_api_options: hasOwnFile ? undefined : options,
      });
      return { program, args: [...before, model, ...named, ...settings.engineArguments], env: {} };
    },
    missing: /No module named '?tensorrt_llm/,
    install: 'pip install tensorrt-llm',
  };
}

function llmOptions(config: ResolvedConfig<'worker'>): Readonly<Record<string, unknown>> {
  const { disaggregationMode: role, enablePrefixCaching } = config.settings;
  const blockSize = givenValue(config, 'blockSize');
  const isSplit = role === 'prefill' || role === 'decode';
  return {
    kv_cache_config: {
      enable_block_reuse: enablePrefixCaching,
      ...(role === 'decode' || !enablePrefixCaching ? {} : { event_buffer_max_size: EVENT_BUFFER_MAX }),
      ...(blockSize === undefined ? {} : { tokens_per_block: blockSize }),
    },
    enable_iter_perf_stats: true,
    return_perf_metrics: true,
    ...(isSplit ? { cache_transceiver_config: { backend: 'DEFAULT' } } : {}),
    // with it, the engine cannot compute prompts for others
    ...(role === 'prefill' ? { disable_overlap_scheduler: true } : {}),
  };
}

/** Writes named values as arguments; `true` is the bare flag; false and undefined are left out. */
function underscored(named: Readonly<Record<string, unknown>>): readonly string[] {
  return Object.entries(named).flatMap(([name, value]) => {
    if (value === undefined || value === null || value === false) return [];
    const flag = `--${name.replaceAll('-', '_')}`;
    return value === true ? [flag] : [flag, typeof value === 'object' ? JSON.stringify(value) : String(value)];
  });
}

/** Wraps `engine` so that stopping it removes its folder. */
function withoutFolder(engine: Engine, folder: string): Engine {
  const stop = async (): Promise<void> => {
    await engine.stop();
    rmSync(folder, { recursive: true, force: true });
  };
  return new Proxy(engine, {
    get: (target, name) => {
      if (name === 'stop') return stop;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

/**
 * Creates TensorRT-LLM as an engine: tokens in and out by `/v1/completions`, KV events by polling.
 *
 * @throws TypeError when `url` is not an HTTP URL.
 * @example
 * const engine = createTrtllmEngine({ url: 'http://127.0.0.1:8000' }, { clock: systemClock, logger });
 */
export function createTrtllmEngine(options: TrtllmEngineOptions, deps: ServerEngineDeps): Engine {
  return new ServerEngine(new TrtllmDialect(options), options, deps);
}
