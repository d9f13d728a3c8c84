import { hideSecrets, type ResolvedConfig, type SettingName, type Settings } from '../../config/index.ts';
import type { Logger } from '../../telemetry/index.ts';
import { argumentValue, type LaunchPorts, type OptionalArgument } from './launch-plan.ts';

type WorkerConfig = ResolvedConfig<'worker'>;

const LOOPBACK = '127.0.0.1';
/** Every address of the machine. */
const ANY_HOST = new Set(['0.0.0.0', '::', '']);

/** What a variable says: what a flag says is among the arguments that are passed on. */
export function valueOfVariable<K extends SettingName & keyof Settings<'worker'>>(
  { given, settings }: WorkerConfig,
  setting: K,
) {
  return given.get(setting)?.kind === 'variable' ? settings[setting] : undefined;
}

/** The chat template that was given, and that the engine has not got by a flag of its own. */
export function templateOf({ given, settings }: WorkerConfig): string | undefined {
  return given.get('customJinjaTemplate')?.passed === undefined ? settings.customJinjaTemplate : undefined;
}

/** Those of `optional` of which the user said nothing in either way. */
export function leftOpen(
  optional: readonly OptionalArgument[],
  { engineArguments: args }: Settings<'worker'>,
): readonly OptionalArgument[] {
  const told = new Set(
    args.map((argument) =>
      argument
        .replace(/=.*/s, '')
        .replaceAll('_', '-')
        .replace(/^--no-/, '--'),
    ),
  );
  return optional.filter(({ words: [flag] }) => !told.has(flag) && !told.has(flag.replace('--enable-', '--disable-')));
}

/** Where the engine is to listen: what the user did not say of it. */
export function addressLeft({ engineArguments: args }: Settings<'worker'>, ports: LaunchPorts) {
  return {
    host: argumentValue(args, '--host') === undefined ? LOOPBACK : undefined,
    port: argumentValue(args, '--port') === undefined ? ports.http : undefined,
  };
}

/** Whether others than this machine reach an engine with such arguments. */
export function isOpen({ engineArguments: args }: Settings<'worker'>): boolean {
  const host = argumentValue(args, '--host') ?? LOOPBACK;
  return !/^(127\.|localhost$|::1$)/.test(host);
}

/** Where to reach an engine that was started with such arguments. */
export function urlIn(args: readonly string[]): string {
  const host = argumentValue(args, '--host') ?? '';
  const name = ANY_HOST.has(host) ? LOOPBACK : host;
  return `http://${name.includes(':') ? `[${name}]` : name}:${argumentValue(args, '--port')}`;
}

/** The key that the engine will ask for, as it was told: its worker has to know it, too. */
export function keyIn({ engine, engineArguments: args }: Settings<'worker'>): string | undefined {
  return argumentValue(args, '--api-key') ?? (engine === 'vllm' ? process.env.VLLM_API_KEY || undefined : undefined);
}

/** Says what of the engine's arguments the user gave. */
export function tellPassed({ settings }: WorkerConfig, logger: Logger): void {
  const { engine, engineArguments } = settings;
  if (engineArguments.length === 0) return;
  logger.info('passed on to the engine', { engine, flags: hideSecrets(engineArguments).join(' ') });
}
