import { reasonOf } from '../../errors/index.ts';
import { isRecord } from '../../records/index.ts';
import type { Process } from '../row.ts';
import { TABLE } from '../table.ts';
import type { Environment, Surroundings } from '../values/value-type.ts';
import { isFlag } from '../values/words.ts';
import type { EngineFlags } from './engine-flags.ts';
import { type FileArguments, namedEngine, textOfFlag } from './read-command-line.ts';

const FLAG = '--engine-config-json';

/**
 * Returns the arguments that the file of `--engine-config-json` has for the started engine, as flags; undefined without
 * such a file. If the file is missing, the row of the setting reports it.
 */
export function readEngineFile(
  process: Process,
  argv: readonly string[],
  env: Environment,
  around: Surroundings,
  problems: string[],
): FileArguments | undefined {
  const text = textOfFlag(argv, FLAG);
  const engine = namedEngine(process, argv, env);
  if (process !== 'worker' || text === undefined || engine?.flags === undefined) return undefined;
  const path = TABLE.get('engineConfigJson')?.type.parse([text], around);
  if (path?.ok !== true || typeof path.value !== 'string') return undefined;
  const source = `${FLAG} ${path.value}`;
  try {
    const value: unknown = JSON.parse(around.readText(path.value));
    if (isRecord(value)) return { argv: wordsOf(value, engine.flags), source };
    problems.push(`${source}: the file does not hold a JSON object`);
  } catch (thrown) {
    problems.push(`${source}: ${reasonOf(thrown)}`);
  }
  return undefined;
}

/**
 * Turns keys and values into flags: `true` becomes the flag by itself, `false` its `--no-` form, a list several values,
 * an object JSON. Null leaves the key out, and so does `false` if the flag can only be set. `_` in a key may stand for
 * `-`.
 */
function wordsOf(
  values: Readonly<Record<string, unknown>>,
  { engine, names, shared, isUnderscored }: EngineFlags,
): readonly string[] {
  return Object.entries(values).flatMap(([key, value]) => {
    const name = `--${key.replaceAll('_', '-')}`;
    const flag = isUnderscored === true ? `--${key.replaceAll('-', '_')}` : name;
    if (value === null) return [];
    if (value === true) return [flag];
    const off = `--no-${name.slice(2)}`;
    if (value === false) return engine === 'vllm' || names.has(off) || shared[name]?.on !== undefined ? [off] : [];
    if (Array.isArray(value)) return [flag, ...value.map(spell)];
    return isFlag(spell(value)) ? [`${flag}=${spell(value)}`] : [flag, spell(value)];
  });
}

function spell(value: unknown): string {
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}
