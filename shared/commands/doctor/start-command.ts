import type { DynamoProgram } from './dynamo-program.ts';
import type { LookedAt } from './looked-at.ts';
import type { ExaminedSettings } from './settings.ts';

/** Variables that belong to the process that the doctor looked at. */
const NAMES = /^(DYN|ETCD|NATS|STATOR|HF|OTEL)_/;

/** Returns the command line that starts Stator in the place of the program, or in front of it. */
export function startCommand(
  { role, command }: DynamoProgram,
  { flags, variables }: ExaminedSettings,
  { pid, env }: LookedAt,
): string {
  const words = [
    ...Object.entries(variables).map(([name, value]) => `${name}=${quote(value)}`),
    'stator',
    role === 'worker' ? 'frontend' : command,
    ...flags.map(quote),
  ];
  const names = pid === undefined ? [] : Object.keys(env).filter((name) => NAMES.test(name));
  const rest = names.length === 0 ? '' : `   (with ${names.sort().join(', ')} of process ${pid})`;
  return `${words.join(' ')}${rest}`;
}

/** Quotes a word for a shell if it needs that. */
function quote(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
