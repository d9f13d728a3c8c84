import { nearestName } from '../errors/index.ts';
import { describeAllowed, PROCESSES, type Process, type Row } from './row.ts';
import { rowsOf } from './table.ts';
import { findUnbuilt, sayUnbuilt } from './unbuilt.ts';
import { hideUrlPassword } from './values/texts.ts';
import type { Environment, PathTarget, Surroundings } from './values/value-type.ts';
import { splitWord } from './values/words.ts';

/** Reason why a process should not be given a variable. */
export interface VariableFault {
  /**
   * Kind of the fault: the name is unknown; another process reads it; it does nothing; the deployment would show the
   * secret; the value is wrong.
   */
  readonly kind: 'unknown' | 'elsewhere' | 'unbuilt' | 'secret' | 'value';
  /** Text that follows the name in a message. */
  readonly says: string;
}

/** Returns the row for which `process` reads `variable`, also under an older spelling. */
export function rowOfVariable(process: Process, variable: string): Row | undefined {
  return rowsOf(process).find(([, { env, olderEnv }]) => env.includes(variable) || olderEnv.includes(variable))?.[1];
}

/**
 * Stands for a machine that does not exist yet: every path that variables and flags (`--name=PATH`) of `process` name
 * exists, and nothing can be read from it.
 */
export function machineToCome(process: Process, env: Environment, argv: readonly string[] = []): Surroundings {
  const targets = new Map<string, PathTarget>();
  const note = (text: string | undefined, row: Row | undefined) => {
    if (text !== undefined && row?.type.target !== undefined) targets.set(text, row.type.target);
  };
  for (const [name, text] of Object.entries(env)) note(text, rowOfVariable(process, name));
  argv.forEach((argument, at) => {
    const { typed, text = argv[at + 1] } = splitWord(argument);
    note(text, rowsOf(process).find(([, { flags, olderFlags }]) => [...flags, ...olderFlags].includes(typed))?.[1]);
  });
  return {
    homeDir: '/tmp',
    env: {},
    kindOf: (path) => {
      const kind = targets.get(path)?.kind ?? 'none';
      return kind === 'file or folder' ? 'folder' : kind;
    },
    readText: () => {
      throw new Error('the file is on a machine that does not exist yet: give the JSON itself');
    },
    sizeBytes: (path) => targets.get(path)?.sizeBytes ?? 0,
    interfaces: () => ({}),
  };
}

/**
 * Returns what is wrong with a variable for `process` on a machine that cannot be asked, as in a deployment; undefined
 * if it would be accepted there.
 */
export function faultOfVariable(process: Process, variable: string, text: string): VariableFault | undefined {
  const row = rowOfVariable(process, variable);
  if (row === undefined) return faultOfName(process, variable);
  if (row.type.isSecret)
    return { kind: 'secret', says: 'is a secret, and anyone who can see the deployment can read it' };
  if (hideUrlPassword(text) !== text) return { kind: 'secret', says: 'holds a password in its URL' };
  if (text === '' && !row.type.emptyIsValue) return { kind: 'value', says: 'is empty, which counts as unset' };
  const parsed = row.type.parse([text], machineToCome(process, { [variable]: text }));
  if (parsed.ok) return undefined;
  return { kind: 'value', says: `${JSON.stringify(text)}: ${parsed.fault}; allowed: ${describeAllowed(row)}` };
}

function faultOfName(process: Process, variable: string): VariableFault {
  const others = PROCESSES.filter((other) => rowOfVariable(other, variable) !== undefined);
  if (others.length > 0) return { kind: 'elsewhere', says: `is read by ${others.join(', ')}` };
  const unbuilt = findUnbuilt(variable);
  if (unbuilt !== undefined) {
    return { kind: 'unbuilt', says: sayUnbuilt(variable, unbuilt).slice(variable.length + 1) };
  }
  const nearest = nearestName(
    variable,
    rowsOf(process).flatMap(([, { env }]) => env),
  );
  const hint = nearest === undefined ? 'docs/configuration.md lists them all' : `did you mean ${nearest}?`;
  return { kind: 'unknown', says: `unknown variable; ${hint}` };
}
