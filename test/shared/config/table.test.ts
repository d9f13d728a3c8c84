import { isDeepStrictEqual } from 'node:util';
import { describe, expect, expectTypeOf, it } from 'vitest';
import { PROCESSES, type Row, resolveConfig, type Settings, TABLE } from '../../../shared/config/index.ts';
import { GROUPS } from '../../../shared/config/table.ts';
import { machineWith } from './surroundings.ts';

const rows = [...TABLE];

function duplicates(names: readonly string[]): readonly string[] {
  return names.filter((name, at) => names.indexOf(name) !== at);
}

function camelCase(name: string): string {
  const words = name
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .filter(Boolean);
  return words.map((word, at) => (at === 0 ? word : word[0]?.toUpperCase() + word.slice(1))).join('');
}

/** The name that a row should have, without its unit. */
function derivedName(row: Row): string {
  const flag = row.flags[0]?.replace(/^--(dyn-)?/, '');
  const variable = row.env[0]?.replace(/^(DYN|STATOR)_/, '').replace(/_ENV$/, '');
  return camelCase(flag ?? variable ?? '');
}

function namesWhere(matches: (row: Row) => boolean): readonly string[] {
  return rows.filter(([, row]) => matches(row)).map(([name]) => name);
}

/** Whether the row would take each of its defaults as a user's text. Files are left out: they need not exist here. */
function defaultsPass(row: Row): boolean {
  if (row.type.name.includes('file') || row.type.name === 'folder') return true;
  const values = [row.default, ...Object.values(row.defaultFor)].filter((value) => value !== undefined);
  return values.every((value) => {
    const parts = Array.isArray(value) && row.type.name !== 'JSON list';
    const parsed = row.type.parse(parts ? value.map(String) : [row.type.show(value)], machineWith());
    return parsed.ok && isDeepStrictEqual(parsed.value, value);
  });
}

describe('configuration table', () => {
  it('puts every row into exactly one group', () => {
    const names = GROUPS.flatMap((group) => group.rows.map(([name]) => name));
    expect(duplicates(names)).toEqual([]);
    expect([...names].sort()).toEqual([...TABLE.keys()].sort());
  });

  it.each(PROCESSES)('gives no two settings of %s the same flag or variable', (process) => {
    const own = rows.filter(([, row]) => row.usedBy.includes(process)).map(([, row]) => row);
    expect(duplicates(own.flatMap((row) => [...row.flags, ...row.olderFlags]))).toEqual([]);
    expect(duplicates(own.flatMap((row) => [...row.env, ...row.olderEnv]))).toEqual([]);
  });

  it('gives no variable to two settings', () => {
    expect(duplicates(rows.flatMap(([, row]) => [...row.env, ...row.olderEnv]))).toEqual([]);
  });

  it('describes every row and says where it comes from and who reads it', () => {
    const isComplete = (row: Row) => /^.{6,}\.$/.test(row.about) && row.usedBy.length > 0 && row.source !== '';
    expect(namesWhere((row) => !isComplete(row))).toEqual([]);
  });

  it('gives every row a name in the house style', () => {
    const flags = rows.flatMap(([, row]) => [...row.flags, ...row.olderFlags]);
    expect(flags.filter((flag) => !/^(--[a-z0-9]+(-[a-z0-9]+)*|-[a-z])$/.test(flag))).toEqual([]);
    const variables = rows.flatMap(([, row]) => [...row.env, ...row.olderEnv]);
    expect(variables.filter((variable) => !/^[A-Z][A-Z0-9_]+$/.test(variable))).toEqual([]);
    const isNamed = (row: Row) => row.flags.length + row.env.length > 0 || row.type.arity === 'rest';
    expect(namesWhere((row) => !isNamed(row))).toEqual([]);
  });

  it('has only defaults that pass their own validation', () => {
    expect(namesWhere((row) => !defaultsPass(row))).toEqual([]);
  });

  it('names every setting after its first flag or variable, with its unit', () => {
    const odd = rows.filter(([name, row]) => {
      const stem = derivedName(row).replace(/(S|Secs|Ms)$/, '');
      return row.type.arity !== 'rest' && name !== 'routerEndpoint' && !new RegExp(`^${stem}(S|Secs|Ms)?$`).test(name);
    });
    expect(odd.map(([name]) => name)).toEqual([]);
  });

  it('ends the name of every time in its unit', () => {
    const isTime = (row: Row) => / m?s( |$)/.test(row.type.name);
    const odd = rows.filter(([name, row]) => isTime(row) && !/(Secs|Seconds|S|Ms)$/.test(name));
    expect(odd.map(([name]) => name)).toEqual([]);
  });

  it('types the resolved settings of a process from its rows', () => {
    expectTypeOf<Settings<'frontend'>['httpPort']>().toEqualTypeOf<number>();
    expectTypeOf<Settings<'frontend'>['modelName']>().toEqualTypeOf<string | undefined>();
    expectTypeOf<Settings<'frontend'>['routerQueueThreshold']>().toEqualTypeOf<number | 'auto' | null>();
    expectTypeOf<Settings<'worker'>['planeTls']>().toEqualTypeOf<'auto' | 'on' | 'off'>();
    expectTypeOf<Settings<'worker'>['mockOutput']>().toEqualTypeOf<'text' | 'random'>();
    expectTypeOf<Settings<'function'>>().not.toHaveProperty('httpPort');
    expectTypeOf<Settings<'frontend'>>().not.toHaveProperty('seed');
  });

  it.each(PROCESSES)('resolves every setting of %s from nothing', (process) => {
    const { settings, warnings } = resolveConfig(process, [], {}, { allowMissing: true });
    const expected = rows.filter(([, row]) => row.usedBy.includes(process)).map(([name]) => name);
    expect(Object.keys(settings).sort()).toEqual(expected.sort());
    expect(warnings.filter((warning) => !warning.startsWith('discovery is in memory'))).toEqual([]);
  });
});
