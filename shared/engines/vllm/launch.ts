import { networkInterfaces } from 'node:os';
import type { ResolvedConfig, Settings } from '../../config/index.ts';
import { withMediaGuard } from '../media/guarded-engine.ts';
import { createMultimodalEngine } from '../media/multimodal-engine.ts';
import { forKind } from '../server/embedder.ts';
import type { LaunchCommand } from '../server/engine-process.ts';
import { startFurtherNode } from '../server/further-node.ts';
import { argumentsOf, givenValue, launchBasics, launchEvents, servedNameOf, serverSettings } from '../server/launch.ts';
import { launchFactsOf } from '../server/launch-facts.ts';
import { argumentValue, type LaunchPlan, type LaunchPorts, NO_PORTS } from '../server/launch-plan.ts';
import { openedServer } from '../server/model-files.ts';
import { addressLeft, isOpen, leftOpen, logPassed, templateOf, valueOfVariable } from '../server/passed-arguments.ts';
import { ServerEngine, type ServerEngineDeps, type ServerEngineOptions } from '../server/server-engine.ts';
import type { Engine, EngineContext, EngineKind, SecondaryNode } from '../types.ts';
import { createIdentifyingEngine, keepsIdentities } from './media-identities.ts';
import { handsOver, vllmPorts } from './ports.ts';
import { optionalArguments, VLLM_RELEASES } from './releases.ts';
import { VllmDialect, type VllmDialectOptions } from './vllm-dialect.ts';

export interface VllmEngineOptions extends ServerEngineOptions, VllmDialectOptions {}

/** Engine kind `--engine vllm`: attaches the server at `--engine-url`, or starts one. */
export const vllm: EngineKind = {
  roles: ['prefill', 'decode', 'pd', 'encode'],
  displayName: servedNameOf,
  async open(config, context) {
    const { settings } = config;
    if (settings.omni) return (await import('../omni/launch.ts')).openOmni(config, context);
    const { model, modelPath, engineUrl, disaggregationMode: role } = settings;
    const server = { ...serverSettings(config), isPrefill: role === 'prefill' };
    const modelName = servedNameOf(settings) ?? model ?? modelPath;
    logPassed(config, context.logger);
    const own =
      engineUrl === undefined
        ? {
            launch: vllmLaunch(config),
            takesPromptEmbeds: settings.enablePromptEmbeds,
            modelName,
            maxNumSeqs: givenValue(config, 'maxNumSeqs'),
            maxNumBatchedTokens: givenValue(config, 'maxNumBatchedTokens'),
          }
        : { modelName: model };
    const dialect = forKind(settings, new VllmDialect({ ...server, ...own }));
    const plain = new ServerEngine(dialect, { ...server, ...own }, context);
    const identifying = createIdentifyingEngine(plain, keepsIdentities(settings.engineArguments));
    const guarded = withMediaGuard(identifying, settings, context.clock);
    const engine = createMultimodalEngine(guarded, {
      accepts: settings.enableMultimodal,
      isEncoder: role === 'encode',
      // The default is Dynamo's text around prompts of one old model; today's models have templates of their own.
      promptTemplate: givenValue(config, 'mmPromptTemplate'),
    });
    return openedServer(engine, config, context);
  },
  startSecondary,
};

/**
 * Returns the plan by which the sidecar starts vLLM: on the loopback, with the arguments that the worker's duties need.
 */
