import type { Clock } from '../../clock/index.ts';
import type { Logger } from '../../telemetry/index.ts';
import {
  argumentsOf,
  type LaunchPlan,
  type LaunchPorts,
  launchEvents,
  type ServerLaunchSettings,
} from '../server/dialect.ts';
import { EngineProcess, freePorts, type LaunchCommand, levelOfLine } from '../server/engine-process.ts';
import { ServerEngine, type ServerEngineDeps, type ServerEngineOptions } from '../server/server-engine.ts';
import type { Engine } from '../types.ts';
import { VllmDialect, type VllmDialectOptions } from './vllm-dialect.ts';

export interface VllmEngineOptions
  extends Omit<ServerEngineOptions, 'launch'>,
    Pick<VllmDialectOptions, 'modelName' | 'events'> {
  /** How to start `vllm serve`; without it `url` names a server that runs. */
  readonly launch?: VllmLaunchSettings | undefined;
  /** The engine computes prompts and hands their blocks to decode workers. Default false. */
  readonly isPrefill?: boolean | undefined;
  /** The engine renders and tokenizes chats itself. Default false. */
  readonly takesText?: boolean | undefined;
}

/** What `vllm serve` is started with; `program` is what comes before `serve`, `vllm` by default. */
export interface VllmLaunchSettings extends ServerLaunchSettings {
  readonly maxNumSeqs: number;
  readonly maxNumBatchedTokens: number;
  readonly maxModelLen?: number | undefined;
  readonly blockSizeTokens?: number | undefined;
  readonly numGpuBlocks?: number | undefined;
  readonly prefixCachingAlgo?: string | undefined;
  readonly kvTransferConfig?: Readonly<Record<string, unknown>> | undefined;
  readonly enablePromptEmbeds: boolean;
  readonly shutdownTimeoutSecs: number;
}

/** How the sidecar starts vLLM: on the loopback, with what its own duties need. */
export function vllmLaunch(settings: VllmLaunchSettings): LaunchPlan {
  return {
    ranks: settings.dataParallelSize ?? 1,
    eventsPort: settings.eventsPort,
    command: (ports) => commandOf(settings, ports),
    missing: /No module named '?vllm/,
    install: 'pip install vllm',
    optional: [
      ['--enable-scale-out'],
      ['--shutdown-timeout', `${settings.shutdownTimeoutSecs}`],
      ['--enable-prompt-tokens-details'],
      ['--disable-uvicorn-access-log'],
    ],
  };
}

function commandOf(settings: VllmLaunchSettings, ports: LaunchPorts): LaunchCommand {
  const [program = 'vllm', ...before] = settings.program ?? [];
  const named = argumentsOf({
    host: '127.0.0.1',
    port: ports.http,
    'served-model-name': settings.servedModelName,
    'max-num-seqs': settings.maxNumSeqs,
    'max-num-batched-tokens': settings.maxNumBatchedTokens,
    'max-model-len': settings.maxModelLen,
    'block-size': settings.blockSizeTokens,
    'num-gpu-blocks-override': settings.numGpuBlocks,
    'tensor-parallel-size': settings.tensorParallelSize,
    'data-parallel-size': settings.dataParallelSize,
    'enable-prefix-caching': settings.enablePrefixCaching,
    'prefix-caching-hash-algo': settings.prefixCachingAlgo,
    'stream-interval': settings.streamIntervalTokens,
    'kv-transfer-config': settings.kvTransferConfig,
    'kv-events-config': launchEvents(settings, ports, { enable_kv_cache_events: true }),
    'enable-lora': settings.enableLora || undefined,
    'max-lora-rank': settings.maxLoraRank,
    'max-loras': settings.maxLoras,
    'enable-prompt-embeds': settings.enablePromptEmbeds || undefined,
    ...settings.fromFile,
  });
  return {
    program,
    args: [...before, 'serve', settings.model, ...named, ...settings.args],
    env: {
      // Equal hashes in every process, also of versions before 0.30.
      PYTHONHASHSEED: '0',
      // Opens /reset_prefix_cache, /sleep and /wake_up; the server listens on the loopback alone.
      VLLM_SERVER_DEV_MODE: '1',
      ...(settings.enableLora ? { VLLM_ALLOW_RUNTIME_LORA_UPDATING: 'True' } : {}),
      ...settings.env,
    },
  };
}

/**
 * vLLM as an engine: tokens in and out by the best way that its server has, KV events by ZeroMQ.
 *
 * @throws TypeError when `url` is no HTTP URL.
 * @example
 * const engine = createVllmEngine({ url: 'http://127.0.0.1:8000' }, { clock: systemClock, logger });
 * const { contextLength } = await engine.start(signal);
 */
export function createVllmEngine(options: VllmEngineOptions, deps: ServerEngineDeps): Engine {
  const { launch, isPrefill = false, takesText = false, modelName, events, ...server } = options;
  const dialect = new VllmDialect({
    modelName: modelName ?? launch?.servedModelName,
    isPrefill,
    takesText,
    maxNumSeqs: launch?.maxNumSeqs,
    maxNumBatchedTokens: launch?.maxNumBatchedTokens,
    events,
  });
  return new ServerEngine(dialect, { ...server, launch: launch && vllmLaunch(launch) }, deps);
}

const STOP_GRACE_MS = 2000;

/** The part of an engine that runs on one more machine: it computes, and answers nobody but the engine's first node. */
export interface SecondaryNode {
  /** Resolves when the process has ended by itself, with the reason. */
  readonly exit: Promise<Error>;
  /** Ends the process. Idempotent. */
  stop(): Promise<void>;
}

/**
 * Starts `vllm serve --headless`. How the nodes find each other is vLLM's own matter:
 * `--data-parallel-address`, `--data-parallel-start-rank` and the like are among `settings.args`.
 */
export async function startSecondaryVllm(
  settings: VllmLaunchSettings,
  { clock, logger }: { readonly clock: Clock; readonly logger: Logger },
): Promise<SecondaryNode> {
  const http = await freePorts(1);
  const planned = vllmLaunch({ ...settings, publishesKvEvents: false }).command({ http, events: 0, replay: 0 });
  const command = { ...planned, args: [...planned.args, '--headless'] };
  logger.info('starting a secondary node of the engine', { program: command.program, args: command.args.join(' ') });
  const process = new EngineProcess({ command, clock, onLine: (line) => logger[levelOfLine(line)](line) });
  return {
    exit: process.ended.then(({ reason }) => new Error(reason)),
    stop: () => process.stop(STOP_GRACE_MS),
  };
}
