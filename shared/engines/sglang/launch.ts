import { ConfigError, type ResolvedConfig } from '../../config/index.ts';
import { withMediaGuard } from '../media/guarded-engine.ts';
import { forKind } from '../server/embedder.ts';
import type { LaunchCommand } from '../server/engine-process.ts';
import { startFurtherNode } from '../server/further-node.ts';
import { argumentsOf, launchBasics, launchEvents, servedNameOf, serverSettings } from '../server/launch.ts';
import { launchFactsOf } from '../server/launch-facts.ts';
import { argumentValue, type LaunchPlan, type LaunchPorts, NO_PORTS } from '../server/launch-plan.ts';
import { openedServer } from '../server/model-files.ts';
import { addressLeft, leftOpen, logPassed, templateOf, valueOfVariable } from '../server/passed-arguments.ts';
import { ServerEngine, type ServerEngineDeps, type ServerEngineOptions } from '../server/server-engine.ts';
import type { Engine, EngineContext, EngineKind, SecondaryNode } from '../types.ts';
import { sglangPorts } from './ports.ts';
import { OPTIONAL_ARGUMENTS, SGLANG_RELEASES } from './releases.ts';
import { SglangDialect, type SglangDialectOptions } from './sglang-dialect.ts';

export interface SglangEngineOptions extends ServerEngineOptions, SglangDialectOptions {}

/** Engine kind `--engine sglang`: attaches the server at `--engine-url`, or starts one. */
export const sglang: EngineKind = {
  roles: ['prefill', 'decode', 'pd'],
  displayName: servedNameOf,
  async open(config, context) {
    const { settings } = config;
    const launch = settings.engineUrl === undefined ? sglangLaunch(config) : undefined;
    logPassed(config, context.logger);
    const options = { ...serverSettings(config), launch };
    const engine = new ServerEngine(forKind(settings, new SglangDialect(options)), options, context);
    return openedServer(withMediaGuard(engine, settings, context.clock), config, context);
  },
  startSecondary,
};

/** Returns the plan by which the sidecar starts SGLang: on the loopback, with metrics and KV events. */
export function sglangLaunch(config: ResolvedConfig<'worker'>): LaunchPlan {
  const { settings } = config;
  const { model, servedNames, words, enableLora, revision } = launchBasics(settings);
  const [program = 'python3', ...before] = words ?? ['python3', '-m', 'sglang.launch_server'];
  const { disaggregationMode: role, pythonhashseed: seed } = settings;
  const command = (ports: LaunchPorts): LaunchCommand => {
    const named = argumentsOf({
      'model-path': model,
      ...addressLeft(settings, ports),
      'served-model-name': servedNames[0],
      revision,
      'enable-metrics': true,
      'stream-interval': valueOfVariable(config, 'streamInterval'),
      'chat-template': templateOf(config),
      'kv-events-config': launchEvents(settings, ports),
      'is-embedding': settings.embeddingWorker || undefined,
      'enable-lora': settings.enableLora === undefined && enableLora ? true : undefined,
      'nccl-port': ports.own,
      'disaggregation-bootstrap-port': ports.bootstrap,
      'disaggregation-mode': role === 'prefill' || role === 'decode' ? role : undefined,
    });
    const env: Readonly<Record<string, string>> = seed === undefined ? {} : { PYTHONHASHSEED: `${seed}` };
    return { program, args: [...before, ...named, ...settings.engineArguments], env };
  };
  const { args } = command(NO_PORTS);
  return {
    packageName: 'sglang',
    program: [program, ...before],
    helpArguments: ['--help'],
    releases: SGLANG_RELEASES,
    optional: leftOpen(OPTIONAL_ARGUMENTS, settings),
    ...sglangPorts(settings, launchFactsOf(args, 'sglang'), args),
    command,
    missing: /No module named '?sglang/,
    install: "pip install 'sglang[all]'",
  };
}

/**
 * Creates SGLang as an engine: its native `/generate`, KV events by ZeroMQ.
 *
 * @throws TypeError when `url` is not an HTTP URL.
 * @example
 * const engine = createSglangEngine({ url: 'http://127.0.0.1:30000' }, { clock: systemClock, logger });
 */
export function createSglangEngine(options: SglangEngineOptions, deps: ServerEngineDeps): Engine {
  return new ServerEngine(new SglangDialect(options), options, deps);
}

/**
 * Starts the part of SGLang that `--node-rank` names. SGLang itself connects its nodes by `--dist-init-addr`.
 * @throws ConfigError for the first node, which serves requests
 */
async function startSecondary(
  config: ResolvedConfig<'worker'>,
  context: Pick<EngineContext, 'clock' | 'logger'>,
): Promise<SecondaryNode> {
  const rank = argumentValue(config.settings.engineArguments, '--node-rank') ?? '0';
  if (Number(rank) > 0) return startFurtherNode(sglangLaunch(config), [], context);
  throw new ConfigError([`--headless with --engine sglang needs --node-rank of 1 or more, not ${rank}`]);
}