export function vllmLaunch(config: ResolvedConfig<'worker'>): LaunchPlan {
  const { settings } = config;
  const { engineArguments: passed } = settings;
  const { model, servedNames, words = [], enableLora, revision } = launchBasics(settings);
  const [program = 'vllm', ...before] = words;
  const statsSecs = givenValue(config, 'vllmLogStatsIntervalSecs');
  // slightly less than the worker's own drain
  const shutdownSecs = Math.max(1, Math.floor(settings.gracefulShutdownGracePeriodSecs) - 1);
  const env = {
    // Equal hashes in every process, also in versions before 0.30.
    PYTHONHASHSEED: `${settings.pythonhashseed ?? 0}`,
    // Enables /reset_prefix_cache, /sleep and /wake_up, only on the loopback.
    ...(settings.vllmServerDevMode === undefined && !isOpen(settings) ? { VLLM_SERVER_DEV_MODE: '1' } : {}),
    ...(enableLora && settings.vllmAllowRuntimeLoraUpdating === undefined
      ? { VLLM_ALLOW_RUNTIME_LORA_UPDATING: 'True' }
      : {}),
    ...(statsSecs === undefined ? {} : { VLLM_LOG_STATS_INTERVAL: `${statsSecs}` }),
  };
  const command = (ports: LaunchPorts): LaunchCommand => {
    const named = argumentsOf({
      ...addressLeft(settings, ports),
      'served-model-name': servedNames,
      revision,
      'stream-interval': valueOfVariable(config, 'streamInterval'),
      'chat-template': templateOf(config),
      'kv-transfer-config': settings.kvTransferConfig,
      'kv-events-config': launchEvents(settings, ports, { enable_kv_cache_events: true }),
      runner: settings.embeddingWorker && argumentValue(passed, '--runner') === undefined ? 'pooling' : undefined,
      'enable-lora': settings.enableLora === undefined && enableLora ? true : undefined,
    });
    const given = [...before, 'serve', model, ...named, ...passed];
    const args = enableLora ? [...given, ...oneServer(given)] : given;
    const host = handsOver(args) ? { VLLM_NIXL_SIDE_CHANNEL_HOST: sideChannelHost(settings) } : {};
    return { program, args, env: { ...env, ...host, ...portVariables(ports) } };
  };
  const { args } = command(NO_PORTS);
  return {
    packageName: 'vllm',
    program: [program, ...before],
    helpArguments: ['serve', '--help=all'],
    releases: VLLM_RELEASES,
    optional: leftOpen(optionalArguments(shutdownSecs), settings),
    ...vllmPorts(settings, launchFactsOf(args, 'vllm'), args),
    command,
    missing: /No module named '?vllm/,
    install: 'pip install vllm',
  };
}

/**
 * Returns the argument for one server. For several ranks vLLM starts as many servers and then refuses to load adapters,
 * because each would know only its own.
 */
function oneServer(args: readonly string[]): readonly string[] {
  const isGiven = args.some((arg) => /^(--api[-_]server[-_]count|-asc)(=|$)/.test(arg));
  return isGiven || launchFactsOf(args, 'vllm').ranks === 1 ? [] : ['--api-server-count', '1'];
}

function portVariables({ sideChannel, encoder, own }: LaunchPorts): Readonly<Record<string, string>> {
  return {
    ...(sideChannel === undefined ? {} : { VLLM_NIXL_SIDE_CHANNEL_PORT: `${sideChannel}` }),
    ...(encoder === undefined ? {} : { VLLM_EC_SIDE_CHANNEL_PORT: `${encoder}` }),
    ...(own === undefined ? {} : { VLLM_PORT: `${own}` }),
  };
}

/** Returns the address from which the NIXL connector's peers fetch blocks: one that other machines can reach. */
function sideChannelHost({ vllmNixlSideChannelHost: host }: Settings<'worker'>): string {
  const own = Object.values(networkInterfaces())
    .flatMap((addresses) => addresses ?? [])
    .find(({ internal, family, address }) => !internal && family === 'IPv4' && !address.startsWith('169.254.'));
  const address = host ?? own?.address;
  if (address === undefined) throw new Error('no address for the NIXL connector: set VLLM_NIXL_SIDE_CHANNEL_HOST');
  return address;
}

/**
 * Creates vLLM as an engine: tokens in and out by the best route that its server has, KV events by ZeroMQ.
 *
 * @throws TypeError when `url` is not an HTTP URL.
 * @example
 * const engine = createVllmEngine({ url: 'http://127.0.0.1:8000' }, { clock: systemClock, logger });
 * const { contextLength } = await engine.start(signal);
 */
export function createVllmEngine(options: VllmEngineOptions, deps: ServerEngineDeps): Engine {
  return new ServerEngine(new VllmDialect(options), options, deps);
}

/**
 * Starts `vllm serve --headless`. vLLM itself connects its nodes: `--data-parallel-address`,
 * `--data-parallel-start-rank`, `--nnodes`, `--node-rank` and the like are among the engine's arguments.
 */
function startSecondary(
  config: ResolvedConfig<'worker'>,
  context: Pick<EngineContext, 'clock' | 'logger'>,
): Promise<SecondaryNode> {
  return startFurtherNode(vllmLaunch(config), ['--headless'], context);
}
