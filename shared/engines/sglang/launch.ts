import {
  argumentsOf,
  type LaunchPlan,
  type LaunchPorts,
  launchEvents,
  type ServerLaunchSettings,
} from '../server/dialect.ts';
import type { LaunchCommand } from '../server/engine-process.ts';
import { ServerEngine, type ServerEngineDeps, type ServerEngineOptions } from '../server/server-engine.ts';
import type { Engine } from '../types.ts';
import { SglangDialect, type SglangDialectOptions } from './sglang-dialect.ts';

export interface SglangEngineOptions extends Omit<ServerEngineOptions, 'launch'>, Pick<SglangDialectOptions, 'events'> {
  /** How to start the server; without it `url` names one that runs. */
  readonly launch?: SglangLaunchSettings | undefined;
  /** The engine renders and tokenizes chats itself. Default false. */
  readonly takesText?: boolean | undefined;
}

/** What SGLang's server is started with; `program` is `python3 -m sglang.launch_server` by default. */
export interface SglangLaunchSettings extends ServerLaunchSettings {
  readonly maxRunningRequests?: number | undefined;
  readonly contextLengthTokens?: number | undefined;
  readonly pageSizeTokens?: number | undefined;
  /** Role in a disaggregated deployment. */
  readonly disaggregationMode?: 'prefill' | 'decode' | undefined;
}

/** How the sidecar starts SGLang: on the loopback, with metrics and KV events. */
export function sglangLaunch(settings: SglangLaunchSettings): LaunchPlan {
  return {
    ranks: settings.dataParallelSize ?? 1,
    eventsPort: settings.eventsPort,
    command: (ports) => commandOf(settings, ports),
    // Each event then has the new ids alone; without it the ids so far are sent again and again.
    missing: /No module named '?sglang/,
    install: "pip install 'sglang[all]'",
    optional: [['--incremental-streaming-output']],
  };
}

function commandOf(settings: SglangLaunchSettings, ports: LaunchPorts): LaunchCommand {
  const [program, ...before] = settings.program ?? ['python3', '-m', 'sglang.launch_server'];
  const named = argumentsOf({
    'model-path': settings.model,
    host: '127.0.0.1',
    port: ports.http,
    'served-model-name': settings.servedModelName,
    'enable-metrics': true,
    'max-running-requests': settings.maxRunningRequests,
    'context-length': settings.contextLengthTokens,
    'page-size': settings.pageSizeTokens,
    'tp-size': settings.tensorParallelSize,
    'dp-size': settings.dataParallelSize,
    'disable-radix-cache': settings.enablePrefixCaching ? undefined : true,
    'stream-interval': settings.streamIntervalTokens,
    'kv-events-config': launchEvents(settings, ports),
    'enable-lora': settings.enableLora || undefined,
    'max-lora-rank': settings.maxLoraRank,
    'max-loras-per-batch': settings.maxLoras,
    'disaggregation-mode': settings.disaggregationMode,
    ...settings.fromFile,
  });
  return { program: program ?? 'python3', args: [...before, ...named, ...settings.args], env: { ...settings.env } };
}

/**
 * SGLang as an engine: its native `/generate`, KV events by ZeroMQ.
 *
 * @throws TypeError when `url` is no HTTP URL.
 * @example
 * const engine = createSglangEngine({ url: 'http://127.0.0.1:30000' }, { clock: systemClock, logger });
 */
export function createSglangEngine(options: SglangEngineOptions, deps: ServerEngineDeps): Engine {
  const { launch, takesText = false, events, ...server } = options;
  const dialect = new SglangDialect({ takesText, events });
  return new ServerEngine(dialect, { ...server, launch: launch && sglangLaunch(launch) }, deps);
}
