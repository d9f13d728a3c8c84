import type { ResolvedConfig, Settings } from '../../config/index.ts';
import { withMediaGuard } from '../media/guarded-engine.ts';
import { launchBasics, servedNameOf, serverSettings } from '../server/launch.ts';
import type { LaunchPlan, LaunchPorts } from '../server/launch-plan.ts';
import { addressLeft, logPassed } from '../server/passed-arguments.ts';
import type { EngineContext, OpenedEngine } from '../types.ts';
import { OmniEngine } from './omni-engine.ts';

/** Opens `--engine vllm --omni`: attaches the server at `--engine-url`, or starts one. */
export async function openOmni(
  config: ResolvedConfig<'worker'>,
  { clock, logger }: Pick<EngineContext, 'clock' | 'logger'>,
): Promise<OpenedEngine> {
  const { settings } = config;
  logPassed(config, logger);
  const { url, apiKey, startTimeoutMs } = serverSettings(config);
  const launch = url === undefined ? omniLaunch(config) : undefined;
  const modelName = launch === undefined ? settings.model : (servedNameOf(settings) ?? settings.model);
  const { outputModalities: makes, omniDefaultVideoFps: defaultFps, tcpMaxMessageSize: answerBytesMax } = settings;
  const options = { url, launch, apiKey, startTimeoutMs, modelName, makes, defaultFps, answerBytesMax };
  const engine = new OmniEngine(options, { clock, logger });
  return { engine: withMediaGuard(engine, settings, clock), model: {} };
}

/** Returns the plan by which the sidecar starts vLLM-Omni, on the loopback. */
export function omniLaunch(config: ResolvedConfig<'worker'>): LaunchPlan {
  const { settings } = config;
  const { model, servedNames, words, revision } = launchBasics(settings);
  const [program = 'vllm-omni', ...before] = words ?? [];
  return {
    packageName: 'vllm-omni',
    program: [program, ...before],
    helpArguments: ['serve', '--omni', '--help'],
    releases: { oldest: '0.20', newest: '0.30' },
    optional: [], // every release supports its arguments
    ports: { http: { setting: 'STATOR_ENGINE_PORTS', ports: settings.enginePorts } },
    givenPorts: [],
    command: (ports: LaunchPorts) => {
      const named = argumentsOf({
        ...addressLeft(settings, ports),
        'served-model-name': servedNames,
        revision,
        'stage-configs-path': settings.stageConfigsPath,
        ...omniArguments(settings),
      });
      return { program, args: [...before, 'serve', model, '--omni', ...named, ...settings.engineArguments], env: {} };
    },
    missing: /No module named '?vllm_omni/,
    install: 'pip install vllm-omni',
  };
}

/** Returns the arguments that variables set (`DYN_OMNI_*`), under the engine's own names. */
function omniArguments(settings: Settings<'worker'>): Readonly<Record<string, unknown>> {
  const named: Record<string, unknown> = {};
  for (const [setting, value] of Object.entries(settings)) {
    const [, name] = /^omni([A-Z]\w*)$/.exec(setting) ?? [];
    if (name === undefined || setting === 'omniDefaultVideoFps' || value === undefined) continue;
    const flag = name.replace(/(?<!^)[A-Z]/g, '-$&').toLowerCase();
    named[flag] = setting === 'omniLoraPath' ? String(value).split(' ') : value;
  }
  return named;
}

function argumentsOf(named: Readonly<Record<string, unknown>>): readonly string[] {
  return Object.entries(named).flatMap(([name, value]) => {
    if (value === undefined || value === null) return [];
    if (String(value) === 'true') return [`--${name}`];
    if (String(value) === 'false') return [`--no-${name}`];
    if (Array.isArray(value)) return [`--${name}`, ...value.map(String)];
    return [`--${name}`, typeof value === 'object' ? JSON.stringify(value) : String(value)];
  });
}
