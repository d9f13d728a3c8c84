import { hideSecrets, type ResolvedConfig, type SettingName, type Settings } from '../../config/index.ts';
import type { Logger } from '../../telemetry/index.ts';
import { argumentValue, type LaunchPorts, type OptionalArgument } from './launch-plan.ts';

type WorkerConfig = ResolvedConfig<'worker'>;

const LOOPBACK = '127.0.0.1';
/** Every address of the machine. */
const ANY_HOST = new Set(['0.0.0.0', '::', '']);

/** Returns a value that comes from a variable; a flag's value is among the arguments that are passed on. */
export function valueOfVariable<K extends SettingName & keyof Settings<'worker'>>(
  { given, settings }: WorkerConfig,
  setting: K,
) {
  return given.get(setting)?.kind === 'variable' ? settings[setting] : undefined;
}

/** Returns the configured chat template, unless the engine gets it by a flag of its own. */
export function templateOf({ given, settings }: WorkerConfig): string | undefined {
  return given.get('customJinjaTemplate')?.passed === undefined ? settings.customJinjaTemplate : undefined;
}

/** Returns the arguments of `optional` that the user has not set in either way. */
export function leftOpen(
  optional: readonly OptionalArgument[],
  { engineArguments: args }: Settings<'worker'>,
): readonly OptionalArgument[] {
  const given = new Set(
    args.map((argument) =>
      argument
        .replace(/=.*/s, '')
        .replaceAll('_', '-')
        .replace(/^--no-/, '--'),
    ),
  );
  return optional.filter(
    ({ words: [flag] }) => !given.has(flag) && !given.has(flag.replace('--enable-', '--disable-')),
  );
}

/** Returns where the engine must listen, as far as the user did not set it. */
export function addressLeft({ engineArguments: args }: Settings<'worker'>, ports: LaunchPorts) {
  return {
    host: argumentValue(args, '--host') === undefined ? LOOPBACK : undefined,
    port: argumentValue(args, '--port') === undefined ? ports.http : undefined,
  };
}

/** Returns whether other machines can reach an engine with such arguments. */
export function isOpen({ engineArguments: args }: Settings<'worker'>): boolean {
  const host = argumentValue(args, '--host') ?? LOOPBACK;
  return !/^(127\.|localhost$|::1$)/.test(host);
}

/** Returns the URL of an engine that was started with such arguments. */
export function urlIn(args: readonly string[]): string {
  const host = argumentValue(args, '--host') ?? '';
  const name = ANY_HOST.has(host) ? LOOPBACK : host;
  return `http://${name.includes(':') ? `[${name}]` : name}:${argumentValue(args, '--port')}`;
}

/** Returns the API key that the engine will require according to its configuration, which its worker must send. */
export function keyIn({ engine, engineArguments: args }: Settings<'worker'>): string | undefined {
  return argumentValue(args, '--api-key') ?? (engine === 'vllm' ? process.env.VLLM_API_KEY || undefined : undefined);
}

/** Logs the engine's arguments that the user gave. */
export function logPassed({ settings }: WorkerConfig, logger: Logger): void {
  const { engine, engineArguments } = settings;
  if (engineArguments.length === 0) return;
  logger.info('arguments passed on to the engine', { engine, flags: hideSecrets(engineArguments).join(' ') });
}
