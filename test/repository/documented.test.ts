import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { TABLE } from '../../shared/config/index.ts';
import { routesOf } from '../../shared/frontends/http/route-table.ts';
import { defaultHttpSettings } from '../support/http-settings.ts';

// What Dynamo documents of its settings, routes and behaviour: a line each in test/fixtures/documented, with the test that holds it.

interface Line {
  /** The file of the test, and its title as it is written there. */
  readonly test: string;
  readonly title: string;
  /** Which row of a test with several it is, as it is written there. */
  readonly case?: string;
  readonly says: string;
}

interface SettingLine extends Line {
  /** Every flag and variable of the row, as the table has them. */
  readonly names: readonly string[];
}

interface RouteLine extends Line {
  /** `METHOD path`, with `{id}` for what varies. */
  readonly route: string;
}

function linesOf<T extends Line>(file: string): readonly T[] {
  const text = readFileSync(new URL(`../fixtures/documented/${file}.jsonl`, import.meta.url), 'utf8');
  return text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as T);
}

const settings = linesOf<SettingLine>('settings');
const routes = linesOf<RouteLine>('routes');
const behaviour = linesOf<Line>('behaviour');

const sources = new Map<string, string>();

function sourceOf(test: string): string {
  const known = sources.get(test) ?? readFileSync(new URL(`../../${test}`, import.meta.url), 'utf8');
  sources.set(test, known);
  return known;
}

/** Why the test of a line does not hold it; undefined = it may. */
function faultOf({ test, title, says, case: row }: Line): string | undefined {
  if (!/^[A-Z-].*\.$/.test(says)) return `${says}: is no sentence`;
  if (!/^test\/.*\.test\.ts$/.test(test)) return `${says}: ${test} is no file of tests`;
  let source: string;
  try {
    source = sourceOf(test);
  } catch {
    return `${says}: there is no ${test}`;
  }
  const written = title.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&');
  if (!new RegExp(`\\(\\s*(['"\`])${written}\\1`).test(source)) return `${says}: ${test} has no test "${title}"`;
  if (row !== undefined && !source.includes(row)) return `${says}: ${test} has no row ${row}`;
  return undefined;
}

function faultsOf(lines: readonly Line[]): readonly string[] {
  return lines.flatMap((line) => faultOf(line) ?? []);
}

describe('what Dynamo documents', () => {
  it('of settings has a line with a test that is there, for every row of the table that is Dynamo’s', () => {
    const lines = new Map(settings.map(({ names }) => [names.join(' '), names]));
    expect(lines.size, 'a setting has two lines').toBe(settings.length);
    const rows = [...TABLE.values()]
      .filter(({ source }) => source.startsWith('Dynamo'))
      .flatMap(({ flags, env }) => (flags.length + env.length === 0 ? [] : [[...flags, ...env].join(' ')]));
    const without = rows.filter((names) => !lines.has(names));
    expect(without, 'add a line to test/fixtures/documented/settings.jsonl').toEqual([]);
    const gone = [...lines.keys()].filter((names) => !rows.includes(names));
    expect(gone, 'a line of test/fixtures/documented/settings.jsonl is of no row').toEqual([]);
    expect(faultsOf(settings)).toEqual([]);
  });

  it('of routes has a line with a test that is there, for every route of a frontend', () => {
    const served = routesOf({ ...defaultHttpSettings, anthropic: { isEnabled: true, stripsPreamble: true } });
    const operations = served.flatMap(({ operations: each, pattern }) =>
      each.length > 0 ? each.map(({ method, path }) => `${method.toUpperCase()} ${path}`) : [`GET ${pattern}`],
    );
    const files = /^GET \/(docs\/.*|console\/(:file)?)$/; // below the page itself
    const pages = operations.filter((operation) => !files.test(operation));
    expect(routes.map(({ route }) => route).sort(), 'test/fixtures/documented/routes.jsonl').toEqual(pages.sort());
    expect(faultsOf(routes)).toEqual([]);
  });

  it('of behaviour has a line with a test that is there', () => {
    expect(new Set(behaviour.map(({ says }) => says)).size).toBe(behaviour.length);
    expect(faultsOf(behaviour)).toEqual([]);
  });

  it.each([
    [{ test: 'test/e2e/none.test.ts' }, 'there is no test/e2e/none.test.ts'],
    [{ test: 'docs/kserve.md' }, 'docs/kserve.md is no file of tests'],
    [{ title: 'is held by nobody at all'.slice(0, -4) }, 'has no test "is held by nobody at'],
    [{ case: "'--no-such-flag'" }, "has no row '--no-such-flag'"],
    [{ says: 'nothing' }, 'nothing: is no sentence'],
  ])('is not held by what is not there: %j', (wrong, fault) => {
    const line = { ...settings[0]!, ...wrong };
    expect(faultOf(line)).toContain(fault);
  });
});
