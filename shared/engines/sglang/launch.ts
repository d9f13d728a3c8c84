import type { ResolvedConfig } from '../../config/index.ts';
import { withMediaGuard } from '../media/guarded-engine.ts';
import { forKind } from '../server/embedder.ts';
import {
  argumentsOf,
  givenValue,
  type LaunchPlan,
  launchBasics,
  launchEvents,
  openedServer,
  servedNameOf,
  serverSettings,
  withRanks,
} from '../server/launch.ts';
import { ServerEngine, type ServerEngineDeps, type ServerEngineOptions } from '../server/server-engine.ts';
import type { Engine, EngineKind } from '../types.ts';
import { SglangDialect, type SglangDialectOptions } from './sglang-dialect.ts';

export interface SglangEngineOptions extends ServerEngineOptions, SglangDialectOptions {}

/** `--engine sglang`: attached by `--engine-url`, else started. */
export const sglang: EngineKind = {
  roles: ['prefill', 'decode', 'pd'],
  displayName: servedNameOf,
  async open(config, context) {
    const { settings } = config;
    const launch = settings.engineUrl === undefined ? await sglangLaunch(config) : undefined;
    const options = { ...serverSettings(config), launch };
    const engine = new ServerEngine(forKind(settings, new SglangDialect(options)), options, context);
    return openedServer(withMediaGuard(engine, settings, context.clock), settings);
  },
};

/** How the sidecar starts SGLang: on the loopback, with metrics and KV events. */
export async function sglangLaunch(config: ResolvedConfig<'worker'>): Promise<LaunchPlan> {
  const { settings } = config;
  const { model, servedName, words, enableLora, fromFile } = await launchBasics(settings);
  const [program = 'python3', ...before] = words ?? ['python3', '-m', 'sglang.launch_server'];
  const { disaggregationMode: role, pythonhashseed: seed } = settings;
  const ranks = givenValue(config, 'dataParallelSize');
  const plan: Omit<LaunchPlan, 'ranks'> = {
    eventsPort: settings.vllmKvEventPort,
    command: (ports) => {
      const named = argumentsOf({
        'model-path': model,
        host: '127.0.0.1',
        port: ports.http,
        'served-model-name': servedName,
        'enable-metrics': true,
        'max-running-requests': givenValue(config, 'maxNumSeqs'),
        'context-length': settings.maxModelLen,
        'page-size': givenValue(config, 'blockSize'),
        'tp-size': givenValue(config, 'tensorParallelSize'),
        'dp-size': ranks,
        'disable-radix-cache': settings.enablePrefixCaching ? undefined : true,
        'stream-interval': settings.streamInterval,
        'kv-events-config': launchEvents(settings, ports),
        'is-embedding': settings.embeddingWorker || undefined,
        'enable-lora': enableLora || undefined,
        'max-lora-rank': settings.maxLoraRank,
        'max-loras-per-batch': settings.maxLoras,
        'disaggregation-mode': role === 'prefill' || role === 'decode' ? role : undefined,
        ...fromFile,
      });
      const env: Readonly<Record<string, string>> = seed === undefined ? {} : { PYTHONHASHSEED: `${seed}` };
      return { program, args: [...before, ...named, ...settings.engineArguments], env };
    },
    missing: /No module named '?sglang/,
    install: "pip install 'sglang[all]'",
    // Each event then has the new ids alone; without it the ids so far are sent again and again.
    optional: [['--incremental-streaming-output']],
  };
  return withRanks(plan, 'sglang');
}

/**
 * SGLang as an engine: its native `/generate`, KV events by ZeroMQ.
 *
 * @throws TypeError when `url` is no HTTP URL.
 * @example
 * const engine = createSglangEngine({ url: 'http://127.0.0.1:30000' }, { clock: systemClock, logger });
 */
export function createSglangEngine(options: SglangEngineOptions, deps: ServerEngineDeps): Engine {
  return new ServerEngine(new SglangDialect(options), options, deps);
}
